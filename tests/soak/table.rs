//! What came of a soak on one engine.

use std::collections::BTreeMap;
use std::fmt;

use crate::checks::{Violation, check};
use crate::facts::{Facts, State};
use crate::flat::Ends;
use crate::history::What;
use crate::session::Past;

/// One engine's figures.
pub struct Soaked {
    bridges: usize,
    calls: usize,
    figures: BTreeMap<&'static str, usize>,
    counts: BTreeMap<String, u64>,
    ends: Option<Ends>,
    violations: Vec<Violation>,
    survivors: Vec<String>,
}

impl Soaked {
    /// Of the bridges on one engine; the first is the one that lived longest.
    pub fn of(mut pasts: Vec<Past>) -> Self {
        let ends = pasts.first().and_then(|past| Ends::of(&past.samples));
        let histories: Vec<_> = pasts.iter_mut().map(|past| std::mem::take(&mut past.history)).collect();
        let mut figures = BTreeMap::new();
        for event in histories.iter().flat_map(|history| &history.events) {
            match &event.what {
                What::Asked { run: Some(_), .. } => *figures.entry("runs").or_default() += 1,
                What::Answered { facts, .. } => {
                    *figures.entry("answers").or_default() += 1;
                    for said in facts.iter().flat_map(said) {
                        *figures.entry(said).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
        let mut counts = BTreeMap::new();
        for (name, count) in pasts.iter().flat_map(|past| &past.counts) {
            *counts.entry(name.clone()).or_default() += count;
        }
        Self {
            bridges: pasts.len(),
            calls: histories.iter().map(|history| history.ledger.len()).sum(),
            figures,
            counts,
            ends,
            violations: check(&histories),
            survivors: pasts.into_iter().flat_map(|past| past.survivors).collect(),
        }
    }

    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.survivors.is_empty() && self.grown().is_empty()
    }

    fn grown(&self) -> Vec<String> {
        self.ends.map(|ends| ends.grown()).unwrap_or_default()
    }
}

fn said(facts: &Facts) -> impl Iterator<Item = &'static str> {
    let state = match facts.state {
        State::Kept => None,
        State::AsBefore => Some("rollbacks said"),
        State::AsEarlier => Some("rollbacks further back said"),
        State::Lost => Some("losses said"),
    };
    let fresh = facts.is_fresh.then_some("fresh interpreters said");
    let unknown = (facts.unknown > 0).then_some("replies that name unknown outcomes");
    state.into_iter().chain(fresh).chain(unknown)
}

impl fmt::Display for Soaked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | how often |\n|---|---:|")?;
        writeln!(f, "| bridges | {} |\n| calls that reached the server | {} |", self.bridges, self.calls)?;
        for (name, count) in &self.figures {
            writeln!(f, "| {name} | {count} |")?;
        }
        for (name, count) in &self.counts {
            writeln!(f, "| - {name} | {count} |")?;
        }
        writeln!(f, "| violations | {} |", self.violations.len())?;
        writeln!(f, "| survivors | {} |", self.survivors.len())?;
        match &self.ends {
            Some(ends) => writeln!(f, "first and last quarter after the warm-up: {ends}")?,
            None => writeln!(f, "too short to tell whether the bridge grows")?,
        }
        for violation in &self.violations {
            writeln!(f, "VIOLATION: {violation}")?;
        }
        for survivor in &self.survivors {
            writeln!(f, "VIOLATION: {survivor} is left")?;
        }
        for grown in self.grown() {
            writeln!(f, "VIOLATION: it grew: {grown}")?;
        }
        Ok(())
    }
}
