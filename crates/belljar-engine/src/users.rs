//! Chooses the user of each sandbox: a number that no account and no other sandbox on the machine has.
//!
//! The kernel counts inotify instances, descriptors in flight, pending signals, pipe pages and processes for each user,
//! so sandboxes of one user could exhaust them for each other. Numbers are random, and each is reserved on this machine
//! while its sandbox exists. An engine on another machine may serve bridges on several machines, which do not see each
//! other's reservations: there, only chance keeps the numbers apart.
//!
//! Podman's `userns=auto` is not used. A rootful service of Podman 4 refuses it unless the machine reserves a range of
//! users for containers. A rootless first start took 16 s with it, since Podman copies the image to change the owners
//! of its files.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::UnixStream;

use super::spec::User;

/// Numbers for containers without a user namespace, which are users of the machine. Directory services use numbers up
/// to 2,000,200,000, and systemd reserves those from 0x7FFE_0000 on; Docker accepts none above 0x7FFF_FFFF.
pub(super) const OF_MACHINE: Range<u32> = 0x7800_0000..0x7FFE_0000;
/// Numbers in every usual mapping of 65,536 users, above the accounts of images and below `nobody`.
const USUALLY_MAPPED: Range<u32> = 10_000..65_534;
/// The smallest end of a mapping from which numbers are chosen.
const MAPPED_MIN: u32 = 12_000;

/// The reservation of a user number on this machine. It ends when this value is dropped, or when the process ends.
///
/// The reservation is the name of an abstract socket: the kernel gives a name to only one process of the machine at a
/// time, and frees it when that process ends, so nothing has to be cleaned up.
#[derive(Debug)]
pub(super) struct Reservation {
    _name: UnixDatagram,
}

/// How many numbers are tried before one is used without a reservation, for example on a system without abstract
/// sockets.
const RESERVE_TRIES: usize = 16;

/// A random number of the range that no other sandbox has, and its reservation.
pub(super) fn reserve(range: &Range<u32>) -> (u32, Option<Reservation>) {
    for _ in 0..RESERVE_TRIES {
        let uid = random(range);
        match bind_name(&format!("belljar-user-{uid}")) {
            Ok(name) => return (uid, Some(Reservation { _name: name })),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => {
                tracing::debug!(%error, uid, "the number of a sandbox's user is not reserved");
                return (uid, None);
            }
        }
    }
    (random(range), None)
}

#[cfg(target_os = "linux")]
fn bind_name(name: &str) -> std::io::Result<UnixDatagram> {
    use std::os::linux::net::SocketAddrExt;
    UnixDatagram::bind_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)
}

#[cfg(not(target_os = "linux"))]
fn bind_name(_: &str) -> std::io::Result<UnixDatagram> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// A possible user for one sandbox.
#[derive(Debug)]
pub(super) struct Candidate {
    /// The index of its range, for [`UserRanges::accept`].
    pub(super) place: usize,
    /// The user.
    pub(super) user: User,
    /// The reservation, to be held while the sandbox exists; `None`: numbers cannot be reserved.
    pub(super) reservation: Option<Reservation>,
}

/// The ranges from which one engine's users may be chosen. The range that is most likely to be accepted comes first.
#[derive(Debug)]
pub(super) struct UserRanges {
    ranges: Vec<Range<u32>>,
    /// The index of the first range that the engine has not refused.
    accepted: AtomicUsize,
}

impl UserRanges {
    /// The ranges for the engine at this address. If they are unknown, the engine's refusals decide.
    pub(super) async fn at(address: &str) -> Self {
        let ranges = match address.strip_prefix("unix://") {
            Some(socket) => of_listener(socket).await,
            None => None,
        };
        let ranges = ranges.unwrap_or_else(|| vec![OF_MACHINE, USUALLY_MAPPED]);
        Self { ranges, accepted: AtomicUsize::new(0) }
    }

    /// Possible users for one sandbox, to be tried in this order. If the engine refuses all of them, [`User::SHARED`]
    /// remains.
    pub(super) fn candidates(&self) -> impl Iterator<Item = Candidate> {
        let first = self.accepted.load(Ordering::Relaxed);
        self.ranges.iter().enumerate().skip(first).map(|(place, range)| {
            let (uid, reservation) = reserve(range);
            Candidate { place, user: User { uid, ..User::SHARED }, reservation }
        })
    }

    /// Remembers that the engine has started a sandbox with a user of the range with this index.
    pub(super) fn accept(&self, place: usize) {
        self.accepted.store(place, Ordering::Relaxed);
    }

    /// Remembers that the engine has refused all candidates.
    pub(super) fn share(&self) {
        self.accept(self.ranges.len());
    }
}

/// The ranges for the engine whose process listens at this socket; `None`: the process does not reveal them.
async fn of_listener(socket: &str) -> Option<Vec<Range<u32>>> {
    let listener = UnixStream::connect(socket).await.ok()?.peer_cred().ok()?;
    let map = listener.pid().and_then(|pid| fs::read_to_string(format!("/proc/{pid}/uid_map")).ok());
    match map.as_deref().and_then(mapped_end) {
        Some(end) => Some(mapped(end).into_iter().collect()),
        // Root listens, and no mapping is known: the engine is rootful, or it maps users only for its containers.
        None if listener.uid() == 0 => None,
        // A service manager of an ordinary user, or a proxy, listens: the engine behind it most likely belongs to that
        // user.
        None => Some(vec![USUALLY_MAPPED]),
    }
}

