//! Reads a container's usage from this machine's /proc, if the engine cannot enforce the limits.
//!
//! It does not decide whether a limit is exceeded. There is no meter for a container on another machine.

use std::fs;
use std::io::{self, ErrorKind, Read};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;

use super::spec::TMPFS_MIB;

/// The use of resources by all processes of a container together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The memory that processes have mapped, resident or swapped out, their page tables, and the files in the writable
    /// places. Memory that several processes share counts once if the sum exceeds the argument of [`UsageMeter::read`].
    /// Buffers of sockets and pipes do not count, nor does shared memory that no process has in its page tables. Metered
    /// sandboxes are denied such memory, except in files.
    pub memory_bytes: u64,
    /// The number of processes and threads.
    pub processes: u64,
}

/// The kernel memory of an empty file.
const BYTES_OF_FILE: u64 = 1024;

/// Reads the usage of one container, by the number that its PID 1 has on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageMeter {
    root: u32,
    /// The start of PID 1 in clock ticks since the machine's start, which together with the number identifies the
    /// process.
    started: u64,
    /// The places whose files are in memory.
    places: &'static [(&'static str, u64)],
}

impl UsageMeter {
    /// A meter for the process with this number; `None` if it is not PID 1 of a namespace on this machine that was
    /// started as `command`, or if the kernel does not list the children of a process.
    pub(super) fn new(root: u32, command: &[String]) -> Option<Self> {
        let line = fs::read(format!("/proc/{root}/cmdline")).ok()?;
        let is_it =
            line.split(|byte| *byte == 0).take(command.len()).eq(command.iter().map(String::as_bytes));
        let status = text(&format!("/proc/{root}/status")).ok()??;
        let numbers: Vec<&str> = field(&status, "NSpid:")?.split_whitespace().collect();
        let is_first = numbers.len() > 1 && numbers.last() == Some(&"1");
        let lists_children =
            fs::exists(format!("/proc/{root}/task/{root}/children")).is_ok_and(|exists| exists);
        let started = started(root).ok()??;
        (is_it && is_first && lists_children).then_some(Self { root, started, places: &TMPFS_MIB })
    }

    /// The present usage; `None`: the container is gone. If more than `memory_bytes` are used, shared memory counts
    /// once for those processes whose memory maps this user may read.
    ///
    /// # Errors
    /// A file of /proc cannot be read. Without the error, its process would count as using nothing.
    pub fn read(&self, memory_bytes: u64) -> io::Result<Option<Usage>> {
        let (mut waiting, mut members, mut tables) = (vec![self.root], Vec::new(), 0);
        while let Some(pid) = waiting.pop() {
            // A process that has ended meanwhile uses nothing, and its children are now PID 1's.
            waiting.extend(children(pid)?);
            if let Some((folder, status)) = status(pid)? {
                // Each process has its own page tables. They can take much memory even if the mapped pages are all
                // empty.
                tables += sum(&status, &["VmPTE:"]);
                let mapped = Mapped {
                    bytes: sum(&status, &["VmRSS:", "VmSwap:", "HugetlbPages:"]),
                    of_files: sum(&status, &["RssShmem:"]),
                };
                let threads = field(&status, "Threads:").and_then(|text| text.trim().parse().ok());
                members.push((folder, mapped, threads.unwrap_or(1)));
            }
        }
        if started(self.root)? != Some(self.started) {
            return Ok(None);
        }
        let processes = members.iter().map(|(_, _, threads)| threads).sum();
        let files = self.bytes_of_files();
        // A file that is also mapped counts once.
        let total = |mapped: Mapped| mapped.bytes + tables + files.saturating_sub(mapped.of_files);
        let mut used = total(members.iter().map(|(_, mapped, _)| *mapped).sum());
        if used > memory_bytes {
            let shares = members.iter().map(|(folder, mapped, _)| proportional(folder, *mapped));
            used = total(shares.sum::<io::Result<Mapped>>()?);
        }
        Ok(Some(Usage { memory_bytes: used, processes }))
    }

