//! Lets code ask a model: at the endpoint that the user has set, else through the client of the run, within policy and
//! budgets.
//!
//! The request goes to that model only, and the endpoint's key to the endpoint only.

use std::sync::Arc;
use std::time::Duration;

use belljar_base::run::{DryRunReason, FaultCode, ToolFault};
use belljar_base::text;
use belljar_tools::policy::{CallArguments, Names, PolicyCall};
use belljar_upstream::{Clock, QuestionKind};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::model_request::{ASK_MODEL, RUNTIME, answer, asked, cost, sampled, sampling};
use crate::broker::answer::Answer;
use crate::broker::arguments;
use crate::broker::call::{Call, SendRule};
use crate::broker::human::HumanDeadline;
use crate::broker::parts::Broker;
use crate::config::{ModelAccess, ModelEndpoint, ModelSettings};
use crate::models::{Endpoint, ModelAnswer, ModelError, ModelRequest};

/// Longest text of a failure that the model reads, in characters.
const FAILURE_CHARS_MAX: usize = 600;
const NO_MODEL_HINT: &str = "the user sets endpoint and name below [model] in config.toml (and no via = \"sampling\"), or uses a client that offers its model (sampling)";

impl Broker {
    /// Asks a model and writes the call to the audit log in any case.
    pub(crate) async fn ask_model(
        &self,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<Answer, ToolFault> {
        RUNTIME.clone_into(&mut call.record.entry().server);
        let answer = self.model_s_answer(call, cancel).await;
        self.write_down(call.record, &call.arguments, &answer).await;
        answer
    }

    async fn model_s_answer(&self, call: &Call<'_>, cancel: &CancellationToken) -> Result<Answer, ToolFault> {
        let arguments = CallArguments::from(arguments::object(&call.arguments, &self.limits)?);
        let settings = self.models.now().settings.clone();
        let route = route(&settings, call)?;
        // The request changes nothing, so only a rule or the settings can forbid it.
        let annotations = annotations();
        let called = PolicyCall {
            server: Names::only(RUNTIME),
            tool: Names::only(ASK_MODEL),
            annotations: &annotations,
            arguments: &arguments,
        };
        let bytes = call.arguments.get().len() as u64;
        if call.send_rule != SendRule::Always {
            call.record.decided("not made: dry run");
            let asks = self.admission.would_ask(&called, cancel).await?;
            return Ok(call.planned(&called, (asks, DryRunReason::Helper), &|text| text));
        }
        let asked = asked(&arguments.given, &self.limits)?;
        let decision = self.admission.admit(call.run(), &called, bytes, cancel).await?;
        call.record.decided(decision.as_str());
        let until = call.run().human.until(call.deadline);
        let turn = self.turn(&until, cancel).await?;
        let mut counted = self.models.count(call.run(), turn, &asked)?;
        self.note_begun(call);
        if !call.record.send() {
            return Err(given_up());
        }
        // Until the answer tells the cost, the estimate counts: a request that fails may have cost as much.
        counted.taken = asked.estimated_tokens();
        let (said, whom) = match route {
            ModelRoute::Endpoint(endpoint) => {
                let said = self.by_endpoint(endpoint, &asked, (&until, settings.bounds.time), cancel).await?;
                (said, endpoint.origin())
            }
            ModelRoute::Client => {
                (self.by_client(&asked, settings.name.as_deref(), call, cancel).await?, "the client".into())
            }
        };
        let cost = cost(&asked, &said);
        counted.taken = cost.0.total();
        let about = if cost.1 { "about " } else { "" };
        let model = said.model.as_deref().or(settings.name.as_deref()).unwrap_or("a model");
        call.record.decided(format!(
            "{decision}; {model} by {whom}: {about}{} tokens sent, {} received",
            cost.0.prompt_tokens, cost.0.completion_tokens
        ));
        let value = to_raw_value(&answer(&said, cost));
        let value = value.map_err(|error| ToolFault::new(FaultCode::Internal, error.to_string()))?;
        self.count_answer(call.record, Names::only(RUNTIME), value.get().len())?;
        Ok(Answer::Value(value))
    }

    /// Waits until another request may be sent.
    async fn turn(
        &self,
        until: &HumanDeadline<'_>,
        cancel: &CancellationToken,
    ) -> Result<OwnedSemaphorePermit, ToolFault> {
        let turns = Arc::clone(&self.models.now().turns);
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(given_up()),
            turn = turns.acquire_owned() => turn.map_err(|error| ToolFault::new(FaultCode::Internal, error.to_string())),
            () = until.over() => Err(ToolFault::new(
                FaultCode::Deadline,
                "the run's time was over before the model could be asked; nothing was sent",
            )),
        }
    }

    async fn by_endpoint(
        &self,
        settings: &ModelEndpoint,
        asked: &ModelRequest,
        (until, time): (&HumanDeadline<'_>, Duration),
        cancel: &CancellationToken,
    ) -> Result<ModelAnswer, ToolFault> {
        let began = Instant::now();
        let left = || {
            let now = Instant::now();
            until.deadline().duration_since(now).min((began + time).duration_since(now))
        };
        let asking = async { self.endpoint(settings).await?.ask(asked, left).await };
        let late =
            |which: &str| ToolFault::new(FaultCode::Deadline, format!("the model did not answer {which}"));
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(given_up()),
            said = asking => said.map_err(|error| self.model_fault(&error)),
            () = until.over() => Err(late("before the run's time was over")
                .hint("give the run a larger timeout, or ask for less: fewer max_tokens, a smaller part")),
            () = tokio::time::sleep(time) => {
                Err(late(&format!("within the {} s that it has (model.timeout)", time.as_secs()))
                    .hint("ask for less: fewer max_tokens, a smaller part; the user sets model.timeout in config.toml"))
            }
        }
    }

