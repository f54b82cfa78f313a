//! Chooses the user that owns a sandbox's processes on the machine, and maps the sandbox's user to that number.
//!
//! If the bridge runs as root, it is a number that no account and no other sandbox has. Otherwise it is a subordinate
//! number of the user, or the user's own number if there is no subordinate one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::{getegid, geteuid, getgid};

use super::super::spec::User;
use super::super::users::{OF_MACHINE, Reservation, mapped, mapped_end, reserve};

/// The user of a sandbox's processes, inside the sandbox and on the machine.
#[derive(Debug)]
pub(super) struct Identity {
    /// The user inside the sandbox.
    pub(super) inside: User,
    outside: OutsideUser,
    /// Keeps the number from other sandboxes.
    _reservation: Option<Reservation>,
}

#[derive(Debug)]
enum OutsideUser {
    /// Any number, as only root can map it.
    Any(User),
    /// A subordinate number, which these programs map.
    Subordinate { user: User, helpers: [PathBuf; 2] },
    /// The bridge's own number, and the reason why it is no other.
    Own { why: String },
}

/// A range of a user's subordinate numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: u32,
    count: u32,
}

const HELPERS: [&str; 2] = ["newuidmap", "newgidmap"];
const HELPER_FOLDERS: [&str; 3] = ["/usr/bin", "/usr/sbin", "/usr/local/bin"];

impl Identity {
    /// Chooses an identity for a sandbox with this user; `None`: a user that no other sandbox has.
    pub(super) fn choose(wanted: Option<User>) -> Self {
        let inside = wanted.unwrap_or(User::SHARED);
        let of = |outside, reservation| Self { inside, outside, _reservation: reservation };
        if geteuid().is_root() {
            let end = fs::read_to_string("/proc/self/uid_map").ok().and_then(|map| mapped_end(&map));
            let range = end.map_or(Some(OF_MACHINE), mapped);
            return match (wanted, range) {
                // Files in writable folders have to belong to the same user in every sandbox.
                (Some(user), _) => of(OutsideUser::Any(user), None),
                (None, Some(range)) => {
                    let (number, reservation) = reserve(&range);
                    of(OutsideUser::Any(User { uid: number, gid: number }), reservation)
                }
                (None, None) => {
                    of(OutsideUser::Own { why: "this container maps too few users".into() }, None)
                }
            };
        }
        match subordinate() {
            Ok((ranges, helpers)) => {
                let (user, reservation) = match wanted {
                    Some(User { uid, gid }) => {
                        (User { uid: ranges[0].like_podman(uid), gid: ranges[1].like_podman(gid) }, None)
                    }
                    None => {
                        let [uids, gids] = ranges;
                        let (uid, reservation) = reserve(&(uids.start..uids.start + uids.count));
                        // The group has the same position in its range, if the range is large enough.
                        let gid = gids.start + (uid - uids.start).min(gids.count - 1);
                        (User { uid, gid }, reservation)
                    }
                };
                of(OutsideUser::Subordinate { user, helpers }, reservation)
            }
            Err(why) => of(OutsideUser::Own { why }, None),
        }
    }

    /// The reason why other processes of the machine have the same user, and what that allows code to do; `None`: they
    /// do not.
    pub(super) fn shared(&self) -> Option<String> {
        let OutsideUser::Own { why } = &self.outside else { return None };
        Some(format!(
            "code runs as your own user {} and in your groups, so it can read what only they can read below /usr, and of \
             your other files those mounted: {why}; to have it run as another user, install newuidmap and newgidmap \
             (`sudo apt-get install uidmap`) and give yourself subordinate numbers (`sudo usermod --add-subuids \
             100000-165535 --add-subgids 100000-165535 $USER`)",
            geteuid()
        ))
    }

    /// Whether the bridge's supplementary groups can be dropped.
    pub(super) fn drops_groups(&self) -> bool {
        !matches!(self.outside, OutsideUser::Own { .. })
    }

