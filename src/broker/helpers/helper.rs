//! Dispatches the helpers that code reaches through `mcp.runtime`, and answers those about the catalog.
//!
//! Answers about the catalog cover the run's own servers only, except `discovered_servers`, which covers all. The
//! helpers that read from servers are in `resources`, those for skills in `skills`, and the questions to a model in
//! `model`.

use belljar_base::run::{DryRunReason, FaultCode, ToolFault};
use belljar_base::text;
use belljar_tools::catalog::{self, Catalog, Detail, Shapes};
use belljar_tools::policy::{Names, PolicyCall};
use belljar_upstream::ListKind;
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::jobs::SPAWN;
use super::model_request::RUNTIME;
use crate::broker::answer::Answer;
use crate::broker::arguments;
use crate::broker::call::{Call, SendRule};
use crate::broker::parts::Broker;

impl Broker {
    pub(crate) async fn help(
        &self,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<Answer, ToolFault> {
        let value = match call.tool.as_str() {
            "list_resources" => return self.list_of(ListKind::Resources, call, cancel).await,
            "list_resource_templates" => {
                return self.list_of(ListKind::ResourceTemplates, call, cancel).await;
            }
            "read_resource" => return self.read_resource(call, cancel).await,
            "list_prompts" => return self.list_of(ListKind::Prompts, call, cancel).await,
            "get_prompt" => return self.get_prompt(call, cancel).await,
            "discovered_servers" => self.discovered_servers(call)?,
            "list_servers" => catalog::list_servers(&self.catalog().scoped(&call.run().servers)),
            "list_tools" => self.list_tools(call, cancel).await?,
            "query_tool_docs" => self.query_tool_docs(call, cancel).await?,
            "search_tool_docs" => self.search_tool_docs(call, cancel).await?,
            "describe_server" => self.describe_server(call, cancel).await?,
            "list_loaded_server_metadata" => {
                catalog::loaded_server_metadata(&self.all_listed(call, cancel).await)
            }
            "capability_summary" => {
                json!(self.manual(&self.catalog().scoped(&call.run().servers), call.run().human.abilities))
            }
            "check_calls" => self.check_calls(call, cancel).await?,
            "save_tool" | "remove_skill" if call.send_rule != SendRule::Always => {
                return self.plan_help(call);
            }
            "save_tool" => self.save_tool(call)?,
            "remove_skill" => self.remove_skill(call)?,
            "resume_session" => self.resume_session(call).await?,
            "load_handle" => return self.load_handle(call).await,
            "handles" => self.handles.list(),
            "drop_handle" => self.drop_handle(call)?,
            "load_skills" => self.load_skills(call)?,
            "list_skills" => self.list_skills()?,
            "show_skill" => self.show_skill(call)?,
            "jobs" => self.list_jobs(),
            SPAWN => self.spawn_job(call)?,
            "job" | "job_result" | "job_tail" | "wait_job" | "cancel_job" => {
                self.of_job(call, cancel).await?
            }
            "skill_history" => self.skill_history(call)?,
            unknown => {
                let shown = text::inert_excerpt(unknown, 100);
                return Err(ToolFault::new(FaultCode::UnknownTool, format!("there is no helper '{shown}'")));
            }
        };
        let written = to_raw_value(&value);
        written.map(Answer::Value).map_err(|error| ToolFault::new(FaultCode::Internal, error.to_string()))
    }

    /// Lists a helper's call as planned instead of making it.
    pub(super) fn plan_help(&self, call: &Call<'_>) -> Result<Answer, ToolFault> {
        let arguments: Map<String, Value> = self.read(call)?;
        let called = PolicyCall {
            server: Names::only(RUNTIME),
            tool: Names::only(&call.tool),
            annotations: &Map::new(),
            arguments: &arguments.into(),
        };
        Ok(call.planned(&called, (false, DryRunReason::Helper), &|text| text))
    }

    fn discovered_servers(&self, call: &Call<'_>) -> Result<Value, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            #[serde(default)]
            detailed: bool,
        }
        let Arguments { detailed } = self.read(call)?;
        let catalog = self.catalog();
        Ok(if detailed { catalog::discovered_servers(&catalog) } else { catalog::list_servers(&catalog) })
    }

    async fn list_tools(&self, call: &Call<'_>, cancel: &CancellationToken) -> Result<Value, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            server: String,
        }
        let Arguments { server } = self.read(call)?;
        let (catalog, server) = self.listed(&server, call, cancel).await?;
        Ok(catalog.server(&server).map_or(Value::Null, |server| catalog::list_tools(server)))
    }

    async fn describe_server(&self, call: &Call<'_>, cancel: &CancellationToken) -> Result<Value, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            name: String,
        }
        let Arguments { name } = self.read(call)?;
        let (catalog, server) = self.listed(&name, call, cancel).await?;
        Ok(catalog.server(&server).map_or(Value::Null, |server| catalog::describe_server(server)))
    }

    async fn query_tool_docs(&self, call: &Call<'_>, cancel: &CancellationToken) -> Result<Value, ToolFault> {
        #[derive(Deserialize)]
        struct Arguments {
            server: String,
            tool: Option<String>,
            detail: Option<String>,
        }
        let Arguments { server, tool, detail } = self.read(call)?;
        let detail = match detail {
            Some(word) => arguments::word(&call.tool, "detail", &word, &Detail::WORDS)?,
            None => Detail::Summary,
        };
        let (catalog, server) = self.listed(&server, call, cancel).await?;
        let Some(server) = catalog.server(&server) else { return Ok(Value::Null) };
        tool.as_deref().map_or(Ok(()), |tool| self.tool(server, tool, call.run()).map(drop))?;
        let docs = |shapes: &Shapes| catalog::query_tool_docs(server, tool.as_deref(), detail, shapes);
        let name = &server.name;
        let asked = tool.as_deref().unwrap_or_default();
        let no_such = |unknown| self.no_such_tool(name, asked, unknown, call.run());
        self.with_shapes(docs).map_err(no_such)
    }

    /// The catalog with the tools of this server, and the server's name. The server must be one of the run's.
    async fn listed(
        &self,
        server: &str,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<(Catalog, String), ToolFault> {
        let server = self.admitted(server, &call.run().servers)?;
        let connected = self.connected(&server, (call.run(), call.deadline), cancel).await;
        connected.map_err(|error| self.not_connected(&server, call.run(), &error))?;
        if let Some(left_out) = self.shared.upstream.left_out(&server) {
            let said = format!("{}, tools/list: {left_out}", text::inert_line(server.as_str()));
            call.run().note(self.shared.upstream.redacted(&server, said));
        }
        Ok((self.catalog(), server.as_str().to_owned()))
    }

    /// The catalog with the tools of the run's servers, or the reason why a server has none. A server that does not
    /// answer in time has neither.
    async fn all_listed(&self, call: &Call<'_>, cancel: &CancellationToken) -> Catalog {
        self.ask_for_tools(&self.server_names(&call.run().servers), "", call, cancel).await;
        self.catalog().scoped(&call.run().servers)
    }

    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self, call: &Call<'_>) -> Result<T, ToolFault> {
        arguments::of_helper(&call.tool, &call.arguments, &self.limits)
    }
}
