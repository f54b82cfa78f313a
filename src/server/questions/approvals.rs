//! Asks the human through a form in the client whether a call is allowed, and reads the answer.
//!
//! It decides nothing: the broker decides what is asked, and what an answer allows.

use std::num::NonZeroU32;

use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    EnumSchema, ServerRequest, SingleSelectEnumSchema,
};
use rmcp::service::Peer;
use serde::Deserialize;

use super::ask::{AskError, abilities, answer};
use crate::broker::Approval;
use crate::policy::Pattern;

/// The largest number of further calls that one answer may approve.
const FURTHER_MAX: u32 = 50;
const ONCE: &str = "allow this call";
const FURTHER: &str = "allow further calls of this tool";
const DENY: &str = "deny";

/// Asks the human about a call, and returns the answer.
pub(in crate::server) async fn ask(
    peer: &Peer<RoleServer>,
    message: String,
    withdrawn: impl Future<Output = ()>,
) -> Approval {
    let unable = |reason: &str| Approval::Unable { reason: reason.to_owned() };
    if !abilities(peer).elicitation {
        return not_declared();
    }
    match answer(peer, ServerRequest::ElicitRequest(request(message)), withdrawn).await {
        Ok(ClientResult::ElicitResult(result)) => approval(&result),
        Ok(_) => unable("the client's answer is not a result of elicitation/create"),
        Err(AskError::NotSent) => unable("this client could not be asked"),
        Err(AskError::Withdrawn) => unable("the call no longer waits"),
        Err(AskError::Refused(error)) => {
            tracing::debug!(%error, "the client has not answered");
            unable("the client has not answered")
        }
    }
}

/// The answer for a client that shows no forms.
pub(super) fn not_declared() -> Approval {
    Approval::Unable { reason: "this client cannot ask them (it has declared no elicitation)".into() }
}

/// The form with this question.
pub(in crate::server) fn request(message: String) -> ElicitRequest {
    let requested_schema = form();
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// The form. Clients show its fields in the order of their names, so the name of the decision comes first. A decision
/// is preselected, so that a human who agrees only has to confirm.
fn form() -> ElicitationSchema {
    let decisions = [ONCE, FURTHER, DENY].map(str::to_owned).to_vec();
    let mut decision = EnumSchema::builder(decisions).title("Decision").build();
    if let EnumSchema::Single(SingleSelectEnumSchema::Untitled(choices)) = &mut decision {
        choices.default = Some(ONCE.to_owned());
    }
    ElicitationSchema::builder()
        .required_enum_schema("decision", decision)
        .optional_integer_with("further_calls", |calls| {
            calls
                .range(1, i64::from(FURTHER_MAX))
                .title("Further calls")
                .description("how many, when further calls are allowed; without a number: none")
        })
        .optional_string_with("only_with", |arguments| {
            arguments.title("Only with arguments").description(
                "patterns of arguments that further calls must have, such as path=/data/*, with semicolons",
            )
        })
        .build_unchecked()
}

/// The form as the human has filled it in.
#[derive(Deserialize)]
struct ApprovalForm {
    decision: String,
    #[serde(default)]
    further_calls: Option<f64>,
    #[serde(default)]
    only_with: Option<String>,
}

/// Reads the human's answer from the form. An invalid form is no approval.
pub(super) fn approval(result: &ElicitResult) -> Approval {
    let form = result.content.as_ref().and_then(|content| ApprovalForm::deserialize(content).ok());
    let (ElicitationAction::Accept, Some(form)) = (&result.action, form) else { return Approval::Denied };
    match form.decision.as_str() {
        ONCE => Approval::Once,
        FURTHER => further(&form),
        _ => Approval::Denied,
    }
}

fn further(form: &ApprovalForm) -> Approval {
    // The conversion saturates and drops fractions.
    let calls = form.further_calls.unwrap_or(0.0) as u32;
    let Some(calls) = NonZeroU32::new(calls.min(FURTHER_MAX)) else { return Approval::Once };
    let written = form.only_with.as_deref().unwrap_or("").split(';').map(str::trim);
    let patterns = written.filter(|part| !part.is_empty()).map(|part| {
        let (path, pattern) = part.split_once('=')?;
        Some((path.trim().to_owned(), Pattern::new(pattern.trim()).ok()?))
    });
    match patterns.collect() {
        Some(arguments) => Approval::Further { calls, arguments },
        None => Approval::Once,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(action: ElicitationAction, content: Value) -> Approval {
        let mut result = ElicitResult::new(action);
        result.content = Some(content);
        approval(&result)
    }

    #[test]
    fn only_a_clear_yes_is_an_approval() {
        let accept = |content| answer(ElicitationAction::Accept, content);
        assert_eq!(accept(json!({"decision": ONCE})), Approval::Once);
        for no in [
            json!({"decision": DENY}),
            json!({"decision": "yes"}),
            json!({"decision": 1}),
            json!({}),
            json!("allow this call"),
        ] {
            assert_eq!(accept(no.clone()), Approval::Denied, "{no}");
        }
        for action in [ElicitationAction::Decline, ElicitationAction::Cancel] {
            assert_eq!(answer(action, json!({"decision": ONCE})), Approval::Denied);
        }
        assert_eq!(approval(&ElicitResult::new(ElicitationAction::Accept)), Approval::Denied);
    }

    #[test]
    fn decision_comes_first_and_is_set_already() {
        let form = serde_json::to_value(form()).unwrap();
        let fields: Vec<&String> = form["properties"].as_object().unwrap().keys().collect();
        assert_eq!(fields, ["decision", "further_calls", "only_with"]);
        assert_eq!(form["properties"]["decision"]["default"], ONCE);
        assert_eq!(form["required"], json!(["decision"]));
    }

    #[test]
    fn further_calls_are_bounded_and_what_they_must_be_like_is_never_lost() {
        let accept = |calls: Value, arguments: Value| {
            let form = json!({"decision": FURTHER, "further_calls": calls, "only_with": arguments});
            answer(ElicitationAction::Accept, form)
        };
        let further = |calls, arguments: &[(&str, &str)]| Approval::Further {
            calls: NonZeroU32::new(calls).unwrap(),
            arguments: arguments
                .iter()
                .map(|(path, pattern)| ((*path).to_owned(), Pattern::new(pattern).unwrap()))
                .collect(),
        };
        assert_eq!(accept(json!(7), json!(null)), further(7, &[]));
        assert_eq!(accept(json!(1e9), json!("")), further(50, &[]));
        let both = further(3, &[("path", "/data/*"), ("options.mode", "a=b")]);
        assert_eq!(accept(json!(3), json!(" path=/data/* ; options.mode=a=b;")), both);
        for (calls, arguments) in [
            (json!(0), json!("")),
            (json!(-1), json!("")),
            (json!(3), json!("/data/*")),
            (json!(3), json!("path=")),
        ] {
            assert_eq!(accept(calls, arguments), Approval::Once);
        }
    }
}
