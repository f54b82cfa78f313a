//! Reads a server's lists page by page, within bounds, and ends lists whose cursors repeat.
//!
//! Items stay JSON, since one invalid item would make a typed list fail as a whole.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest, ListToolsRequest,
    PaginatedRequestParams, ServerCapabilities,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::limits::Limits;
use crate::text;
use crate::upstream::http::ParameterHeaders;
use crate::upstream::raw_results::{RawResult, RawResults};

/// The kinds of lists that a server may offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// Tools, which are functions.
    Tools,
    /// Resources, which can be read by address.
    Resources,
    /// Templates of resource addresses.
    ResourceTemplates,
    /// Prompts.
    Prompts,
}

impl ListKind {
    /// The name of the list in messages for people, such as the error for a server that does not offer the list.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources | Self::ResourceTemplates => "resources",
            Self::Prompts => "prompts",
        }
    }

    /// Whether a server with these capabilities offers the list.
    pub(super) fn is_offered(self, can: &ServerCapabilities) -> bool {
        match self {
            Self::Tools => can.tools.is_some(),
            Self::Resources | Self::ResourceTemplates => can.resources.is_some(),
            Self::Prompts => can.prompts.is_some(),
        }
    }

    pub(in crate::upstream) fn request(self, cursor: Option<String>) -> ClientRequest {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor;
        let params = Some(params);
        match self {
            Self::Tools => {
                ClientRequest::ListToolsRequest(ListToolsRequest { params, ..ListToolsRequest::default() })
            }
            Self::Resources => ClientRequest::ListResourcesRequest(ListResourcesRequest {
                params,
                ..ListResourcesRequest::default()
            }),
            Self::ResourceTemplates => {
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
                    params,
                    ..ListResourceTemplatesRequest::default()
                })
            }
            Self::Prompts => ClientRequest::ListPromptsRequest(ListPromptsRequest {
                params,
                ..ListPromptsRequest::default()
            }),
        }
    }
}

/// One page. Its items are parsed one by one: a page may have more than are kept, and parsed values take many times the
/// memory of their text.
#[derive(serde::Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    resources: Option<Vec<&'a RawValue>>,
    #[serde(borrow, rename = "resourceTemplates")]
    resource_templates: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    prompts: Option<Vec<&'a RawValue>>,
    #[serde(rename = "nextCursor", default)]
    next_cursor: Option<Value>,
    #[serde(rename = "ttlMs", default)]
    ttl_ms: Option<Value>,
}

impl<'a> Page<'a> {
    fn items(&mut self, kind: ListKind) -> Option<Vec<&'a RawValue>> {
        match kind {
            ListKind::Tools => self.tools.take(),
            ListKind::Resources => self.resources.take(),
            ListKind::ResourceTemplates => self.resource_templates.take(),
            ListKind::Prompts => self.prompts.take(),
        }
    }
}

/// A list that is read page by page.
pub(super) struct Pages<'l> {
    kind: ListKind,
    limits: &'l Limits,
    items: Vec<Value>,
    bytes: usize,
    values: usize,
    pages: usize,
    /// The cursor of the next page; `None` for the first page.
    cursor: Option<String>,
    cursors: HashSet<String>,
    is_whole: bool,
    /// The lifetime of the list, if the server gives one.
    fresh_for: Option<Duration>,
}

/// The server's answer is not a page of the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidPage;

impl<'l> Pages<'l> {
    pub(in crate::upstream) fn of(kind: ListKind, limits: &'l Limits) -> Self {
        let cursors = HashSet::new();
        Self {
            kind,
            limits,
            items: vec![],
            bytes: 0,
            values: 0,
            pages: 0,
            cursor: None,
            cursors,
            is_whole: false,
            fresh_for: None,
        }
    }

    /// The request for the next page; `None` if the list is complete or long enough.
    pub(in crate::upstream) fn next(&mut self) -> Option<ClientRequest> {
        if self.is_whole || self.pages == self.limits.tool_pages_max {
            return None;
        }
        self.pages += 1;
        Some(self.kind.request(self.cursor.take()))
    }

    /// Takes in a page.
    pub(in crate::upstream) fn take(&mut self, page: &RawValue) -> Result<(), InvalidPage> {
        let mut page: Page<'_> = serde_json::from_str(page.get()).map_err(|_| InvalidPage)?;
        let fresh_for = page.ttl_ms.as_ref().and_then(Value::as_u64).map(Duration::from_millis);
        self.fresh_for = [self.fresh_for, fresh_for].into_iter().flatten().min();
        let what = self.kind.name();
        for item in page.items(self.kind).ok_or(InvalidPage)? {
            self.bytes += item.get().len();
            self.values += text::json_values(item.get().as_bytes());
            let (items_max, bytes_max) = (self.limits.tools_per_server_max, self.limits.tool_list_bytes_max);
            let values_max = self.limits.json_values_max;
            if self.items.len() == items_max || self.bytes > bytes_max || self.values > values_max {
                tracing::warn!(items_max, bytes_max, values_max, "a server's further {what} are left out");
                self.is_whole = true;
                return Ok(());
            }
            match serde_json::from_str(item.get()) {
                Ok(item) => self.items.push(item),
                Err(error) => {
                    tracing::warn!(%error, "one of a server's {what} cannot be read and is left out");
                }
            }
        }
        let next = page.next_cursor.as_ref().and_then(Value::as_str).map(str::to_owned);
        let goes_round = next.as_ref().is_some_and(|next| !self.cursors.insert(next.clone()));
        if goes_round {
            tracing::warn!("a server's list of {what} goes round in circles, and is read once");
        }
        self.is_whole = goes_round || next.is_none();
        self.cursor = next;
        Ok(())
    }

