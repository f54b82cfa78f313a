//! A session as a notebook of Jupyter (nbformat 4.5), with what its runs have said.

use belljar_base::run::OutputStream;
use belljar_base::text;
use serde_json::{Value, json};

use super::reading::{RecordedRun, RecordedSession};
use super::record::RunEnded;
use super::script::{title, title_of_run};

/// The notebook as JSON: a cell for each run, and one about the session.
#[must_use]
pub fn notebook(session: &RecordedSession) -> Value {
    let about = json!({
        "cell_type": "markdown", "id": "session", "metadata": {},
        "source": title(session),
    });
    let cells: Vec<Value> = std::iter::once(about).chain(session.runs.iter().map(cell)).collect();
    let python = session.sandboxes.last().map(|sandbox| sandbox.python.clone()).unwrap_or_default();
    json!({
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python", "version": text::inert_line(&python)},
        },
        "cells": cells,
    })
}

fn cell(run: &RecordedRun) -> Value {
    let number = run.begun.run;
    json!({
        "cell_type": "code", "id": format!("run-{number}"), "execution_count": number,
        "metadata": {"belljar": title_of_run(run)},
        "source": run.begun.code,
        "outputs": run.ended.as_ref().map(|ended| outputs(number, ended)).unwrap_or_default(),
    })
}

fn outputs(number: u64, ended: &RunEnded) -> Vec<Value> {
    let stream = |name: &str, text: &str| json!({"output_type": "stream", "name": name, "text": inert(text)});
    let mut outputs: Vec<Value> = ended
        .output
        .iter()
        .map(|written| match written.stream {
            OutputStream::Stdout => stream("stdout", &written.text),
            OutputStream::Stderr => stream("stderr", &written.text),
        })
        .collect();
    if let Some(value) = &ended.value {
        outputs.push(json!({
            "output_type": "execute_result", "execution_count": number, "metadata": {},
            "data": {"text/plain": inert(value)},
        }));
    }
    if let Some(error) = &ended.error {
        let traceback: Vec<String> = inert(&error.traceback).lines().map(str::to_owned).collect();
        outputs.push(json!({
            "output_type": "error", "ename": inert(&error.class), "evalue": inert(&error.message),
            "traceback": traceback,
        }));
    }
    outputs
}

fn inert(said: &str) -> String {
    text::inert(said).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::script;

    /// Two runs, of which one fails and the other has not ended.
    const JOURNAL: &str = r#"{"session":{"version":1,"id":"0123456789abcdef","time":"2026-11-22T05:00:00.000Z","client":"me\n\u202e","belljar":"0.1.0","protocol":1,"keep":"calls"}}
{"sandbox":{"time":"t","engine":"e","image":"i","python":"3.14.0"}}
{"run":{"run":1,"time":"t","code":"print(1)\n1 / 0\n","servers":[],"timeout_ms":1,"dry_run":false}}
{"end":{"run":1,"time":"t","outcome":"raised","error":{"type":"ZeroDivisionError","message":"division by zero","traceback":"a\nb","line":2},"output":[{"stream":"stdout","text":"1\u001b[0m\n"}],"value":"2","said_bytes":2,"said_sha256":"","images":0,"state":{"fresh":"first"},"ms":1}}
{"sandbox":{"time":"t","engine":"e","image":"i","python":"3.14.1"}}
{"run":{"run":2,"time":"t","code":"x","servers":[],"timeout_ms":1,"dry_run":true}}
"#;

    #[test]
    fn a_script_has_a_cell_for_each_run() {
        let session = RecordedSession::of(JOURNAL.as_bytes()).unwrap();
        assert_eq!(
            script(&session),
            "# belljar session 01234567, 2026-11-22T05:00:00.000Z, client me \\u202e\n\n\
             # %% run 1: raised ZeroDivisionError\nprint(1)\n1 / 0\n\n\
             # %% run 2: not ended, in a fresh interpreter, a dry run\nx\n"
        );
    }

    #[test]
    fn a_notebook_has_what_runs_have_said_and_fits_its_schema() {
        let notebook = notebook(&RecordedSession::of(JOURNAL.as_bytes()).unwrap());
        let schema: Value =
            serde_json::from_str(include_str!("../../tests/fixtures/nbformat/nbformat.v4.5.schema.json"))
                .unwrap();
        let schema = jsonschema::validator_for(&schema).unwrap();
        let wrong: Vec<String> = schema.iter_errors(&notebook).map(|error| error.to_string()).collect();
        assert_eq!(wrong, [""; 0]);
        // It can find a notebook wrong.
        assert!(
            !schema.is_valid(&json!({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{}]}))
        );
        let outputs = &notebook["cells"][1]["outputs"];
        assert_eq!(outputs[0], json!({"output_type": "stream", "name": "stdout", "text": "1\\x1b[0m\n"}));
        assert_eq!(outputs[1]["data"]["text/plain"], "2");
        assert_eq!(outputs[2]["traceback"], json!(["a", "b"]));
        assert_eq!(
            (&notebook["cells"][2]["source"], &notebook["cells"][2]["outputs"]),
            (&json!("x"), &json!([]))
        );
        assert_eq!(notebook["metadata"]["language_info"]["version"], "3.14.1");
    }
}
