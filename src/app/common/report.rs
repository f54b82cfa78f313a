//! The report of `belljar doctor`: lines for a person, or JSON with one line for each check.

use std::cell::RefCell;

use serde::Serialize;
use serde_json::json;

use super::printing::{CheckState, out, to_stdout_marked};

/// A check with its result.
#[derive(Serialize)]
pub(crate) struct Check {
    check: String,
    /// The worst state of its lines.
    state: CheckState,
    text: String,
    details: Vec<String>,
}

/// A report, which is printed while it is made.
pub(crate) enum Report {
    /// Lines for a person.
    Lines,
    /// JSON. The value is the check that may get further lines.
    Json(RefCell<Option<Check>>),
}

impl Report {
    pub(crate) fn new(is_json: bool) -> Self {
        if is_json { Self::Json(RefCell::default()) } else { Self::Lines }
    }

    /// Reports a line with its label. An empty label continues the check before.
    pub(crate) fn line(&self, label: &str, text: &str) {
        let Self::Json(current) = self else {
            to_stdout_marked(label, text);
            return;
        };
        let state = CheckState::of(label, text);
        if let Some(check) = current.borrow_mut().as_mut().filter(|_| label.is_empty()) {
            check.state = check.state.max(state);
            check.details.push(text.to_owned());
            return;
        }
        let (check, text) = (label.to_lowercase(), text.to_owned());
        let check = Check { check, state, text, details: vec![] };
        print(current.replace(Some(check)));
    }

    /// Prints what is left.
    pub(crate) fn end(self) {
        if let Self::Json(current) = self {
            print(current.into_inner());
        }
    }
}

fn print(check: Option<Check>) {
    if let Some(check) = check {
        out!("{}", json!(check));
    }
}
