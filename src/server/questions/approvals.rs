//! Asks the human through a form in the client whether a call is allowed, and reads the answer.
//!
//! It decides nothing: the broker decides what is asked, and what an answer allows.

use std::num::NonZeroU32;

use belljar_base::text;
use belljar_tools::policy::Pattern;
use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    EnumSchema, ServerRequest, SingleSelectEnumSchema,
};
use rmcp::service::{Peer, ServiceError};

use super::ask::{AskError, abilities, answer};
use crate::broker::{Approval, ApprovalForm};

/// Longest message of a client's error that is passed on, in characters.
const MESSAGE_CHARS_MAX: usize = 300;
const ONCE: &str = "allow this call";
const TEN: &str = "allow 10 further calls of this tool";
const FIFTY: &str = "allow 50 further calls of this tool";
const NARROWED: &str = "allow 10 further calls with arguments that I name next";
const REFUSE: &str = "refuse";
/// The field of the form with arguments.
const ARGUMENTS: &str = "only_with";

/// Asks the human about a call, and returns the answer.
pub(crate) async fn ask(
    peer: &Peer<RoleServer>,
    message: String,
    form: ApprovalForm,
    withdrawn: impl Future<Output = ()>,
) -> Approval {
    if !abilities(peer).elicitation {
        return not_declared();
    }
    match answer(peer, ServerRequest::ElicitRequest(request(message, form)), withdrawn).await {
        Ok(ClientResult::ElicitResult(result)) => approval(form, &result),
        Ok(_) => Approval::missing("the client's answer is not a result of elicitation/create"),
        Err(AskError::NotSent) => Approval::missing("this client could not be asked"),
        Err(AskError::Withdrawn) => Approval::missing("the call no longer waits"),
        Err(AskError::Refused(error)) => {
            tracing::debug!(%error, "the client has not answered");
            match error {
                ServiceError::McpError(error) => {
                    let said = text::inert_excerpt(&error.message, MESSAGE_CHARS_MAX);
                    Approval::missing(&format!("the client answered with an error: {said}"))
                }
                _ => Approval::missing("the client has not answered"),
            }
        }
    }
}

/// The answer for a client that shows no forms.
pub(super) fn not_declared() -> Approval {
    Approval::missing("this client cannot ask them (it has declared no elicitation)")
}

