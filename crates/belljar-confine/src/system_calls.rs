//! The system call filter of confined processes. An interpreter adds its own, narrower one.
//!
//! It allows the calls that container engines allow to processes without capabilities, and refuses all others. It also
//! refuses asynchronous input and output, of which the machine has a limited amount, and the flush of whole disks.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: TargetArch = TargetArch::x86_64;
#[cfg(not(target_arch = "x86_64"))]
const ARCHITECTURE: TargetArch = TargetArch::aarch64;

/// Flags for new namespaces, which are refused.
const NAMESPACES: u64 = 0x7E02_0000;
/// The allowed personalities: Linux, with or without 32-bit addresses and UNAME26, and the query of the present one.
const PERSONALITIES: [u64; 5] = [0, 8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF];
/// The family of sockets between a virtual machine and its host.
const AF_VSOCK: u64 = 40;
const AF_UNIX: u64 = 1;
/// The bits of a socket's type that hold its kind, and the kinds of socket pairs whose ends stay connected to each
/// other. An end of a pair of another kind can send to any socket by name.
const SOCKET_KIND: u64 = 0xF;
const PAIRED_KINDS: [u64; 2] = [libc::SOCK_STREAM as u64, libc::SOCK_SEQPACKET as u64];
/// Leases and notices of files: a lease delays every process that opens the file, on the whole machine.
const LEASES: [u64; 2] = [libc::F_SETLEASE as u64, libc::F_NOTIFY as u64];
/// Bits of a file's mode with which a program runs as the file's user or group. Outside of the sandbox they would have
/// an effect.
const SET_ID: u64 = (libc::S_ISUID | libc::S_ISGID) as u64;
/// A flag of `renameat2` that leaves a device in place of the file. Landlock does not ask for the right to make one.
const WHITEOUT: u64 = libc::RENAME_WHITEOUT as u64;
/// Flags with which a call that opens a file uses its mode argument.
const CREATES: u64 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u64;
/// Calls that set a mode, each with the index of the mode among its arguments.
const MODES: [(libc::c_long, u8); 3] =
    [(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (libc::SYS_mknodat, 2)];
#[cfg(target_arch = "x86_64")]
const MODES_HERE: [(libc::c_long, u8); 3] =
    [(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: [(libc::c_long, u8); 0] = [];
/// Calls that open a file, each with the index of the flags among its arguments. The mode comes next.
#[cfg(target_arch = "x86_64")]
const OPENING: [(libc::c_long, u8); 2] = [(libc::SYS_open, 1), (libc::SYS_openat, 2)];
#[cfg(not(target_arch = "x86_64"))]
const OPENING: [(libc::c_long, u8); 1] = [(libc::SYS_openat, 2)];

macro_rules! numbers {
    ($($name:ident)*) => { [$(libc::$name),*] };
}

/// Calls that are allowed with any arguments.
#[rustfmt::skip]
const ALLOWED: &[libc::c_long] = &numbers![
    SYS_accept SYS_accept4 SYS_adjtimex SYS_bind SYS_brk SYS_capget SYS_capset SYS_chdir SYS_clock_adjtime
    SYS_clock_getres SYS_clock_gettime SYS_clock_nanosleep SYS_close SYS_close_range SYS_connect SYS_copy_file_range
    SYS_dup SYS_dup3 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_execve
    SYS_execveat SYS_exit SYS_exit_group SYS_faccessat SYS_faccessat2 SYS_fadvise64 SYS_fallocate SYS_fchdir
    SYS_fchown SYS_fchownat SYS_fdatasync SYS_fgetxattr SYS_flistxattr SYS_flock
    SYS_fremovexattr SYS_fsetxattr SYS_fstat SYS_fstatfs SYS_fsync SYS_ftruncate SYS_futex SYS_futex_waitv SYS_getcpu
    SYS_getcwd SYS_getdents64 SYS_getegid SYS_geteuid SYS_getgid SYS_getgroups SYS_getitimer SYS_getpeername SYS_getpgid
    SYS_getpid SYS_getppid SYS_getpriority SYS_getrandom SYS_getresgid SYS_getresuid SYS_getrlimit SYS_get_robust_list
    SYS_getrusage SYS_getsid SYS_getsockname SYS_getsockopt SYS_gettid SYS_gettimeofday SYS_getuid SYS_getxattr
    SYS_inotify_add_watch SYS_inotify_init1 SYS_inotify_rm_watch SYS_ioctl
    SYS_ioprio_get SYS_ioprio_set SYS_kill SYS_landlock_add_rule SYS_landlock_create_ruleset
    SYS_landlock_restrict_self SYS_lgetxattr SYS_linkat SYS_listen SYS_listxattr SYS_llistxattr SYS_lremovexattr
    SYS_lseek SYS_lsetxattr SYS_madvise SYS_membarrier SYS_memfd_create SYS_mincore SYS_mkdirat SYS_mlock
    SYS_mlock2 SYS_mlockall SYS_mmap SYS_mprotect SYS_mremap SYS_msgctl SYS_msgget SYS_msgrcv SYS_msgsnd SYS_msync
    SYS_munlock SYS_munlockall SYS_munmap SYS_nanosleep SYS_newfstatat SYS_pidfd_open
    SYS_pidfd_send_signal SYS_pipe2 SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect SYS_ppoll SYS_prctl SYS_pread64
    SYS_preadv SYS_preadv2 SYS_prlimit64 SYS_pselect6 SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_read SYS_readahead
    SYS_readlinkat SYS_readv SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_remap_file_pages SYS_removexattr SYS_renameat
    SYS_restart_syscall SYS_rseq SYS_rt_sigaction SYS_rt_sigpending SYS_rt_sigprocmask SYS_rt_sigqueueinfo
    SYS_rt_sigreturn SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_rt_tgsigqueueinfo SYS_sched_getaffinity SYS_sched_getattr
    SYS_sched_getparam SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_getscheduler
    SYS_sched_rr_get_interval SYS_sched_setaffinity SYS_sched_setattr SYS_sched_setparam SYS_sched_setscheduler
    SYS_sched_yield SYS_seccomp SYS_semctl SYS_semget SYS_semop SYS_semtimedop SYS_sendfile SYS_sendmmsg SYS_sendmsg
    SYS_sendto SYS_setfsgid SYS_setfsuid SYS_setgid SYS_setgroups SYS_setitimer SYS_setpgid SYS_setpriority SYS_setregid
    SYS_setresgid SYS_setresuid SYS_setreuid SYS_setrlimit SYS_set_robust_list SYS_setsid SYS_setsockopt
    SYS_set_tid_address SYS_setuid SYS_setxattr SYS_shmat SYS_shmctl SYS_shmdt SYS_shmget SYS_shutdown SYS_sigaltstack
    SYS_signalfd4 SYS_socketpair SYS_splice SYS_statfs SYS_statx SYS_symlinkat SYS_sync_file_range
    SYS_sysinfo SYS_tee SYS_tgkill SYS_timer_create SYS_timer_delete SYS_timer_getoverrun SYS_timer_gettime
    SYS_timer_settime SYS_timerfd_create SYS_timerfd_gettime SYS_timerfd_settime SYS_times SYS_tkill SYS_truncate
    SYS_umask SYS_uname SYS_unlinkat SYS_utimensat SYS_vmsplice SYS_wait4 SYS_waitid SYS_write SYS_writev
];

#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_HERE: &[libc::c_long] = &numbers![
    SYS_access SYS_alarm SYS_arch_prctl SYS_chown SYS_dup2 SYS_epoll_create SYS_epoll_ctl_old
    SYS_epoll_wait SYS_epoll_wait_old SYS_eventfd SYS_fork SYS_futimesat SYS_getdents SYS_getpgrp SYS_inotify_init
    SYS_lchown SYS_link SYS_lstat SYS_mkdir SYS_modify_ldt SYS_pause SYS_pipe SYS_poll SYS_readlink
    SYS_rename SYS_rmdir SYS_select SYS_signalfd SYS_stat SYS_symlink SYS_time SYS_unlink SYS_utime SYS_utimes SYS_vfork
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[libc::c_long] = &[];

/// Installs the filter in this process, for good.
///
/// # Errors
/// The kernel refuses.
pub fn filter() -> std::io::Result<()> {
    let install = || {
        apply_filter(&allowing()?)?;
        apply_filter(&without_structures()?)
    };
    install().map_err(std::io::Error::other)
}

/// Forbids this process to create Unix sockets, except pairs whose ends reach no other socket.
///
/// # Errors
/// The kernel refuses.
pub fn forbid_unix_sockets() -> std::io::Result<()> {
    without_unix_sockets().and_then(|program| apply_filter(&program)).map_err(std::io::Error::other)
}

fn without_unix_sockets() -> Result<BpfProgram, Error> {
    let rule = |position, operator, value| {
        SeccompRule::new(vec![SeccompCondition::new(position, SeccompCmpArgLen::Dword, operator, value)?])
    };
    let others = (0..=SOCKET_KIND).filter(|kind| !PAIRED_KINDS.contains(kind));
    let pairs = others.map(|kind| rule(1, SeccompCmpOp::MaskedEq(SOCKET_KIND), kind));
    let rules = BTreeMap::from([
        (libc::SYS_socket, vec![rule(0, SeccompCmpOp::Eq, AF_UNIX)?]),
        (libc::SYS_socketpair, pairs.collect::<Result<_, _>>()?),
    ]);
    let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, ARCHITECTURE)?.try_into()?)
}

fn allowing() -> Result<BpfProgram, Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().chain(ALLOWED_HERE).map(|number| (*number, vec![])).collect();
    let argument =
        |length, operator, value| SeccompRule::new(vec![SeccompCondition::new(0, length, operator, value)?]);
    let (int, long) = (SeccompCmpArgLen::Dword, SeccompCmpArgLen::Qword);
    let personalities = PERSONALITIES.map(|value| argument(long.clone(), SeccompCmpOp::Eq, value));
    rules.insert(libc::SYS_personality, personalities.into_iter().collect::<Result<_, _>>()?);
    // The kernel reads an int here, so the upper half of the argument is ignored.
    rules.insert(libc::SYS_socket, vec![argument(int.clone(), SeccompCmpOp::Ne, AF_VSOCK)?]);
    rules.insert(libc::SYS_clone, vec![argument(long, SeccompCmpOp::MaskedEq(NAMESPACES), 0)?]);
    let is_other = LEASES.map(|command| SeccompCondition::new(1, int.clone(), SeccompCmpOp::Ne, command));
    let is_other = is_other.into_iter().collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_fcntl, vec![SeccompRule::new(is_other)?]);
    let modes = MODES.into_iter().chain(MODES_HERE).map(|(call, mode)| (call, mode, SET_ID));
    for (call, position, refused) in modes.chain([(libc::SYS_renameat2, 4, WHITEOUT)]) {
        let has_none = SeccompCondition::new(position, int.clone(), SeccompCmpOp::MaskedEq(refused), 0)?;
        rules.insert(call, vec![SeccompRule::new(vec![has_none])?]);
    }
    for (call, flags) in OPENING {
        let only_opens = SeccompCondition::new(flags, int.clone(), SeccompCmpOp::MaskedEq(CREATES), 0)?;
        let has_none = SeccompCondition::new(flags + 1, int.clone(), SeccompCmpOp::MaskedEq(SET_ID), 0)?;
        let either = [only_opens, has_none].map(|condition| SeccompRule::new(vec![condition]));
        rules.insert(call, either.into_iter().collect::<Result<_, _>>()?);
    }
    rules.extend(STRUCTURES.map(|call| (call, vec![])));
    let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    Ok(SeccompFilter::new(rules, refuse, SeccompAction::Allow, ARCHITECTURE)?.try_into()?)
}

