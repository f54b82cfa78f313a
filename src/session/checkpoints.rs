//! The checkpoints of a session by name: where each was made, and whether it still exists in the sandbox or would have
//! to be rebuilt.
//!
//! It makes and restores no checkpoints, and knows only what the sandbox reports about them.

use std::collections::BTreeMap;

use belljar_base::names::RunId;
use belljar_base::run::{FaultCode, ToolFault};
use belljar_base::text::{self, suggest};
use parking_lot::Mutex;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The largest number of names that are remembered. Lost checkpoints are forgotten first, and the oldest of them before
/// the others.
const NAMES_MAX: usize = 200;
/// Longest name, in characters; the sandbox has the same limit.
const NAME_CHARS_MAX: usize = 64;

/// The checkpoints of a session.
#[derive(Debug, Default)]
pub struct Checkpoints(Mutex<BTreeMap<String, Checkpoint>>);

/// One checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The run that made it.
    pub run: RunId,
    /// The line of that run's code.
    pub line: Option<u64>,
    /// Memory of the interpreter at that time, in bytes.
    pub bytes: u64,
    made: Instant,
    /// Whether the sandbox has it. If not, it was lost, and can only be rebuilt.
    pub sleeps: bool,
}

impl Checkpoints {
    /// Records a checkpoint that the sandbox has reported.
    pub(super) fn made(&self, name: &str, run: RunId, line: Option<u64>, bytes: u64) {
        if name.chars().count() > NAME_CHARS_MAX {
            return;
        }
        let mut all = self.0.lock();
        all.insert(name.to_owned(), Checkpoint { run, line, bytes, made: Instant::now(), sleeps: true });
        while all.len() > NAMES_MAX {
            let oldest =
                all.iter().min_by_key(|(_, one)| (one.sleeps, one.made)).map(|(name, _)| name.clone());
            oldest.and_then(|name| all.remove(&name));
        }
    }

    /// Marks a checkpoint as lost, because its process has ended.
    pub(super) fn gone(&self, name: &str) {
        if let Some(one) = self.0.lock().get_mut(name) {
            one.sleeps = false;
        }
    }

    /// Marks all checkpoints as lost, because the sandbox has ended.
    pub(super) fn lost(&self) {
        self.0.lock().values_mut().for_each(|one| one.sleeps = false);
    }

    /// The names of all checkpoints, and the runs that made them.
    pub fn runs(&self) -> Vec<(String, RunId)> {
        self.0.lock().iter().map(|(name, one)| (name.clone(), one.run)).collect()
    }

    /// Whether the sandbox has this checkpoint.
    pub fn sleeps(&self, name: &str) -> bool {
        self.0.lock().get(name).is_some_and(|one| one.sleeps)
    }

    /// Finds a checkpoint by name.
    ///
    /// # Errors
    /// There is no checkpoint of that name. The hint lists the existing names, and suggests the most similar one.
    pub fn find(&self, name: &str) -> Result<Checkpoint, ToolFault> {
        let all = self.0.lock();
        if let Some(one) = all.get(name) {
            return Ok(one.clone());
        }
        let shown = |name: &str| format!("'{}'", text::inert_excerpt(name, NAME_CHARS_MAX));
        let message = format!("there is no checkpoint {}", shown(name));
        let names: Vec<String> = all.keys().map(|name| shown(name)).collect();
        let meant = suggest::nearest(name, all.keys().map(String::as_str))
            .map(|name| format!("did you mean {}? ", shown(name)));
        let hint = if matches!(name, "true" | "True" | "false" | "False") {
            "a reset that starts afresh is written true, without quotes".to_owned()
        } else if names.is_empty() {
            "none has been made: runtime.checkpoint(name) makes one".to_owned()
        } else {
            format!("{}there are: {}", meant.unwrap_or_default(), names.join(", "))
        };
        Err(ToolFault::new(FaultCode::InvalidArguments, message).hint(hint))
    }

    /// Forgets a checkpoint that code no longer wants.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub(super) fn forget(&self, name: &str) -> Result<(), ToolFault> {
        self.find(name)?;
        self.0.lock().remove(name);
        Ok(())
    }

    /// The present checkpoints.
    pub fn positions(&self) -> CheckpointPositions {
        CheckpointPositions(self.0.lock().clone())
    }

    /// The names of the checkpoints that the sandbox has, and that did not exist at `then` or were made by another run,
    /// except `but`. Such checkpoints come from runs that were replayed.
    pub fn made_since(&self, then: &CheckpointPositions, but: &str) -> Vec<String> {
        let is_other =
            |name: &str, one: &Checkpoint| then.0.get(name).is_none_or(|before| before.run != one.run);
        let all = self.0.lock();
        let made = all.iter().filter(|(name, one)| one.sleeps && *name != but && is_other(name, one));
        made.map(|(name, _)| name.clone()).collect()
    }

    /// Restores the checkpoints of `then` and forgets all others. A checkpoint still exists in the sandbox if the same
    /// run made it, or if it is `made_again`.
    pub fn put_back(&self, then: CheckpointPositions, made_again: Option<&str>) {
        let mut all = self.0.lock();
        let now = std::mem::replace(&mut *all, then.0);
        for (name, one) in all.iter_mut() {
            let now = now.get(name).filter(|now| now.sleeps);
            one.sleeps = now.is_some_and(|now| now.run == one.run || made_again == Some(name));
        }
    }

    /// A JSON list of all checkpoints for code, the newest last.
    pub(super) fn listed(&self) -> Box<RawValue> {
        let all = self.0.lock();
        let mut all: Vec<(&String, &Checkpoint)> = all.iter().collect();
        all.sort_by_key(|(_, one)| one.made);
        let listed = all.into_iter().map(|(name, one)| {
            json!({
                "name": name,
                "run": one.run,
                "line": one.line,
                "seconds": one.made.elapsed().as_secs(),
                "bytes": one.bytes,
                "sleeps": one.sleeps,
            })
        });
        to_raw_value(&listed.collect::<Vec<Value>>()).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

/// The checkpoints of the session at one time.
pub struct CheckpointPositions(BTreeMap<String, Checkpoint>);

impl CheckpointPositions {
    /// Removes one checkpoint.
    pub fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }
}

