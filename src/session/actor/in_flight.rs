//! The calls of the run under way: how each is cancelled, and whether its server has been told of it.
//!
//! It makes no call and counts none.

use std::collections::HashMap;

use tokio_util::sync::CancellationToken;

use crate::broker::Sending;
use crate::names::CallId;
use crate::session::calls::Counted;

/// Calls that have not ended, by number.
#[derive(Default)]
pub(in crate::session) struct InFlight(HashMap<CallId, Call>);

struct Call {
    cancel: CancellationToken,
    sending: Sending,
    counted: Counted,
}

impl InFlight {
    pub(in crate::session) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::session) fn contains(&self, call: CallId) -> bool {
        self.0.contains_key(&call)
    }

    /// A call begins.
    pub(in crate::session) fn insert(
        &mut self,
        call: CallId,
        cancel: CancellationToken,
        counted: Counted,
    ) -> Sending {
        let sending = Sending::default();
        self.0.insert(call, Call { cancel, sending: sending.clone(), counted });
        sending
    }

    /// A call has ended.
    pub(in crate::session) fn remove(&mut self, call: CallId) {
        self.0.remove(&call);
    }

    /// Nobody waits for the call any more. Where it is counted, if it was never sent.
    pub(in crate::session) fn cancel(&mut self, call: CallId) -> Option<Counted> {
        let Call { cancel, sending, counted } = self.0.remove(&call)?;
        cancel.cancel();
        sending.give_up().then_some(counted)
    }

    /// The same of all.
    pub(super) fn cancel_all(&mut self) -> Vec<Counted> {
        let calls: Vec<CallId> = self.0.keys().copied().collect();
        calls.into_iter().filter_map(|call| self.cancel(call)).collect()
    }
}
