//! The rounds' outcomes by point, and how long removal took.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::round::Outcome;

/// All outcomes.
#[derive(Debug, Default)]
pub struct Table {
    rows: BTreeMap<String, Row>,
}

#[derive(Debug, Default)]
struct Row {
    survivors: usize,
    by_the_next_start: usize,
    faults: usize,
    took: Vec<Duration>,
}

impl Table {
    pub fn add(&mut self, engine: &str, row: String, outcome: Outcome) {
        for name in [format!("on {engine}"), row, "together".to_owned()] {
            let row = self.rows.entry(name).or_default();
            row.survivors += outcome.survivors.len();
            row.by_the_next_start += outcome.by_the_next_start;
            row.faults += outcome.faults.len();
            row.took.push(outcome.took);
        }
    }

    /// How much was left or wrong.
    pub fn faults(&self) -> usize {
        self.rows.get("together").map_or(0, |row| row.survivors + row.faults)
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| killed | rounds | survivors | left to the next start | faults | gone after p50 | p95 | max (s) |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|")?;
        for (name, row) in &self.rows {
            let mut took = row.took.clone();
            took.sort();
            let at = |share: usize| took[(took.len() * share / 100).min(took.len() - 1)].as_secs_f64();
            let (rounds, survivors, next, faults) =
                (took.len(), row.survivors, row.by_the_next_start, row.faults);
            let (p50, p95, max) = (at(50), at(95), at(100));
            writeln!(
                f,
                "| {name} | {rounds} | {survivors} | {next} | {faults} | {p50:.2} | {p95:.2} | {max:.2} |"
            )?;
        }
        Ok(())
    }
}