impl Checkpoint {
    /// A sentence for the reader of a report, after a return to this checkpoint.
    pub(super) fn said(&self, name: &str) -> String {
        let line = self.line.map(|line| format!(", line {line}")).unwrap_or_default();
        format!(
            "variables are as at checkpoint '{}' (run {}{line}); files in /workspace are not changed by going back",
            text::inert_excerpt(name, NAME_CHARS_MAX),
            self.run.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_again_on_the_way_does_not_take_the_place_of_what_was_made_later() {
        let checkpoints = Checkpoints::default();
        checkpoints.made("a", RunId(1), Some(1), 9);
        checkpoints.made("b", RunId(2), Some(2), 9);
        checkpoints.lost();
        checkpoints.made("a", RunId(3), Some(3), 9);
        checkpoints.made("c", RunId(4), None, 9);
        let then = checkpoints.positions();
        for (name, run) in [("a", 6), ("b", 7), ("gone", 7)] {
            checkpoints.made(name, RunId(run), None, 9);
        }
        assert_eq!(checkpoints.made_since(&then, "b"), ["a", "gone"]);
        checkpoints.put_back(then, Some("b"));
        let place = |name: &str| checkpoints.find(name).map(|one| (one.run.0, one.line, one.sleeps)).ok();
        assert_eq!(place("a"), Some((3, Some(3), false)), "it would be made again as it was made last");
        assert_eq!(place("b"), Some((2, Some(2), true)));
        assert_eq!((place("c"), place("gone")), (Some((4, None, true)), None));
    }

    #[test]
    fn an_unknown_name_is_told_which_there_are_and_which_may_be_meant() {
        let checkpoints = Checkpoints::default();
        let said = |name: &str| checkpoints.find(name).map_err(|fault| (fault.message, fault.hint));
        let (message, hint) = said("a\x1b[2J").unwrap_err();
        assert_eq!(message, "there is no checkpoint 'a\\x1b[2J'");
        assert_eq!(hint, "none has been made: runtime.checkpoint(name) makes one");
        assert_eq!(said("true").unwrap_err().1, "a reset that starts afresh is written true, without quotes");
        checkpoints.made("cleaned", RunId(3), Some(2), 9);
        checkpoints.made("raw", RunId(1), None, 9);
        assert_eq!(said("clean").unwrap_err().1, "did you mean 'cleaned'? there are: 'cleaned', 'raw'");
        assert_eq!(said("xyz").unwrap_err().1, "there are: 'cleaned', 'raw'");
        let found = said("cleaned").unwrap();
        assert_eq!(
            found.said("cleaned"),
            "variables are as at checkpoint 'cleaned' (run 3, line 2); files in /workspace are not changed by going back"
        );
    }

    #[test]
    fn what_was_lost_is_remembered_and_what_is_forgotten_is_not() {
        let checkpoints = Checkpoints::default();
        for name in ["a", "b", "c"] {
            checkpoints.made(name, RunId(1), None, 1 << 20);
        }
        checkpoints.gone("b");
        assert_eq!(["a", "b", "c", "d"].map(|name| checkpoints.sleeps(name)), [true, false, true, false]);
        checkpoints.lost();
        assert!(!checkpoints.sleeps("a") && checkpoints.find("a").is_ok());
        checkpoints.forget("a").unwrap();
        assert!(checkpoints.forget("a").is_err());
        let listed: Value = serde_json::from_str(checkpoints.listed().get()).unwrap();
        let names: Vec<&str> =
            listed.as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!((names, &listed[0]["sleeps"]), (vec!["b", "c"], &json!(false)));
    }

    #[test]
    fn a_flood_of_names_is_bounded_and_what_sleeps_stays() {
        let checkpoints = Checkpoints::default();
        checkpoints.made("kept", RunId(1), None, 0);
        for number in 0..=NAMES_MAX * 2 {
            checkpoints.made(&format!("n{number}"), RunId(2), None, 0);
            checkpoints.gone(&format!("n{number}"));
        }
        checkpoints.made(&"x".repeat(NAME_CHARS_MAX + 1), RunId(2), None, 0);
        assert_eq!(checkpoints.0.lock().len(), NAMES_MAX);
        assert!(checkpoints.sleeps("kept") && checkpoints.find("n0").is_err());
    }
}
