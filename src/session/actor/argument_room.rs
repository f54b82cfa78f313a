//! Bounds the bytes of arguments that calls keep in memory, for each run or job and for the whole process.
//!
//! Code may write call frames into the worker's socket itself, so the bound of the sandbox's own runtime is not enough.
//! Calls with small arguments are not counted here: the number of calls in progress bounds them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use belljar_base::limits::Limits;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_protocol::CallFrame;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How many bytes may be held, as a multiple of the bytes that may be worked on at once. Calls that the code has given
/// up may still be ending when the next ones arrive.
const HELD_TIMES: usize = 2;
const HINT: &str = "make fewer large calls at once, or hand the data over in parts";

/// The bytes of large arguments that all sessions of this process hold now.
static OF_PROCESS: AtomicUsize = AtomicUsize::new(0);

/// The memory for large arguments of the calls of one run or job.
#[derive(Debug, Clone)]
pub(crate) struct ArgumentRoom {
    held: Arc<Semaphore>,
    worked_on: Arc<Semaphore>,
    bytes_max: usize,
    process_bytes_max: usize,
    small_bytes_max: usize,
}

/// The memory that one call's arguments take. Dropping it frees the memory.
#[derive(Debug)]
pub(crate) struct HeldArguments {
    bytes: u32,
    worked_on: Arc<Semaphore>,
    _held: OwnedSemaphorePermit,
    _process_share: ProcessShare,
}

/// The bytes that one call has taken of the bound for all sessions of this process. Dropping it gives them back.
#[derive(Debug)]
struct ProcessShare(usize);

impl ArgumentRoom {
    /// Memory for arguments, of which `bytes_max` bytes may be worked on at once.
    pub(crate) fn new(bytes_max: usize, limits: &Limits) -> Self {
        Self {
            held: Arc::new(Semaphore::new(HELD_TIMES * bytes_max)),
            worked_on: Arc::new(Semaphore::new(bytes_max)),
            bytes_max,
            process_bytes_max: limits.arguments_in_flight_of_all_bytes_max,
            small_bytes_max: limits.small_arguments_bytes_max,
        }
    }

    /// Takes memory for a call's arguments; `None` if they are small.
    ///
    /// # Errors
    /// `busy` if other calls hold too many bytes.
    pub(crate) fn hold(&self, frame: &CallFrame) -> Result<Option<HeldArguments>, ToolFault> {
        let names = frame.tool.len() + frame.server.as_ref().map_or(0, String::len);
        let bytes = frame.arguments.get().len() + names;
        if bytes <= self.small_bytes_max {
            return Ok(None);
        }
        let busy = |whose: &str, bytes_max: usize| {
            let mib = bytes_max >> 20;
            let said = format!(
                "the call was not made: with its {bytes} bytes the arguments of {whose} would be more than {mib} MiB"
            );
            ToolFault::new(FaultCode::Busy, said).hint(HINT)
        };
        let wanted = u32::try_from(bytes).unwrap_or(u32::MAX);
        let held = Arc::clone(&self.held).try_acquire_many_owned(wanted);
        let held = held.map_err(|_| busy("the calls under way", HELD_TIMES * self.bytes_max))?;
        let process_share = ProcessShare::take(bytes, self.process_bytes_max);
        let process_share =
            process_share.ok_or_else(|| busy("all calls of all sessions", self.process_bytes_max))?;
        // A call with more bytes than the bound takes all of it, so it is worked on alone.
        let bytes = wanted.min(u32::try_from(self.bytes_max).unwrap_or(u32::MAX));
        let worked_on = Arc::clone(&self.worked_on);
        Ok(Some(HeldArguments { bytes, worked_on, _held: held, _process_share: process_share }))
    }
}

