//! Subscriptions of clients without a handshake (MCP 2026-07-28). Each `subscriptions/listen` is a request that stays
//! open until the client cancels it. Its notifications carry its id.
//!
//! rmcp reads, acknowledges and ends the request. This module decides which subscriptions are accepted, and when they
//! are notified.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use rmcp::model::{ErrorData, SubscriptionFilter};
use rmcp::service::{SubscriptionContext, SubscriptionSink};

use crate::workspace::{FilePath, path_of};

/// The largest number of files that a client may watch.
pub(crate) const WATCHED_MAX: usize = 1_000;
/// The largest number of open subscriptions of one client. Each counts as a request in progress.
const LISTENING_MAX: usize = 32;

/// The open subscriptions.
#[derive(Debug, Default)]
pub struct Listeners(Mutex<ListenerTable>);

/// The listening requests of the client by number.
#[derive(Debug, Default)]
struct ListenerTable {
    begun: u64,
    sinks: BTreeMap<u64, SubscriptionSink>,
}

/// Removes a listening request when the request ends.
struct ListenerGuard<'l> {
    of: &'l Listeners,
    number: u64,
}

impl Drop for ListenerGuard<'_> {
    fn drop(&mut self) {
        self.of.0.lock().sinks.remove(&self.number);
    }
}

/// The part of a subscription that is accepted: changes of files, up to a bound, including files that do not exist yet.
/// The resources in `fixed` never change, but are accepted too.
pub(crate) fn accepted(requested: &SubscriptionFilter, fixed: &[&str]) -> SubscriptionFilter {
    let mut accepted = SubscriptionFilter::builder();
    if requested.resources_list_changed == Some(true) {
        accepted = accepted.resources_list_changed();
    }
    let uris = requested.resource_subscriptions.iter().flatten();
    let ours = uris.filter(|uri| fixed.contains(&uri.as_str()) || path_of(uri).is_some());
    ours.take(WATCHED_MAX).fold(accepted, |accepted, uri| accepted.resource_subscription(uri)).build()
}

impl Listeners {
    /// Keeps the subscription open until the request is cancelled.
    pub(crate) async fn listen(&self, context: &SubscriptionContext) -> Result<(), ErrorData> {
        let _place = self.place(context.sink().clone())?;
        context.cancelled().await;
        Ok(())
    }

    fn place(&self, sink: SubscriptionSink) -> Result<ListenerGuard<'_>, ErrorData> {
        let mut all = self.0.lock();
        if all.sinks.len() >= LISTENING_MAX {
            let said = format!("{LISTENING_MAX} subscriptions/listen are under way already; cancel one");
            return Err(ErrorData::invalid_request(said, None));
        }
        all.begun += 1;
        let number = all.begun;
        all.sinks.insert(number, sink);
        Ok(ListenerGuard { of: self, number })
    }

    /// Notifies the subscribers of changed files.
    pub(crate) async fn tell(&self, changed: &BTreeSet<FilePath>) {
        let sinks: Vec<SubscriptionSink> = self.0.lock().sinks.values().cloned().collect();
        for sink in sinks {
            if let Err(error) = tell(&sink, changed).await {
                tracing::debug!(%error, "changed files could not be reported to a listening client");
            }
        }
    }
}

async fn tell(
    sink: &SubscriptionSink,
    changed: &BTreeSet<FilePath>,
) -> Result<(), rmcp::service::SubscriptionSendError> {
    let accepted = sink.accepted();
    if accepted.resources_list_changed == Some(true) {
        sink.notify_resource_list_changed().await?;
    }
    for wanted in accepted.resource_subscriptions.iter().flatten() {
        // The notification has the address as the client wrote it, since the client knows the file by that address.
        if path_of(wanted).is_some_and(|path| changed.contains(&path)) {
            sink.notify_resource_updated(wanted).await?;
        }
    }
    Ok(())
}
