//! The files of the workspace as resources: their list by pages, their contents, and notifications of changes.

use std::collections::BTreeSet;

use belljar_base::text;
use parking_lot::Mutex;
use rmcp::model::{
    ErrorData, ListResourcesResult, ProtocolVersion, ReadResourceResult, Resource, ResourceContents,
    ResourceUpdatedNotificationParam,
};
use rmcp::service::Peer;
use rmcp::{RoleServer, service::RequestContext};

use super::notifications::listeners::{Listeners, WATCHED_MAX};
use crate::session::Files;
use crate::workspace::{FilePath, StoredFile, mime_type, path_of, uri};

/// The number of files on one page of the list.
const PAGE_FILES: usize = 500;
/// Largest file that is read as a resource, in bytes.
const READ_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Longest name of a file that is shown, in characters.
const NAME_CHARS_MAX: usize = 300;
/// The first version of MCP in which results may have links to resources.
const LINKS_SINCE: ProtocolVersion = ProtocolVersion::V_2025_06_18;

/// The last version of MCP in which servers notify about a changed list of resources without a subscription.
const TOLD_UNTIL: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// The files whose changes a client with a handshake has subscribed to.
#[derive(Debug, Default)]
pub(super) struct FileSubscriptions(Mutex<BTreeSet<FilePath>>);

impl FileSubscriptions {
    /// Adds a subscription; the file need not exist yet.
    pub(super) fn add(&self, uri: &str) -> Result<(), ErrorData> {
        let path = path_of(uri).ok_or_else(|| unknown(uri))?;
        let mut subscriptions = self.0.lock();
        if subscriptions.len() >= WATCHED_MAX && !subscriptions.contains(&path) {
            let message = format!("{WATCHED_MAX} files are subscribed to already; unsubscribe from some");
            return Err(ErrorData::invalid_params(message, None));
        }
        subscriptions.insert(path);
        Ok(())
    }

    /// Removes a subscription, if there is one.
    pub(super) fn remove(&self, uri: &str) {
        if let Some(path) = path_of(uri) {
            self.0.lock().remove(&path);
        }
    }

    fn of(&self, changed: &BTreeSet<FilePath>) -> Vec<String> {
        let subscriptions = self.0.lock();
        subscriptions.intersection(changed).map(uri).collect()
    }
}

/// One page of the files. On the first page, these resources come before them.
pub(super) async fn list(
    first: Vec<Resource>,
    cursor: Option<&str>,
    files: &Files,
) -> Result<ListResourcesResult, ErrorData> {
    let from = match cursor.map(str::parse::<usize>) {
        None => 0,
        Some(Ok(from)) => from,
        Some(Err(_)) => {
            let message = "the cursor is not from this list; leave it out to list from the beginning";
            return Err(ErrorData::invalid_params(message, None));
        }
    };
    let kept = match files.view().await {
        Some(view) => on_disk(move || view.all().map_err(|error| error.to_string())).await?,
        None => vec![],
    };
    let kept: Vec<StoredFile> = kept.into_iter().filter(|kept| !kept.is_folder).collect();
    let page = kept.iter().skip(from).take(PAGE_FILES).map(resource);
    let first = if from == 0 { first } else { vec![] };
    let mut result = ListResourcesResult::with_all_items(first.into_iter().chain(page).collect());
    let next = from.saturating_add(PAGE_FILES);
    result.next_cursor = (next < kept.len()).then(|| next.to_string());
    Ok(result)
}

/// The content of a file: its text, or its bytes if it is not text.
pub(super) async fn read(uri: &str, files: &Files) -> Result<ReadResourceResult, ErrorData> {
    let path = path_of(uri).ok_or_else(|| unknown(uri))?;
    let (view, wanted) = (files.view().await, path.clone());
    let looked = on_disk(move || {
        let view = view.filter(|view| view.has(&wanted));
        view.map(|view| view.read(&wanted, READ_BYTES_MAX).map_err(|error| error.to_string())).transpose()
    });
    let bytes = looked.await.map_err(|error| ErrorData::resource_not_found(error.message, None))?;
    let Some(bytes) = bytes else {
        let mut said = format!("there is no file {} in /workspace of this session", shown(&path));
        if let Some(command) = files.handed_over(path).await {
            said.push_str(&format!(
                "; another one handed such a file over, which the user gets by `{command}`"
            ));
        }
        return Err(ErrorData::resource_not_found(said, None));
    };
    let contents = match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(error) => {
            use base64::Engine as _;
            let base64 = base64::engine::general_purpose::STANDARD.encode(error.as_bytes());
            ResourceContents::blob(base64, uri)
        }
    };
    Ok(ReadResourceResult::new(vec![contents.with_mime_type(mime_type(&path))]))
}

/// Notifies the client of the files that the run has changed.
pub(super) async fn tell_changes(
    files: &Files,
    subscriptions: &FileSubscriptions,
    listeners: &Listeners,
    peer: &Peer<RoleServer>,
) {
    let changed = files.changes().await;
    if changed.is_empty() {
        return;
    }
    listeners.tell(&changed).await;
    // A client of a later version subscribes through `listeners`, and gets no other notifications.
    let version = peer.peer_info().map(|info| info.protocol_version.clone());
    if version.is_none_or(|version| version > TOLD_UNTIL) {
        return;
    }
    let mut told = peer.notify_resource_list_changed().await;
    for uri in subscriptions.of(&changed) {
        told = told.and(peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await);
    }
    if let Err(error) = told {
        tracing::debug!(%error, "the notification of changed files could not be sent");
    }
}

/// A link to this file, if the client supports links.
pub(super) fn link(address: &str, context: &RequestContext<RoleServer>) -> Option<Resource> {
    let version = context.peer.peer_info().map(|info| info.protocol_version.clone());
    let path = path_of(address).filter(|_| version.is_none_or(|version| version >= LINKS_SINCE))?;
    Some(Resource::new(address, shown(&path)).with_mime_type(mime_type(&path)))
}

fn resource(kept: &StoredFile) -> Resource {
    Resource::new(uri(&kept.path), shown(&kept.path))
        .with_mime_type(mime_type(&kept.path))
        .with_size(kept.bytes)
}

/// The path of a file, harmless to show.
fn shown(path: &FilePath) -> String {
    text::inert_excerpt(path.as_str(), NAME_CHARS_MAX)
}

async fn on_disk<T: Send + 'static>(
    look: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, ErrorData> {
    let looked = tokio::task::spawn_blocking(look).await.unwrap_or_else(|error| Err(error.to_string()));
    looked.map_err(|error| ErrorData::internal_error(error, None))
}

fn unknown(uri: &str) -> ErrorData {
    let message = format!("unknown resource {uri:?}; files of /workspace are workspace:///PATH");
    ErrorData::resource_not_found(message, None)
}