/// The end of the numbers from 0 that a user namespace maps; `None` for the machine's own namespace, which maps all.
pub(super) fn mapped_end(uid_map: &str) -> Option<u32> {
    let mut rows: Vec<(u64, u64)> = uid_map
        .lines()
        .filter_map(|line| {
            let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().ok());
            let (inside, _, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
            Some((inside, inside + count))
        })
        .collect();
    rows.sort_unstable();
    let end = rows.into_iter().fold(0, |end, (first, after)| if first <= end { end.max(after) } else { end });
    u32::try_from(end).ok().filter(|end| (1..u32::MAX).contains(end))
}

/// The range for sandboxes in a mapping of the numbers up to `end`; `None`: the mapping is too small.
pub(super) fn mapped(end: u32) -> Option<Range<u32>> {
    let many = 2 * (u32::from(u16::MAX) + 1);
    if end > many {
        return Some(many / 2..end.min(OF_MACHINE.end));
    }
    (end >= MAPPED_MIN).then(|| USUALLY_MAPPED.start..end.min(USUALLY_MAPPED.end))
}

fn random(range: &Range<u32>) -> u32 {
    // Each hasher has new keys, which come from the system's source of randomness at first.
    let word = RandomState::new().build_hasher().finish();
    let place = word % u64::from(range.end - range.start);
    // The value is below the length of the range, so it fits.
    range.start + u32::try_from(place).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_of_an_engine_decides_the_range() {
        let range = |map: &str| mapped_end(map).map(mapped);
        assert_eq!(range("         0          0 4294967295\n"), None);
        assert_eq!(range(""), None);
        assert_eq!(range("0 1000 1\n1 700000 65536\n"), Some(Some(10_000..65_534)));
        assert_eq!(range("1 700000 65536\n0 1000 1\n"), Some(Some(10_000..65_534)));
        assert_eq!(range("0 100000 20000\n"), Some(Some(10_000..20_000)));
        assert_eq!(range("0 1000 1\n"), Some(None));
        assert_eq!(range("0 1000 1\n5000 700000 65536\n"), Some(None));
        assert_eq!(range("0 100000 1000000\n"), Some(Some(65_536..1_000_000)));
    }

    #[test]
    fn numbers_are_random_and_in_their_range() {
        let users = UserRanges { ranges: vec![OF_MACHINE, 10_000..10_002], accepted: AtomicUsize::new(0) };
        let numbers: Vec<u32> = (0..20).map(|_| users.candidates().next().unwrap().user.uid).collect();
        assert!(numbers.iter().all(|number| OF_MACHINE.contains(number)), "{numbers:?}");
        assert!(numbers.iter().collect::<std::collections::BTreeSet<_>>().len() > 15, "{numbers:?}");
        let second: Vec<u32> = (0..40).map(|_| users.candidates().nth(1).unwrap().user.uid).collect();
        assert!(second.iter().all(|number| [10_000, 10_001].contains(number)), "{second:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reserved_numbers_are_not_given_twice() {
        // No engine uses this range, so sandboxes of this machine reserve none of it.
        let range = 3_000_000_000..3_000_000_002;
        let mut held: Vec<(u32, Reservation)> = Vec::new();
        while held.len() < 2 {
            let (uid, reservation) = reserve(&range);
            // Sixteen tries may miss the only free number.
            held.extend(reservation.map(|reservation| (uid, reservation)));
        }
        assert_ne!(held[0].0, held[1].0);
        assert!(reserve(&range).1.is_none(), "both are taken");
        let (freed, _) = held.pop().unwrap();
        let again = std::iter::repeat_with(|| reserve(&range)).find(|(_, reservation)| reservation.is_some());
        assert_eq!(again.unwrap().0, freed);
    }

    #[test]
    fn refused_ranges_are_not_tried_again() {
        let users = UserRanges { ranges: vec![OF_MACHINE, USUALLY_MAPPED], accepted: AtomicUsize::new(0) };
        let places = || users.candidates().map(|candidate| candidate.place).collect::<Vec<_>>();
        assert_eq!(places(), [0, 1]);
        users.accept(1);
        assert_eq!(places(), [1]);
        users.share();
        assert_eq!(places(), [0; 0]);
    }

    #[tokio::test]
    async fn listener_of_this_user_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine.sock");
        let _listener = tokio::net::UnixListener::bind(&path).unwrap();
        let ranges = of_listener(path.to_str().unwrap()).await;
        // The expected value depends on the user and the machine of the test.
        let own = fs::read_to_string("/proc/self/uid_map").ok().and_then(|map| mapped_end(&map));
        let expected = match own {
            Some(end) => Some(mapped(end).into_iter().collect()),
            None => (!nix::unistd::getuid().is_root()).then(|| vec![USUALLY_MAPPED]),
        };
        assert_eq!(ranges, expected);
        assert_eq!(of_listener("/nowhere").await, None);
    }
}
