//! Whether a call has been sent: who would send it and who would give it up agree on what came first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const WAITS: u8 = 0;
const SENT: u8 = 1;
const OVER: u8 = 2;

/// One call; a clone is the same.
#[derive(Debug, Clone, Default)]
pub struct Sending(Arc<AtomicU8>);

impl Sending {
    /// The call is about to be sent. False: it was given up, and must not be.
    pub(super) fn begin(&self) -> bool {
        self.0.compare_exchange(WAITS, SENT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Nobody wants the call any more. Whether it was never sent; then it will not be.
    #[must_use]
    pub fn give_up(&self) -> bool {
        self.0.compare_exchange(WAITS, OVER, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The call has its answer. False: it was given up before.
    #[must_use]
    pub fn end(&self) -> bool {
        self.0.swap(OVER, Ordering::AcqRel) != OVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_either_sent_or_given_up() {
        let (given_up, sent, refused) = (Sending::default(), Sending::default(), Sending::default());
        assert!(given_up.give_up() && !given_up.begin() && !given_up.end());
        assert!(sent.begin() && !sent.give_up() && sent.end() && !sent.end());
        assert!(refused.end() && !refused.give_up());
    }
}