    pub(super) fn into_items(self) -> Vec<Value> {
        self.items
    }
}

/// The tools of a server.
pub(in crate::upstream) struct Tools {
    pub(in crate::upstream) all: Arc<[Value]>,
    /// The time when the lifetime of the list ends, if the server gives one.
    pub(super) stale_at: Option<Instant>,
}

/// Lists the tools of a connected server.
pub(super) async fn list_tools(
    peer: &Peer<RoleClient>,
    answers: &RawResults,
    parameters: Option<&ParameterHeaders>,
    limits: &Limits,
) -> Result<Tools, ServiceError> {
    let mut pages = Pages::of(ListKind::Tools, limits);
    while let Some(request) = pages.next() {
        let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        let awaited = answers.awaited(handle.id.clone());
        if let Err(error) = handle.await_response().await {
            if let Some(RawResult::Lost(lost)) = awaited.take().await {
                answers.note_lost(lost);
            }
            return Err(error);
        }
        let Some(RawResult::Result(page)) = awaited.take().await else {
            return Err(ServiceError::UnexpectedResponse);
        };
        pages.take(&page).map_err(|InvalidPage| ServiceError::UnexpectedResponse)?;
    }
    let stale_at = pages
        .fresh_for
        .and_then(|fresh_for| Instant::now().checked_add(fresh_for.max(limits.listing_fresh_min)));
    let tools = pages.into_items();
    let tools = match parameters {
        Some(parameters) => parameters.admit(tools),
        None => tools,
    };
    Ok(Tools { all: tools.into(), stale_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of reading these pages, and the number of pages that were requested.
    fn read(kind: ListKind, given: &[String], limits: &Limits) -> (Result<Vec<Value>, InvalidPage>, usize) {
        let (mut pages, mut asked) = (Pages::of(kind, limits), 0);
        while pages.next().is_some() {
            let page = RawValue::from_string(given[asked % given.len()].clone()).unwrap();
            asked += 1;
            if let Err(none) = pages.take(&page) {
                return (Err(none), asked);
            }
        }
        (Ok(pages.into_items()), asked)
    }

    #[test]
    fn every_kind_of_list_is_bounded_in_items_bytes_values_pages_and_circles() {
        let limits = Limits {
            tools_per_server_max: 3,
            tool_list_bytes_max: 20,
            tool_pages_max: 5,
            json_values_max: 7,
            ..Limits::default()
        };
        for (kind, key) in [
            (ListKind::Tools, "tools"),
            (ListKind::Resources, "resources"),
            (ListKind::ResourceTemplates, "resourceTemplates"),
            (ListKind::Prompts, "prompts"),
        ] {
            let page = |items: &str, next: &str| format!(r#"{{"{key}":[{items}],"nextCursor":{next}}}"#);
            let of = |pages: Vec<String>| read(kind, &pages, &limits);
            let both = of(vec![page("1", r#""b""#), page("2", "null")]);
            assert_eq!(both, (Ok(vec![1.into(), 2.into()]), 2), "{key}");
            assert_eq!(of(vec![page("1,2,3,4", r#""b""#)]).0.unwrap().len(), 3, "{key}");
            assert_eq!(of(vec![page(r#"1,"xxxxxxxxxxxxxxxxxxxx""#, "null")]).0.unwrap().len(), 1, "{key}");
            assert_eq!(of(vec![page("1,[[],[],0]", "null")]).0.unwrap().len(), 2, "{key}");
            assert_eq!(of(vec![page("1,[[],[],[]]", "null")]).0.unwrap().len(), 1, "{key}");
            assert_eq!(of(vec![page("1", r#""a""#)]), (Ok(vec![1.into(), 1.into()]), 2), "{key}");
            let endless = (0..9).map(|number| page("", &format!("\"{number}\""))).collect();
            assert_eq!(of(endless), (Ok(vec![]), 5), "{key}");
            assert_eq!(of(vec![r#"{"others":[]}"#.into()]), (Err(InvalidPage), 1), "{key}");
            assert_eq!(of(vec!["[]".into()]), (Err(InvalidPage), 1), "{key}");
        }
    }
}
