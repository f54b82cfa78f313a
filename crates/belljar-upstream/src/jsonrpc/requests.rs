//! The peer's requests that are not answered yet.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::RequestId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bounds them, and tells those apart that came with one id. A clone is the same table.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    permits: Arc<Semaphore>,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<RequestId, OpenRequest>,
    renamed: u64,
}

/// A request that has no answer yet.
#[derive(Debug)]
pub(super) struct OpenRequest {
    /// The id that the peer gave it.
    pub(super) id: RequestId,
    /// Given back when the answer is written.
    pub(super) _permit: OwnedSemaphorePermit,
}

impl Requests {
    pub(super) fn new(max: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(max)), table: Arc::default() }
    }

    /// Waits until one more request may come. Cancel-safe.
    pub(super) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    /// A request has come; the id under which it is worked on, which differs from the peer's only while another one
    /// with the same id is open.
    pub(super) fn open(&self, id: RequestId, permit: OwnedSemaphorePermit) -> RequestId {
        let mut table = self.table.lock();
        let mut own = id.clone();
        while table.open.contains_key(&own) {
            table.renamed += 1;
            own = RequestId::String(format!("again-{}", table.renamed).into());
        }
        table.open.insert(own.clone(), OpenRequest { id, _permit: permit });
        own
    }

    /// It is answered, or will never be.
    pub(super) fn close(&self, own: &RequestId) -> Option<OpenRequest> {
        self.table.lock().open.remove(own)
    }

    /// Under which id the latest request with the peer's id is worked on.
    pub(super) fn own_id(&self, id: &RequestId) -> Option<RequestId> {
        let table = self.table.lock();
        let mut found: Vec<&RequestId> =
            table.open.iter().filter(|(_, open)| open.id == *id).map(|(own, _)| own).collect();
        // The peer's own id is the oldest of them.
        found.sort_by_key(|own| (*own != id, own.to_string().len(), own.to_string()));
        found.pop().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_with_one_id_are_told_apart_and_each_gets_its_answer() {
        let requests = Requests::new(3);
        let id = RequestId::Number(7);
        let first = requests.open(id.clone(), requests.room().await.unwrap());
        let second = requests.open(id.clone(), requests.room().await.unwrap());
        assert_eq!(first, id);
        assert_ne!(second, id);
        assert_eq!(requests.own_id(&id), Some(second.clone()));
        assert_eq!(requests.close(&second).unwrap().id, id);
        assert_eq!(requests.own_id(&id), Some(first.clone()));
        assert_eq!(requests.close(&first).unwrap().id, id);
        assert!(requests.close(&first).is_none());
        assert_eq!(requests.own_id(&id), None);
    }

    #[tokio::test]
    async fn one_request_more_than_the_bound_waits_for_an_answer() {
        let requests = Requests::new(1);
        let own = requests.open(RequestId::Number(1), requests.room().await.unwrap());
        let mut next = std::pin::pin!(requests.room());
        assert!(futures_util::poll!(&mut next).is_pending());
        requests.close(&own);
        assert!(futures_util::poll!(&mut next).is_ready());
    }
}