impl HeldArguments {
    /// Waits until the arguments may be worked on. Reading, checking and sending them each take a copy.
    ///
    /// # Errors
    /// `busy` if there was no memory until the deadline; `cancelled` if the call was cancelled before.
    pub(crate) async fn begin(
        &self,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<OwnedSemaphorePermit, ToolFault> {
        let room = Arc::clone(&self.worked_on).acquire_many_owned(self.bytes);
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                Err(ToolFault::new(FaultCode::Cancelled, "the call was given up before it was made"))
            }
            room = room => room.map_err(|_| ToolFault::new(FaultCode::Internal, "the room for arguments is closed")),
            () = tokio::time::sleep_until(deadline) => {
                let said = "the call was not made: other calls with large arguments took all the time there was";
                Err(ToolFault::new(FaultCode::Busy, said).hint(HINT))
            }
        }
    }
}

impl ProcessShare {
    fn take(bytes: usize, bytes_max: usize) -> Option<Self> {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= bytes_max);
        OF_PROCESS.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok().then(|| Self(bytes))
    }
}

impl Drop for ProcessShare {
    fn drop(&mut self) {
        OF_PROCESS.fetch_sub(self.0, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use belljar_base::names::{CallId, RunId};
    use serde_json::value::RawValue;

    use super::*;

    fn frame(bytes: usize) -> CallFrame {
        CallFrame {
            run: RunId(1),
            call: CallId(1),
            server: None,
            tool: String::new(),
            arguments: RawValue::from_string(format!("\"{}\"", "x".repeat(bytes - 2))).unwrap(),
            dry_run: false,
            placeholders: false,
            handle: false,
            handles: false,
        }
    }

    fn room(process_bytes_max: usize) -> ArgumentRoom {
        let limits = Limits {
            small_arguments_bytes_max: 10,
            arguments_in_flight_of_all_bytes_max: process_bytes_max,
            ..Limits::default()
        };
        ArgumentRoom::new(100, &limits)
    }

    #[tokio::test(start_paused = true)]
    async fn large_arguments_take_turns_and_too_many_are_refused() {
        let room = room(usize::MAX);
        let cancel = CancellationToken::new();
        let soon = || Instant::now() + Duration::from_secs(1);
        let [first, second] = [60, 60].map(|bytes| room.hold(&frame(bytes)).unwrap().unwrap());
        let working = first.begin(soon(), &cancel).await.unwrap();
        assert_eq!(second.begin(soon(), &cancel).await.unwrap_err().code, FaultCode::Busy);
        let refused = room.hold(&frame(90)).unwrap_err();
        let said = "the call was not made: with its 90 bytes the arguments of the calls under way would be more than 0 MiB";
        assert_eq!((refused.code, refused.message.as_str()), (FaultCode::Busy, said));
        assert!(room.hold(&frame(10)).unwrap().is_none(), "small ones need no room");
        drop((first, working));
        drop(second.begin(soon(), &cancel).await.unwrap());
        cancel.cancel();
        assert_eq!(second.begin(soon(), &cancel).await.unwrap_err().code, FaultCode::Cancelled);
        assert!(room.hold(&frame(90)).unwrap().is_some(), "the first one's room is free again");
    }

    #[tokio::test]
    async fn a_call_larger_than_the_room_is_made_alone() {
        let room = room(usize::MAX);
        let held = room.hold(&frame(150)).unwrap().unwrap();
        let soon = Instant::now() + Duration::from_secs(60);
        assert!(held.begin(soon, &CancellationToken::new()).await.is_ok());
    }

    #[test]
    fn the_bound_of_the_process_holds_over_sessions() {
        // No other test of this process holds as many bytes as the first call here.
        let large = 1 << 30;
        let limits =
            Limits { arguments_in_flight_of_all_bytes_max: large + (large >> 1), ..Limits::default() };
        let taken = ProcessShare::take(large, limits.arguments_in_flight_of_all_bytes_max).unwrap();
        assert!(ProcessShare::take(large, limits.arguments_in_flight_of_all_bytes_max).is_none());
        drop(taken);
        assert!(ProcessShare::take(large, limits.arguments_in_flight_of_all_bytes_max).is_some());
    }
}