    /// Returns the endpoint. It is created at the first request, since a command may have to print its key.
    async fn endpoint(&self, settings: &ModelEndpoint) -> Result<Arc<Endpoint>, ModelError> {
        if let Some(known) = self.models.now().endpoint.clone() {
            return Ok(known);
        }
        let endpoint = Arc::new(self.shared.active_config.model_endpoint(settings, &self.limits).await?);
        let mut now = self.models.now();
        // The settings may have changed meanwhile.
        if now.settings.access == ModelAccess::Endpoint(settings.clone()) {
            return Ok(Arc::clone(now.endpoint.get_or_insert(endpoint)));
        }
        Ok(endpoint)
    }

    async fn by_client(
        &self,
        asked: &ModelRequest,
        name: Option<&str>,
        call: &Call<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelAnswer, ToolFault> {
        let failed = |reason: String| {
            let reason = text::inert_excerpt(&reason, FAILURE_CHARS_MAX);
            ToolFault::new(FaultCode::ModelFailed, format!("the client's model gave no answer: {reason}"))
        };
        let time = call
            .run()
            .human
            .time_to_answer(self.limits.approval, self.limits.waiting_per_run)
            .map_err(failed)?;
        let _waiting = call.run().human.wait();
        let passed_on = call.run().human.pass_on(QuestionKind::Sampling, sampling(asked, name));
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(given_up()),
            result = tokio::time::timeout(time, passed_on) => result,
        };
        let result = result.map_err(|_| failed("the user has not answered".to_owned()))?;
        let result = result.map_err(|not| failed(not.message))?;
        sampled(&result, &self.limits).map_err(failed)
    }

    /// Turns a failure of the endpoint into a fault for code.
    fn model_fault(&self, error: &ModelError) -> ToolFault {
        let (code, hint) = match error {
            ModelError::Unusable { .. } => {
                (FaultCode::ModelUnavailable, "the user must fix [model] in config.toml")
            }
            ModelError::NotReached { .. } => (
                FaultCode::ModelUnavailable,
                "nothing was sent; the user starts the service, or corrects model.endpoint in config.toml",
            ),
            ModelError::NotAllowed { .. } => {
                // The key is read again next time: its command may print another one.
                self.models.now().endpoint = None;
                (FaultCode::ModelUnavailable, "the user corrects model.key in config.toml")
            }
            ModelError::Refused { status: 404, .. } => {
                (FaultCode::ModelUnavailable, "the user corrects model.endpoint or model.name in config.toml")
            }
            ModelError::Refused { .. } => (FaultCode::ModelFailed, ""),
            ModelError::Busy { .. } => (FaultCode::ModelFailed, "ask later, or fewer at once"),
            ModelError::Broken { .. } | ModelError::Nonsense { .. } => (FaultCode::ModelFailed, ""),
            ModelError::TooLarge { .. } => (FaultCode::TooLarge, "ask for fewer max_tokens"),
        };
        let mut message = error.to_string();
        if let ModelError::Busy { wants: Some(wants), .. } = error {
            message = format!("{message} (it wants to be left alone for {} s)", wants.as_secs());
        }
        ToolFault::new(code, text::inert_excerpt(&message, FAILURE_CHARS_MAX)).hint(hint)
    }
}

/// The model that a request goes to.
enum ModelRoute<'s> {
    Endpoint(&'s ModelEndpoint),
    Client,
}

fn route<'s>(settings: &'s ModelSettings, call: &Call<'_>) -> Result<ModelRoute<'s>, ToolFault> {
    let unavailable = |message: String| ToolFault::new(FaultCode::ModelUnavailable, message);
    match &settings.access {
        ModelAccess::Endpoint(endpoint) => Ok(ModelRoute::Endpoint(endpoint)),
        ModelAccess::Sampling if call.run().job_number().is_some() && call.run().human.is_gone() => Err(unavailable(
            "the run that started this job is over, and only during a run can the client's model be asked"
                .into(),
        )
        .hint("jobs are answered at any time by an endpoint, which the user sets below [model] in config.toml")),
        ModelAccess::Sampling if call.run().human.abilities.model => Ok(ModelRoute::Client),
        ModelAccess::Sampling => Err(unavailable(
            "no model can be asked: no endpoint is to be used, and the client of this run does not offer its model"
                .into(),
        )
        .hint(NO_MODEL_HINT)),
        ModelAccess::Off => Err(ToolFault::new(FaultCode::Denied, "no model may be asked: model.via is off")
            .hint("the user sets it in config.toml")),
        ModelAccess::Unusable(reason) => {
            let reason = text::inert_excerpt(reason, FAILURE_CHARS_MAX);
            Err(unavailable(format!("no model can be asked: {reason}"))
                .hint("the user must fix [model] in config.toml"))
        }
    }
}

fn annotations() -> Map<String, Value> {
    let hints = json!({"readOnlyHint": true, "openWorldHint": true});
    hints.as_object().cloned().unwrap_or_default()
}

fn given_up() -> ToolFault {
    ToolFault::new(FaultCode::Cancelled, "the model is not waited for any more")
}