    /// Maps the user in the user namespace of the sandbox's first process, which has this number.
    pub(super) async fn map(&self, pid: u32) -> io::Result<()> {
        let User { uid, gid } = self.inside;
        let write = |file: &str, text: String| fs::write(format!("/proc/{pid}/{file}"), text);
        match &self.outside {
            OutsideUser::Any(user) => {
                write("gid_map", format!("{gid} {} 1\n", user.gid))?;
                write("uid_map", format!("{uid} {} 1\n", user.uid))
            }
            OutsideUser::Subordinate { user, helpers: [uids, gids] } => {
                run(gids, pid, gid, user.gid).await?;
                run(uids, pid, uid, user.uid).await
            }
            OutsideUser::Own { .. } => {
                write("setgroups", "deny".into())?;
                write("gid_map", format!("{gid} {} 1\n", getegid()))?;
                write("uid_map", format!("{uid} {} 1\n", geteuid()))
            }
        }
    }
}

impl Range {
    /// The number on the machine to which rootless Podman maps this number of a container.
    fn like_podman(self, inside: u32) -> u32 {
        self.start + inside.saturating_sub(1).min(self.count - 1)
    }
}

/// The user's subordinate users and groups, and the programs that map them. The error names what is missing.
fn subordinate() -> Result<([Range; 2], [PathBuf; 2]), String> {
    let program =
        |name: &&str| HELPER_FOLDERS.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.is_file());
    let [Some(uids), Some(gids)] = [program(&HELPERS[0]), program(&HELPERS[1])] else {
        return Err("newuidmap is not installed".into());
    };
    let account = nix::unistd::User::from_uid(geteuid()).ok().flatten();
    if account.as_ref().is_some_and(|account| account.gid != getgid()) {
        // As after `newgrp`.
        return Err("newgidmap maps nothing while your group is not the one of your account".into());
    }
    let name = account.map(|account| account.name);
    let range = |file: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        range_of(&text, name.as_deref(), geteuid().as_raw())
            .ok_or_else(|| format!("{file} has no range for you"))
    };
    Ok(([range("/etc/subuid")?, range("/etc/subgid")?], [uids, gids]))
}

/// The first range of a user, by name or number.
fn range_of(text: &str, name: Option<&str>, uid: u32) -> Option<Range> {
    text.lines().find_map(|line| {
        let mut fields = line.trim().splitn(3, ':');
        let owner = fields.next()?;
        let is_own = Some(owner) == name || owner.parse() == Ok(uid);
        let (start, count) = (fields.next()?.parse().ok()?, fields.next()?.parse::<u32>().ok()?);
        (is_own && count > 0 && u32::checked_add(start, count).is_some()).then_some(Range { start, count })
    })
}

async fn run(program: &Path, pid: u32, inside: u32, outside: u32) -> io::Result<()> {
    let numbers = [pid, inside, outside, 1].map(|number| number.to_string());
    let ran = tokio::process::Command::new(program).args(numbers).output().await?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(io::Error::other(format!("{}: {}", program.display(), said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_by_name_or_number() {
        let text = "other:100000:65536\nme:165536:65536\n1000:300000:10\n";
        let range = |name, uid| range_of(text, name, uid);
        assert_eq!(range(Some("me"), 7), Some(Range { start: 165_536, count: 65_536 }));
        assert_eq!(range(None, 1000), Some(Range { start: 300_000, count: 10 }));
        assert_eq!(range(Some("nobody"), 7), None);
        assert_eq!(range_of("me:5:0\nme:x:9\nme:4294967295:9\n", Some("me"), 7), None);
    }

    #[test]
    fn numbers_are_mapped_as_rootless_podman_maps_them() {
        let range = Range { start: 100_000, count: 65_536 };
        assert_eq!(range.like_podman(65_534), 165_533);
        assert_eq!(range.like_podman(4_000_000), 165_535);
    }
}
