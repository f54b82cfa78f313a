//! The rounds' outcomes by point, and how long removal took.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::round::{Outcome, Plan, Victims};

/// All outcomes.
#[derive(Debug, Default)]
pub struct Table {
    rows: BTreeMap<String, Row>,
}

#[derive(Debug, Default)]
struct Row {
    survivors: usize,
    by_the_next_start: usize,
    took: Vec<Duration>,
}

impl Table {
    pub fn add(&mut self, engine: &str, plan: &Plan, outcome: Outcome) {
        let with = if plan.victims == Victims::Bridge { "" } else { " with its guardian" };
        for name in [format!("on {engine}"), format!("{:?}{with}", plan.point), "together".to_owned()] {
            let row = self.rows.entry(name).or_default();
            row.survivors += outcome.survivors.len();
            row.by_the_next_start += outcome.by_the_next_start;
            row.took.push(outcome.took);
        }
    }

    pub fn survivors(&self) -> usize {
        self.rows.get("together").map_or(0, |row| row.survivors)
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| killed | rounds | survivors | left to the next start | gone after p50 | p95 | max (s) |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|")?;
        for (name, row) in &self.rows {
            let mut took = row.took.clone();
            took.sort();
            let at = |share: usize| took[(took.len() * share / 100).min(took.len() - 1)].as_secs_f64();
            let (rounds, survivors, next) = (took.len(), row.survivors, row.by_the_next_start);
            let (p50, p95, max) = (at(50), at(95), at(100));
            writeln!(f, "| {name} | {rounds} | {survivors} | {next} | {p50:.2} | {p95:.2} | {max:.2} |")?;
        }
        Ok(())
    }
}
