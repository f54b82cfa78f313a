//! Reads a server's lists page by page, within bounds, and ends lists whose cursors repeat.
//!
//! Items stay JSON, since one invalid item would make a typed list fail as a whole.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use belljar_base::limits::Limits;
use belljar_base::names::ToolName;
use belljar_base::text;
use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest, ListToolsRequest,
    PaginatedRequestParams, ServerCapabilities,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::http::ParameterHeaders;
use crate::jsonrpc::repaired;
use crate::raw_results::{RawResult, RawResults};

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

    pub(crate) fn request(self, cursor: Option<String>) -> ClientRequest {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor;
        match self {
            Self::Tools => ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params)),
            Self::Resources => ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params)),
            Self::ResourceTemplates => {
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::with_param(params))
            }
            Self::Prompts => ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params)),
        }
    }
}

/// The members of one page. Its items are parsed one by one: a page may have more than are kept, and parsed values take
/// many times the memory of their text.
struct Page<'a>(HashMap<String, &'a RawValue>);

impl<'a> Page<'a> {
    fn of(json: &'a str) -> Result<Self, InvalidPage> {
        let members = match json.as_bytes() {
            // What PHP writes for an empty object.
            [b'[', ..] if serde_json::from_str::<[(); 0]>(json).is_ok() => Some(HashMap::new()),
            _ => serde_json::from_str(json).ok(),
        };
        members.map(Self).ok_or_else(|| InvalidPage("its result is no object".into()))
    }

    /// A member; null if there is none.
    fn member(&self, name: &str) -> Value {
        self.0.get(name).and_then(|member| serde_json::from_str(member.get()).ok()).unwrap_or_default()
    }

    /// The items of a list. Null and an empty object, which some languages write for an empty list, count as one.
    fn items(&self, kind: ListKind) -> Result<Vec<&'a RawValue>, InvalidPage> {
        let key = match kind {
            ListKind::Tools => "tools",
            ListKind::Resources => "resources",
            ListKind::ResourceTemplates => "resourceTemplates",
            ListKind::Prompts => "prompts",
        };
        let Some(items) = self.0.get(key) else { return Err(InvalidPage(format!("{key} is missing"))) };
        let is_nothing = items.get() == "null"
            || serde_json::from_str::<Map<String, Value>>(items.get()).is_ok_and(|items| items.is_empty());
        match serde_json::from_str(items.get()) {
            _ if is_nothing => Ok(vec![]),
            items => items.map_err(|_| InvalidPage(format!("{key} is no list"))),
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
    /// The names of the tools so far.
    names: HashSet<String>,
    is_whole: bool,
    /// The lifetime of the list, if the server gives one.
    fresh_for: Option<Duration>,
    /// What of the list was left out, in words.
    left_out: Vec<String>,
}

/// The server's answer is not a page of the list. The text is the reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidPage(pub(super) String);

impl<'l> Pages<'l> {
    pub(crate) fn of(kind: ListKind, limits: &'l Limits) -> Self {
        let (cursors, names) = (HashSet::new(), HashSet::new());
        Self {
            kind,
            limits,
            items: vec![],
            bytes: 0,
            values: 0,
            pages: 0,
            cursor: None,
            cursors,
            names,
            is_whole: false,
            fresh_for: None,
            left_out: vec![],
        }
    }

    /// The request for the next page; `None` if the list is complete or long enough.
    pub(crate) fn next(&mut self) -> Option<ClientRequest> {
        if self.is_whole || self.pages == self.limits.tool_pages_max {
            return None;
        }
        self.pages += 1;
        Some(self.kind.request(self.cursor.take()))
    }

