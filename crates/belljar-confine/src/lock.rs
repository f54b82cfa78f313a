//! Removes capabilities and access to files and other processes from this process and its descendants, for good.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, Scope,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
};

/// The requested version of Landlock. An older kernel enforces the part that it supports.
const LANDLOCK: ABI = ABI::V6;

/// Keeps the capabilities of the new user namespace when another program is executed.
///
/// # Errors
/// The kernel refuses.
pub fn keep_capabilities() -> io::Result<()> {
    let sets = capabilities(None)?;
    set_capabilities(None, CapabilitySets { inheritable: sets.permitted, ..sets })?;
    for capability in each(sets.permitted) {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Drops all capabilities for good.
///
/// # Errors
/// The kernel refuses.
pub fn drop_capabilities() -> io::Result<()> {
    clear_ambient_capability_set()?;
    for capability in each(CapabilitySet::from_bits_retain(u64::MAX)) {
        match capability_is_in_bounding_set(capability) {
            Ok(true) => remove_capability_from_bounding_set(capability)?,
            Ok(false) => {}
            // The kernel has no capability with this number or a higher one.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

fn each(set: CapabilitySet) -> impl Iterator<Item = CapabilitySet> {
    let bits = (0..u64::BITS).map(|number| 1 << number).filter(move |bit| set.bits() & bit != 0);
    bits.map(CapabilitySet::from_bits_retain)
}

/// Sets these limits, each at most at this process's own limit.
///
/// # Errors
/// The kernel refuses.
pub fn limit(limits: &[(Resource, u64)]) -> nix::Result<()> {
    for (resource, value) in limits {
        let value = (*value).min(getrlimit(*resource)?.1);
        setrlimit(*resource, value, value)?;
    }
    Ok(())
}

/// The rights that Landlock leaves to a process beside reading files.
#[derive(Debug)]
pub struct FileRights<'a> {
    /// Folders in which files can be executed.
    pub executable: &'a [&'a str],
    /// Files and folders that can be changed, in addition to existing files in /dev.
    pub writable: Vec<String>,
    /// Whether it can use TCP.
    pub tcp: bool,
}

/// Restricts which files can be changed and executed. Signals and connections to abstract sockets are limited to this
/// process and its descendants. A kernel without Landlock restricts nothing: the namespaces remain.
///
/// # Errors
/// The kernel's.
pub fn restrict_files(allowed: &FileRights<'_>) -> io::Result<()> {
    restrict(allowed).map_err(io::Error::other)
}

fn restrict(allowed: &FileRights<'_>) -> Result<(), landlock::RulesetError> {
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let change: BitFlags<AccessFs> = AccessFs::WriteFile | AccessFs::Truncate;
    let never = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock;
    let all = AccessFs::from_all(LANDLOCK);
    let mut ruleset = Ruleset::default().handle_access(all)?;
    if !allowed.tcp {
        ruleset = ruleset.handle_access(AccessNet::from_all(LANDLOCK))?;
    }
    let mut ruleset = ruleset.scope(Scope::from_all(LANDLOCK))?.create()?;
    let programs = allowed.executable.iter().map(|path| (*path, read | AccessFs::Execute));
    let writable = allowed.writable.iter().map(|path| (path.as_str(), all & !never));
    let others = [("/", read), ("/dev", change | AccessFs::IoctlDev)];
    for (path, rights) in programs.chain(writable).chain(others) {
        // A path that does not exist needs no rule.
        let Ok(place) = PathFd::new(path) else { continue };
        // Some rights exist for folders only.
        let rights = if Path::new(path).is_dir() { rights } else { rights & AccessFs::from_file(LANDLOCK) };
        ruleset = ruleset.add_rule(PathBeneath::new(place, rights))?;
    }
    ruleset.restrict_self()?;
    Ok(())
}

/// Whether the kernel can block connections to abstract sockets of other processes in the same network namespace.
#[must_use]
pub fn scopes_abstract_sockets() -> bool {
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    required.scope(Scope::AbstractUnixSocket).is_ok()
}