    /// Ends PID 1, and with it all processes of the container. Does nothing if the container is gone.
    ///
    /// # Errors
    /// /proc cannot be read, or the kernel refuses the signal.
    pub fn end(&self) -> io::Result<()> {
        let number = i32::try_from(self.root).map_err(io::Error::other)?;
        if started(self.root)? != Some(self.started) {
            return Ok(());
        }
        match kill(Pid::from_raw(number), Signal::SIGKILL) {
            Err(Errno::ESRCH) => Ok(()),
            sent => Ok(sent?),
        }
    }

    /// The bytes of the files in the writable places, and what the kernel needs for each. Places that this user may not
    /// look into do not count.
    fn bytes_of_files(&self) -> u64 {
        let places = self.places.iter().map(|(place, _)| format!("/proc/{}/root{place}", self.root));
        let used = places.filter_map(|place| {
            let size = statvfs(place.as_str()).ok()?;
            let [blocks, files] = [
                size.blocks().saturating_sub(size.blocks_free()),
                size.files().saturating_sub(size.files_free()),
            ]
            .map(u128::from);
            u64::try_from(blocks * u128::from(size.fragment_size()) + files * u128::from(BYTES_OF_FILE)).ok()
        });
        used.sum()
    }
}

/// What processes have mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mapped {
    bytes: u64,
    /// The part that belongs to files in memory.
    of_files: u64,
}

impl std::iter::Sum for Mapped {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let add = |sum: Self, one: Self| Self {
            bytes: sum.bytes + one.bytes,
            of_files: sum.of_files + one.of_files,
        };
        all.fold(Self { bytes: 0, of_files: 0 }, add)
    }
}

/// The status of a process, and the folder of /proc that shows its memory.
fn status(pid: u32) -> io::Result<Option<(String, String)>> {
    let shows_memory = |status: &str| field(status, "VmRSS:").is_some();
    let folder = format!("/proc/{pid}");
    let Some(own) = text(&format!("{folder}/status"))? else { return Ok(None) };
    if !shows_memory(&own) {
        // When the first thread has ended before the others, only theirs show the memory.
        for thread in unless_gone(fs::read_dir(format!("{folder}/task")))?.into_iter().flatten() {
            let Some(thread) = unless_gone(thread)? else { continue };
            let folder = thread.path().display().to_string();
            if let Some(status) = text(&format!("{folder}/status"))?
                && shows_memory(&status)
            {
                return Ok(Some((folder, status)));
            }
        }
    }
    Ok(Some((folder, own)))
}

/// The mapped memory of a process, with shared pages divided among the processes that share them. The kernel walks over
/// all pages for this, and refuses it to some users, for whom the result is `mapped`.
fn proportional(folder: &str, mapped: Mapped) -> io::Result<Mapped> {
    match text(&format!("{folder}/smaps_rollup")) {
        // A process without these lines is ending, and has given its memory back.
        Ok(rollup) => {
            let rollup = rollup.unwrap_or_default();
            Ok(Mapped {
                bytes: sum(&rollup, &["Pss:", "SwapPss:", "Private_Hugetlb:", "Shared_Hugetlb:"]),
                of_files: sum(&rollup, &["Pss_Shmem:"]),
            })
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(mapped),
        Err(error) => Err(error),
    }
}

/// The children of all threads of a process. The search starts at the top, since a search through all processes of the
/// machine takes longer the more there are.
fn children(pid: u32) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for thread in unless_gone(fs::read_dir(format!("/proc/{pid}/task")))?.into_iter().flatten() {
        // The children of a thread that has ended meanwhile belong to another thread.
        let Some(thread) = unless_gone(thread)? else { continue };
        let list = text(&format!("{}/children", thread.path().display()))?.unwrap_or_default();
        found.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Ok(found)
}

/// The start of a process in clock ticks since the machine's start; `None`: it has ended.
fn started(pid: u32) -> io::Result<Option<u64>> {
    let line = text(&format!("/proc/{pid}/stat"))?;
    // The process's name comes before and can contain any text.
    let rest = line.as_deref().and_then(|line| line.rsplit_once(')'));
    Ok(rest.and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok()))
}