/// Calls whose flags are in memory, which a filter cannot read. The filter reports that they do not exist, and
/// libraries then use older calls.
const STRUCTURES: [libc::c_long; 2] = [libc::SYS_clone3, libc::SYS_openat2];

fn without_structures() -> Result<BpfProgram, Error> {
    let absent = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let rules = STRUCTURES.map(|call| (call, vec![])).into();
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, absent, ARCHITECTURE)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOW: u32 = 0x7FFF_0000;

    /// The filter's verdict on a call with these arguments, from its classic BPF instructions.
    fn verdict(program: &BpfProgram, number: i64, arguments: &[u64]) -> u32 {
        let words = |value: u64| [value & 0xFFFF_FFFF, value >> 32].map(|word| u32::try_from(word).unwrap());
        let architecture = if cfg!(target_arch = "x86_64") { 0xC000_003E } else { 0xC000_00B7 };
        let mut data = vec![u32::try_from(number).unwrap(), architecture, 0, 0];
        data.extend(arguments.iter().chain([&0; 6]).take(6).flat_map(|argument| words(*argument)));
        let (mut at, mut value) = (0, 0);
        loop {
            let step = &program[at];
            at += 1;
            let holds = match step.code {
                0x20 => {
                    value = data[usize::try_from(step.k).unwrap() / 4];
                    continue;
                }
                0x54 => {
                    value &= step.k;
                    continue;
                }
                0x05 => {
                    at += usize::try_from(step.k).unwrap();
                    continue;
                }
                0x06 => return step.k,
                0x15 => value == step.k,
                0x25 => value > step.k,
                0x35 => value >= step.k,
                other => panic!("instruction {other:#x}"),
            };
            at += usize::from(if holds { step.jt } else { step.jf });
        }
    }

    #[test]
    fn arguments_are_compared_as_the_kernel_reads_them() {
        let program = allowing().unwrap();
        let allows = |number, argument| verdict(&program, number, &[argument]) == ALLOW;
        for upper in [0, 1 << 32, 0xFFFF_FFFF << 32] {
            assert!(allows(libc::SYS_socket, upper | 1), "{upper:#x}");
            assert!(!allows(libc::SYS_socket, upper | AF_VSOCK), "{upper:#x}");
            assert!(!allows(libc::SYS_clone, upper | 0x1000_0000), "{upper:#x}");
        }
        assert!(allows(libc::SYS_clone, 17));
        assert!(allows(libc::SYS_personality, 0xFFFF_FFFF));
        assert!(!allows(libc::SYS_personality, 0x40_0000));
        assert!(!allows(libc::SYS_ptrace, 0));
    }

    #[test]
    fn calls_that_reach_the_whole_machine_are_refused() {
        let program = allowing().unwrap();
        for number in [libc::SYS_io_setup, libc::SYS_io_submit, libc::SYS_sync, libc::SYS_syncfs] {
            assert_ne!(verdict(&program, number, &[]), ALLOW, "{number}");
        }
        assert_eq!(verdict(&program, libc::SYS_fsync, &[3]), ALLOW);
    }

    #[test]
    fn a_rename_that_leaves_a_device_is_refused() {
        let program = allowing().unwrap();
        for (flags, is_allowed) in [(0, true), (1, true), (2, true), (4, false), (5, false)] {
            let verdict = verdict(&program, libc::SYS_renameat2, &[3, 4096, 3, 8192, flags]);
            assert_eq!(verdict == ALLOW, is_allowed, "{flags}");
        }
    }

    #[test]
    fn leases_are_refused() {
        let program = allowing().unwrap();
        let allows = |command: u64| verdict(&program, libc::SYS_fcntl, &[3, command]) == ALLOW;
        for upper in [0, 1 << 32] {
            assert!(!allows(upper | libc::F_SETLEASE as u64));
            assert!(!allows(upper | libc::F_NOTIFY as u64));
            for command in [libc::F_GETFL, libc::F_SETLK, libc::F_GETLEASE, libc::F_DUPFD_CLOEXEC] {
                assert!(allows(upper | command as u64), "{command}");
            }
        }
    }

    #[test]
    fn pairs_that_can_send_to_a_name_are_refused_with_unix_sockets() {
        let program = without_unix_sockets().unwrap();
        let allows = |number, arguments: &[u64]| verdict(&program, number, arguments) == ALLOW;
        assert!(!allows(libc::SYS_socket, &[AF_UNIX, 1]) && allows(libc::SYS_socket, &[2, 1]));
        for flags in [0, libc::SOCK_CLOEXEC, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK] {
            let pair = |kind: i32| allows(libc::SYS_socketpair, &[AF_UNIX, (kind | flags) as u64]);
            assert!(pair(libc::SOCK_STREAM) && pair(libc::SOCK_SEQPACKET));
            for kind in [0, libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM, 4, 10, 15] {
                assert!(!pair(kind), "{kind}");
            }
        }
        assert!(!allows(libc::SYS_socketpair, &[AF_UNIX, 1 << 32 | libc::SOCK_DGRAM as u64]));
    }

    #[test]
    fn files_get_no_mode_that_gives_a_user_away() {
        let program = allowing().unwrap();
        let allows = |number, arguments: &[u64]| verdict(&program, number, arguments) == ALLOW;
        let (create, temporary) = (libc::O_CREAT as u64, libc::O_TMPFILE as u64);
        for mode in [0o4755, 0o2755, 0o6000, 1 << 32 | 0o4755] {
            assert!(!allows(libc::SYS_fchmod, &[3, mode]));
            assert!(!allows(libc::SYS_fchmodat, &[3, 0, mode]));
            assert!(!allows(libc::SYS_mknodat, &[3, 0, mode]));
            assert!(!allows(libc::SYS_openat, &[3, 0, create, mode]));
            assert!(!allows(libc::SYS_openat, &[3, 0, temporary, mode]));
            // If no file is created, the argument for the mode has an arbitrary value.
            assert!(allows(libc::SYS_openat, &[3, 0, libc::O_DIRECTORY as u64, mode]));
        }
        for mode in [0o755, 0o1777, 0o100_644] {
            assert!(allows(libc::SYS_fchmod, &[3, mode]));
            assert!(allows(libc::SYS_openat, &[3, 0, create, mode]));
        }
        let absent = without_structures().unwrap();
        assert_ne!(verdict(&absent, libc::SYS_openat2, &[]), ALLOW);
    }
}