/// A form with this question.
pub(crate) fn request(message: String, form: ApprovalForm) -> ElicitRequest {
    let requested_schema = match form {
        ApprovalForm::Decision => decision_form(),
        ApprovalForm::Arguments => arguments_form(),
    };
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// The form for a decision. It has one field, which every client with forms can show, and whose default allows the
/// call: a human who agrees only has to confirm.
fn decision_form() -> ElicitationSchema {
    let decisions = [ONCE, TEN, FIFTY, NARROWED, REFUSE].map(str::to_owned).to_vec();
    let mut decision = EnumSchema::builder(decisions).title("Decision").build();
    if let EnumSchema::Single(SingleSelectEnumSchema::Untitled(choices)) = &mut decision {
        choices.default = Some(ONCE.to_owned());
    }
    ElicitationSchema::builder().required_enum_schema("decision", decision).build_unchecked()
}

/// The form for the arguments that further calls must have.
fn arguments_form() -> ElicitationSchema {
    ElicitationSchema::builder()
        .required_string_with(ARGUMENTS, |arguments| {
            arguments.title("Only with arguments").description(
                "patterns of arguments that the 10 further calls must have, such as path=/data/*, with semicolons",
            )
        })
        .build_unchecked()
}

/// Reads the human's answer. An invalid form is no approval.
pub(super) fn approval(form: ApprovalForm, result: &ElicitResult) -> Approval {
    match result.action {
        ElicitationAction::Accept => {}
        ElicitationAction::Decline => return Approval::missing("the question was declined"),
        // An action that is not known here is no answer either.
        _ => return Approval::missing("the question was dismissed, or nobody was there to answer it"),
    }
    let field = |name: &str| result.content.as_ref()?.get(name)?.as_str();
    let answered = match form {
        ApprovalForm::Decision => field("decision").and_then(decided),
        ApprovalForm::Arguments => field(ARGUMENTS).map(narrowed),
    };
    answered.unwrap_or_else(|| {
        Approval::missing(
            "the client accepted the question without a decision: it probably showed the user no form",
        )
    })
}

fn decided(decision: &str) -> Option<Approval> {
    match decision {
        ONCE => Some(Approval::Once),
        TEN => Some(Approval::Further { calls: further(10), arguments: vec![] }),
        FIFTY => Some(Approval::Further { calls: further(50), arguments: vec![] }),
        NARROWED => Some(Approval::Narrowed),
        REFUSE => Some(Approval::missing("the user refused")),
        _ => None,
    }
}

/// Further calls with these arguments. Without valid patterns, only the call that was asked about is allowed.
fn narrowed(written: &str) -> Approval {
    let written = written.split(';').map(str::trim).filter(|part| !part.is_empty());
    let patterns: Option<Vec<_>> = written
        .map(|part| {
            let (path, pattern) = part.split_once('=')?;
            Some((path.trim().to_owned(), Pattern::new(pattern.trim()).ok()?))
        })
        .collect();
    match patterns {
        Some(arguments) if !arguments.is_empty() => Approval::Further { calls: further(10), arguments },
        _ => Approval::Once,
    }
}

fn further(calls: u32) -> NonZeroU32 {
    NonZeroU32::new(calls).unwrap_or(NonZeroU32::MIN)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(form: ApprovalForm, action: ElicitationAction, content: Value) -> Approval {
        let mut result = ElicitResult::new(action);
        result.content = Some(content);
        approval(form, &result)
    }

    fn accept(content: Value) -> Approval {
        answer(ApprovalForm::Decision, ElicitationAction::Accept, content)
    }

    #[test]
    fn only_a_clear_yes_is_an_approval_and_each_other_answer_is_told_apart() {
        assert_eq!(accept(json!({"decision": ONCE})), Approval::Once);
        assert_eq!(accept(json!({"decision": REFUSE})), Approval::missing("the user refused"));
        let no_form =
            "the client accepted the question without a decision: it probably showed the user no form";
        for no in [
            json!({"decision": "yes"}),
            json!({"decision": 1}),
            json!({ARGUMENTS: "path=*"}),
            json!({}),
            json!("allow this call"),
        ] {
            assert_eq!(accept(no.clone()), Approval::missing(no_form), "{no}");
        }
        for form in [ApprovalForm::Decision, ApprovalForm::Arguments] {
            let yes = json!({"decision": ONCE, ARGUMENTS: "path=*"});
            let declined = answer(form, ElicitationAction::Decline, yes.clone());
            assert_eq!(declined, Approval::missing("the question was declined"));
            let dismissed = "the question was dismissed, or nobody was there to answer it";
            assert_eq!(answer(form, ElicitationAction::Cancel, yes), Approval::missing(dismissed));
            let nothing = ElicitResult::new(ElicitationAction::Accept);
            assert_eq!(approval(form, &nothing), Approval::missing(no_form));
        }
    }

    #[test]
    fn a_decision_is_one_choice_and_its_default_allows_the_call() {
        let form = serde_json::to_value(decision_form()).unwrap();
        let decision = json!({"type": "string", "title": "Decision", "default": ONCE, "enum": [
            "allow this call", "allow 10 further calls of this tool", "allow 50 further calls of this tool",
            "allow 10 further calls with arguments that I name next", "refuse",
        ]});
        let expected =
            json!({"type": "object", "properties": {"decision": decision}, "required": ["decision"]});
        assert_eq!(form, expected);
    }

    #[test]
    fn further_calls_are_bounded_and_what_they_must_be_like_is_never_lost() {
        let further = |calls, arguments: &[(&str, &str)]| Approval::Further {
            calls: NonZeroU32::new(calls).unwrap(),
            arguments: arguments
                .iter()
                .map(|(path, pattern)| ((*path).to_owned(), Pattern::new(pattern).unwrap()))
                .collect(),
        };
        assert_eq!(accept(json!({"decision": TEN})), further(10, &[]));
        assert_eq!(accept(json!({"decision": FIFTY})), further(50, &[]));
        assert_eq!(accept(json!({"decision": NARROWED})), Approval::Narrowed);
        let with = |arguments: &str| {
            answer(ApprovalForm::Arguments, ElicitationAction::Accept, json!({ ARGUMENTS: arguments }))
        };
        let both = further(10, &[("path", "/data/*"), ("options.mode", "a=b")]);
        assert_eq!(with(" path=/data/* ; options.mode=a=b;"), both);
        for none in ["", " ; ", "/data/*", "path=", "path=/data/*; mode"] {
            assert_eq!(with(none), Approval::Once, "{none}");
        }
    }
}
