//! What was found, as a table to read and as a list of what is not as it has to be.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::probe::{Probe, WithoutDefence};
use crate::session::Verdict;
use crate::undefended::Shown;

/// The findings of one engine.
pub struct Findings {
    pub engine: &'static str,
    pub verdicts: BTreeMap<&'static str, Verdict>,
    /// Without the defence.
    pub shown: BTreeMap<&'static str, Shown>,
    /// What was wrong with the session as a whole.
    pub wrong: Vec<String>,
}

/// What all engines together show of a probe without its defence.
#[derive(Debug, PartialEq, Eq)]
pub enum Control {
    /// Engines, or places, in which it succeeds.
    Succeeds(Vec<&'static str>),
    Absent(String),
    Itself,
    /// It fails everywhere: it would show nothing.
    Empty(String),
}

/// Succeeding anywhere is enough: root in a user namespace lacks what root of the machine may.
pub fn control(probe: &Probe, findings: &[Findings]) -> Control {
    if matches!(probe.without_defence, WithoutDefence::Itself) {
        return Control::Itself;
    }
    let all: Vec<(&'static str, &Shown)> =
        findings.iter().filter_map(|found| Some((found.engine, found.shown.get(probe.name)?))).collect();
    let succeeds: Vec<_> =
        all.iter().filter(|(_, shown)| **shown == Shown::Succeeds).map(|(engine, _)| *engine).collect();
    if !succeeds.is_empty() {
        return Control::Succeeds(succeeds);
    }
    let said: Vec<String> = all.iter().map(|(engine, shown)| format!("{engine}: {shown:?}")).collect();
    match all.iter().find_map(|(_, shown)| if let Shown::Absent(why) = shown { Some(why) } else { None }) {
        Some(why) if !all.iter().any(|(_, shown)| matches!(shown, Shown::Fails(_))) => {
            Control::Absent(why.clone())
        }
        _ => Control::Empty(said.join("; ")),
    }
}

/// The table, then the counts, then everything that is wrong.
pub fn table(probes: &[&Probe], findings: &[Findings]) -> (String, usize) {
    let mut text = String::new();
    let engines: String = findings.iter().map(|found| format!("{:<18}", found.engine)).collect();
    let _ = writeln!(text, "{:<30}{engines}{:<40}it tries to", "probe", "without the defence");
    let (mut wrong, mut counts) = (Vec::new(), BTreeMap::<&str, usize>::new());
    for probe in probes {
        let mut row = format!("{:<30}", probe.name);
        for found in findings {
            let (cell, count) = match &found.verdicts[probe.name] {
                Verdict::AsRequired => ("as required", "as required"),
                Verdict::Excepted => ("succeeds, said", "succeed where that is known and said"),
                Verdict::Wrong(_) => ("NOT AS REQUIRED", "NOT AS REQUIRED"),
            };
            *counts.entry(count).or_default() += 1;
            let _ = write!(row, "{cell:<18} ");
            if let Verdict::Wrong(what) = &found.verdicts[probe.name] {
                wrong.push(format!("{} on {}: {}", probe.name, found.engine, what.join("; ")));
            }
        }
        let shown = match control(probe, findings) {
            Control::Succeeds(places) if places.len() == findings.len() => "succeeds".to_owned(),
            Control::Succeeds(places) => format!("succeeds on {}", places.join(", ")),
            Control::Absent(why) => format!("not on this machine ({why})"),
            Control::Itself => "is its own control".to_owned(),
            Control::Empty(why) => {
                wrong.push(format!("{} is empty, since it fails without the defence too: {why}", probe.name));
                "FAILS TOO".to_owned()
            }
        };
        let _ = writeln!(text, "{}{shown:<40}{}", row, probe.tries);
    }
    for found in findings {
        wrong.extend(found.wrong.iter().map(|what| format!("{}: {what}", found.engine)));
    }
    let counts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    let _ = writeln!(text, "\n{} probes on {} engines: {}", probes.len(), findings.len(), counts.join(", "));
    let controls: Vec<Control> = probes.iter().map(|probe| control(probe, findings)).collect();
    let count = |is: fn(&Control) -> bool| controls.iter().filter(|control| is(control)).count();
    let _ = writeln!(
        text,
        "without the defence: {} succeed, {} are not on this machine, {} are their own control, {} fail too",
        count(|control| matches!(control, Control::Succeeds(_))),
        count(|control| matches!(control, Control::Absent(_))),
        count(|control| matches!(control, Control::Itself)),
        count(|control| matches!(control, Control::Empty(_))),
    );
    for line in &wrong {
        let _ = writeln!(text, "WRONG: {line}");
    }
    (text, wrong.len())
}
