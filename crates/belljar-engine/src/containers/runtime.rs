//! The OCI runtime of an engine: its name, and whether its version is known to let code escape.
//!
//! It refuses no version, since distributions fix old versions without changing the number.

use bollard::models::SystemVersionComponents;

use super::super::interface::Runtime;

/// Finds the runtime. Docker lists it by its name, Podman as `OCI Runtime (crun)` with a description.
pub(super) fn among(components: &[SystemVersionComponents]) -> Option<Runtime> {
    components.iter().find_map(|component| {
        let name = component.name.strip_prefix("OCI Runtime (").and_then(|name| name.strip_suffix(')'));
        let name = name.or(Some(&*component.name).filter(|name| ["runc", "crun"].contains(name)))?;
        let said = component.version.lines().next().unwrap_or_default();
        let version = said.split_whitespace().last().unwrap_or("of unknown version");
        Some(Runtime { name: name.to_owned(), version: version.to_owned() })
    })
}

impl Runtime {
    /// One sentence on why a newer version is needed; `None`: it is not.
    #[must_use]
    pub fn why_update(&self) -> Option<&'static str> {
        // crun is not affected, as its developers say. Its own defect (CVE-2025-24965) is in another handler, krun.
        (self.name == "runc" && runc_lets_out(&self.version)).then_some(
            "older than 1.2.8, 1.3.3 and 1.4.0, which close ways out of containers (CVE-2025-31133, CVE-2025-52565, \
             CVE-2025-52881): update it, unless your distribution has mended it under this number",
        )
    }
}

/// Whether the advisories of November 2025 apply to a version; 1.1 and earlier are not fixed. A later defect
/// (CVE-2026-41579) needs a malicious image.
fn runc_lets_out(version: &str) -> bool {
    let (release, candidate) = match version.split_once("-rc.") {
        Some((release, candidate)) => (release, number(candidate)),
        None => (version, None),
    };
    let numbers: Vec<u64> = release.split('.').take(3).map_while(number).collect();
    match numbers[..] {
        [0, ..] | [1, 0 | 1, ..] => true,
        [1, 2, patch] => patch < 8,
        [1, 3, patch] => patch < 3,
        [1, 4, 0] => candidate.is_some_and(|candidate| candidate < 3),
        _ => false,
    }
}

/// The number at the beginning of a text: 5 for `5+ds1`.
fn number(text: &str) -> Option<u64> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runc_is_old_before_the_versions_that_its_advisories_name() {
        for old in
            ["0.1.1", "1.0.0-rc95", "1.1.5+ds1", "1.1.15", "1.2.7", "1.3.2", "1.4.0-rc.2", "1.4.0-rc.1+dev"]
        {
            assert!(runc_lets_out(old), "{old}");
        }
        for new in [
            "1.2.8",
            "1.2.10",
            "1.3.3+ds1",
            "1.4.0-rc.3",
            "1.4.0",
            "1.4.0+ds1-1",
            "1.5.2",
            "2.0.0",
            "",
            "odd",
        ] {
            assert!(!runc_lets_out(new), "{new}");
        }
    }

    #[test]
    fn engines_name_their_runtime_in_their_own_ways() {
        let component = |name: &str, version: &str| SystemVersionComponents {
            name: name.into(),
            version: version.into(),
            details: None,
        };
        let engine = component("Engine", "20.10.24");
        let found = |other| among(&[engine.clone(), other]);
        let runtime =
            |name: &str, version: &str| Some(Runtime { name: name.into(), version: version.into() });
        assert_eq!(found(component("runc", "1.1.5+ds1")), runtime("runc", "1.1.5+ds1"));
        let said = "crun version 1.8.1\ncommit: f8a096be\nspec: 1.0.0\n+SYSTEMD";
        assert_eq!(found(component("OCI Runtime (crun)", said)), runtime("crun", "1.8.1"));
        assert_eq!(found(component("OCI Runtime (runc)", "")), runtime("runc", "of unknown version"));
        assert_eq!(found(component("containerd", "1.6.20")), None);
        // Although the version is old.
        assert_eq!(runtime("crun", "0.1").unwrap().why_update(), None);
        assert!(runtime("runc", "1.1.5+ds1").unwrap().why_update().unwrap().contains("update it"));
    }
}