/// The text of a file of /proc; `None`: its process has ended. The name of a process may be invalid UTF-8.
fn text(path: &str) -> io::Result<Option<String>> {
    // Files of /proc have no size, without which `fs::read` would read them in many small pieces.
    let mut bytes = Vec::with_capacity(4096);
    let read = fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    Ok(unless_gone(read)?.map(|_| String::from_utf8_lossy(&bytes).into_owned()))
}

fn unless_gone<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => Ok(None),
        Err(error) => Err(error),
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

/// The sum of those fields that are there.
fn sum(text: &str, names: &[&str]) -> u64 {
    names.iter().filter_map(|name| field(text, name).and_then(kib)).sum()
}

fn kib(text: &str) -> Option<u64> {
    let number: u64 = text.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    use super::*;

    fn own() -> UsageMeter {
        let root = std::process::id();
        UsageMeter { root, started: started(root).unwrap().unwrap(), places: &[] }
    }

    fn used(memory_bytes: u64) -> Usage {
        own().read(memory_bytes).unwrap().unwrap()
    }

    #[test]
    fn this_process_and_its_children_are_counted() {
        let alone = used(u64::MAX);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let with_child = used(u64::MAX);
        let shared = used(0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(alone.processes >= 1 && alone.memory_bytes > 1 << 20, "{alone:?}");
        assert!(with_child.processes > alone.processes, "{alone:?} {with_child:?}");
        // The C library is shared with all processes of the machine.
        assert!(shared.memory_bytes < with_child.memory_bytes, "{shared:?} {with_child:?}");
    }

    /// The memory of this Python code, once it has written a line: any number of bytes, and shared ones divided.
    fn used_by(code: &str) -> ([u64; 2], String) {
        let mut command = std::process::Command::new("python3");
        command.args(["-c", code]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let root = child.id();
        // Before the meter, since the code goes on after its line.
        let status = text(&format!("/proc/{root}/status")).unwrap().unwrap();
        let meter = UsageMeter { root, started: started(root).unwrap().unwrap(), places: &[] };
        let used = [u64::MAX, 0].map(|memory_bytes| meter.read(memory_bytes).unwrap().unwrap().memory_bytes);
        drop(child.stdin.take());
        child.wait().unwrap();
        (used, status)
    }

    #[test]
    fn files_in_memory_count_and_a_mapped_one_counts_once() {
        const BYTES: u64 = 64 << 20;
        let code = "import mmap,sys,tempfile\nf=tempfile.TemporaryFile(dir='/dev/shm')\nf.truncate(64<<20)\n\
            m=mmap.mmap(f.fileno(),64<<20)\nfor at in range(0,64<<20,4096): m[at]=1\nif sys.argv[1]=='close': m.close()\n\
            print(flush=True)\nsys.stdin.read()";
        let used = |maps: &str| {
            let mut command = std::process::Command::new("python3");
            command.args(["-c", code, maps]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
            let started = started(child.id()).unwrap().unwrap();
            let meter = UsageMeter { root: child.id(), started, places: &[("/dev/shm", 0)] };
            let blind = UsageMeter { places: &[], ..meter };
            // Others may have files there too.
            let others = meter.bytes_of_files() - BYTES;
            let used = [meter, blind].map(|meter| meter.read(0).unwrap().unwrap().memory_bytes);
            drop(child.stdin.take());
            child.wait().unwrap();
            (used, others)
        };
        let ([closed, unseen], _) = used("close");
        assert!(closed >= BYTES && unseen < BYTES, "{closed} {unseen}");
        let ([mapped, alone], others) = used("map");
        assert!(alone >= BYTES && mapped < 2 * BYTES + others, "{mapped} {alone} {others}");
    }

    #[test]
    fn page_tables_count_as_memory() {
        // Nothing of it is resident: each touched page is the kernel's page of zeros.
        let code = "import mmap,sys\nm=mmap.mmap(-1,8<<30,mmap.MAP_PRIVATE|mmap.MAP_ANONYMOUS|0x4000,mmap.PROT_READ)\n\
            m.madvise(15)\nfor at in range(0,8<<30,2<<20): m[at]\nprint(flush=True)\nsys.stdin.read()";
        let (used, status) = used_by(code);
        let tables = field(&status, "VmPTE:").and_then(kib).unwrap();
        let resident = field(&status, "VmRSS:").and_then(kib).unwrap();
        assert!(tables >= 16 << 20, "{status}");
        assert!(used[0] >= resident + tables && used[1] >= tables, "{used:?} {status}");
    }

    #[test]
    fn memory_counts_when_the_first_thread_has_ended() {
        let code = "import ctypes,os,sys,threading,time\ndef hold():\n kept=b'1'*(64<<20)\n \
            while 'Z' not in open('/proc/self/status').read().split('State:')[1][:4]: time.sleep(.01)\n \
            print(flush=True)\n sys.stdin.read()\n os._exit(0)\nthreading.Thread(target=hold).start()\n\
            ctypes.CDLL(None).syscall({'x86_64': 60}.get(os.uname().machine, 93), 0)";
        let (used, status) = used_by(code);
        assert!(!status.contains("VmRSS:"), "{status}");
        assert!(used.iter().all(|bytes| *bytes >= 64 << 20), "{used:?}");
    }

    #[test]
    fn swapped_memory_and_huge_pages_are_part_of_the_sum() {
        let status = "VmRSS:\t    16 kB\nVmPTE:\t 4 kB\nVmSwap:\t   32 kB\nHugetlbPages:\t  2048 kB\n";
        assert_eq!(sum(status, &["VmRSS:", "VmSwap:", "HugetlbPages:", "VmAbsent:"]), (16 + 32 + 2048) << 10);
    }

    #[test]
    fn a_process_that_has_taken_the_number_of_another_is_none() {
        let own = own();
        let other = UsageMeter { started: own.started + 1, ..own };
        assert_eq!(other.read(0).unwrap(), None);
        // This test would end with it.
        other.end().unwrap();
    }

    #[test]
    fn a_process_is_ended_once() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let started = started(child.id()).unwrap().unwrap();
        let meter = UsageMeter { root: child.id(), started, places: &[] };
        meter.end().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
        meter.end().unwrap();
    }

    #[test]
    fn a_process_that_calls_itself_what_is_no_text_is_counted() {
        let before = used(u64::MAX);
        let named = |name: &[u8]| fs::write("/proc/self/comm", name).unwrap();
        let own_name = fs::read("/proc/self/comm").unwrap();
        named(b"\xff\xfe");
        let after = used(u64::MAX);
        named(own_name.trim_ascii_end());
        assert!(after.processes >= before.processes && after.memory_bytes > 1 << 20, "{before:?} {after:?}");
    }

    #[test]
    fn what_has_gone_counts_for_nothing_and_what_cannot_be_read_is_an_error() {
        let read =
            |error: Errno| unless_gone(Err::<(), _>(error.into())).map_err(|error| error.raw_os_error());
        assert_eq!((read(Errno::ENOENT), read(Errno::ESRCH)), (Ok(None), Ok(None)));
        assert_eq!(read(Errno::EMFILE), Err(Some(Errno::EMFILE as i32)));
    }

    #[test]
    fn only_the_first_process_of_a_namespace_of_its_own_has_a_meter() {
        let command: Vec<String> = std::env::args().collect();
        assert_eq!(UsageMeter::new(std::process::id(), &command), None);
    }
}
