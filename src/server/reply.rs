//! The result of a request for a run: the reply, in the form that the client supports and the settings choose.

use std::sync::Arc;

use belljar_base::run::{FaultCode, RunReport, ToolFault};
use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::service::RequestContext;
use serde_json::Value;

use super::clients;
use super::files::{self, FileSubscriptions};
use super::notifications::listeners::Listeners;
use super::questions::input_required::RunResult;
use super::settings::HandlerSettings;
use crate::render::{self, Block, Reply, Verdict};
use crate::session::Session;

/// The parts of a request that its result needs when the run has ended.
pub(super) struct ReplyContext {
    pub(super) session: Arc<Session>,
    pub(super) subscriptions: Arc<FileSubscriptions>,
    pub(super) listeners: Arc<Listeners>,
    pub(super) untold_name: Arc<Mutex<Option<String>>>,
    pub(super) settings: HandlerSettings,
    pub(super) context: RequestContext<RoleServer>,
}

impl ReplyContext {
    /// The result for a run that has ended.
    pub(super) async fn result(&self, ended: RunResult) -> CallToolResult {
        let report = match ended {
            Ok(report) => report.unwrap_or_else(RunReport::not_started),
            Err(error) => {
                tracing::error!(%error, "a run's task broke");
                let fault = ToolFault::new(FaultCode::Internal, "the run broke inside belljar");
                RunReport::not_started(fault.hint("run it again; variables may be gone"))
            }
        };
        let client = self.context.client_info().map(|info| info.name).unwrap_or_default();
        let limits = clients::limits(&self.settings.limits, &client);
        self.written(render::render(&report, self.settings.output_mode, &limits)).await
    }

    /// The result for a run that was refused.
    pub(super) async fn refusal(&self, fault: &ToolFault) -> CallToolResult {
        self.written(render::refusal(fault, self.settings.output_mode, &self.settings.limits)).await
    }

    /// Sends notifications of changed files, and then makes the result with the reply.
    async fn written(&self, reply: Reply) -> CallToolResult {
        let Self { subscriptions, listeners, context, .. } = self;
        files::tell_changes(self.session.files(), subscriptions, listeners, &context.peer).await;
        let blocks = reply
            .blocks
            .into_iter()
            .filter_map(|block| match block {
                Block::Text(text) => Some(ContentBlock::text(text)),
                Block::Image(image) => Some(ContentBlock::image(image.base64, image.mime_type)),
                Block::File(address) => files::link(&address, &self.context).map(ContentBlock::resource_link),
            })
            .collect();
        let mut result = CallToolResult::success(blocks);
        let mut structured = reply.structured;
        if let Some(name) = self.untold_name.lock().take() {
            let told = format!("session: {name} (pass session={name:?} to go on with these variables)");
            result.content.push(ContentBlock::text(told));
            if let Value::Object(fields) = &mut structured {
                fields.insert("session".into(), name.into());
            }
        }
        result.is_error = Some(reply.verdict == Verdict::Error);
        if self.settings.structured {
            result.structured_content = Some(structured);
        }
        result
    }
}