    /// Takes in a page.
    pub(crate) fn take(&mut self, page: &RawValue) -> Result<(), InvalidPage> {
        let json = repaired(page.get());
        let page = Page::of(&json)?;
        let fresh_for = page.member("ttlMs").as_u64().map(Duration::from_millis);
        self.fresh_for = [self.fresh_for, fresh_for].into_iter().flatten().min();
        for item in page.items(self.kind)? {
            self.bytes += item.get().len();
            self.values += text::json_values(item.get().as_bytes());
            let (items_max, bytes_max) = (self.limits.tools_per_server_max, self.limits.tool_list_bytes_max);
            let values_max = self.limits.json_values_max;
            if self.items.len() == items_max || self.bytes > bytes_max || self.values > values_max {
                self.left_out.push(format!("all behind item {}, since it is too long", self.items.len()));
                self.is_whole = true;
                return Ok(());
            }
            match self.read(item) {
                Ok(item) => self.items.push(item),
                Err(why) => {
                    let number = self.items.len() + self.left_out.len() + 1;
                    self.left_out.push(format!("item {number} ({why})"));
                }
            }
        }
        let next = match page.member("nextCursor") {
            Value::String(next) => Some(next),
            Value::Number(next) => Some(next.to_string()),
            Value::Null | Value::Bool(false) => None,
            Value::Array(next) if next.is_empty() => None,
            Value::Object(next) if next.is_empty() => None,
            _ => {
                self.left_out.push("further pages, since its nextCursor is no text".into());
                None
            }
        };
        let next = next.filter(|next| !next.is_empty());
        if next.as_ref().is_some_and(|next| !self.cursors.insert(next.clone())) {
            self.left_out.push("pages that its nextCursor names again".into());
            self.is_whole = true;
        }
        self.is_whole |= next.is_none();
        self.cursor = next;
        Ok(())
    }

    fn read(&mut self, item: &RawValue) -> Result<Value, String> {
        let item: Value = serde_json::from_str(item.get()).map_err(|_| "it nests too deeply".to_owned())?;
        if self.kind == ListKind::Tools {
            let name = item.get("name").and_then(Value::as_str).ok_or("it has no name")?;
            ToolName::new(name).map_err(|error| error.to_string())?;
            if !self.names.insert(name.to_owned()) {
                return Err("its name is another tool's, too".into());
            }
        }
        Ok(item)
    }

    /// The items, and what was left out.
    pub(super) fn into_items(self) -> (Vec<Value>, Vec<String>) {
        (self.items, self.left_out)
    }
}

/// The tools of a server.
#[derive(Clone, Default)]
pub(crate) struct Tools {
    pub(crate) all: Arc<[Value]>,
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
        let invalid = match awaited.take().await {
            Some(RawResult::Result(page)) => pages.take(&page).err(),
            Some(RawResult::Unreadable(why)) => Some(InvalidPage(why.reason().to_owned())),
            Some(RawResult::Lost(_)) | None => return Err(ServiceError::UnexpectedResponse),
        };
        if let Some(InvalidPage(why)) = invalid {
            pages.left_out.push(format!("a page of tools, since {why}"));
            break;
        }
    }
    let stale_at = pages
        .fresh_for
        .and_then(|fresh_for| Instant::now().checked_add(fresh_for.max(limits.listing_fresh_min)));
    let (mut tools, mut left_out) = pages.into_items();
    if let Some(parameters) = parameters {
        tools = parameters.admit(tools, &mut left_out);
    }
    if !left_out.is_empty() {
        let reason = crate::raw_results::left_out(&left_out);
        tracing::warn!(reason, "a server's list of tools is not whole");
    }
    answers.unread().items(left_out);
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
        (Ok(pages.into_items().0), asked)
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
        let names = ["a", "b", "c", "d"].map(|name| format!(r#"{{"name":"{name}"}}"#)).join(",");
        let roomy = Limits { tool_list_bytes_max: 1000, json_values_max: 1000, ..limits.clone() };
        assert_eq!(read(ListKind::Tools, &[format!(r#"{{"tools":[{names}]}}"#)], &roomy).0.unwrap().len(), 3);
        for (kind, key) in [
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
            let invalid = |page: &str| of(vec![page.to_owned()]).0.unwrap_err().0;
            assert_eq!(invalid(r#"{"others":[]}"#), format!("{key} is missing"));
            assert_eq!(invalid(&format!(r#"{{"{key}":"x"}}"#)), format!("{key} is no list"));
            assert_eq!(invalid("7"), "its result is no object");
            assert_eq!(invalid("[]"), format!("{key} is missing"));
            for nothing in ["null", "{}", "[]"] {
                let nothing = format!(r#"{{"{key}":{nothing},"nextCursor":[]}}"#);
                assert_eq!(of(vec![nothing]), (Ok(vec![]), 1), "{key}");
            }
        }
    }
}
