//! Figures, their targets, and how both are printed.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// Durations of one thing, done many times.
pub struct Samples(Vec<Duration>);

impl Samples {
    pub fn new(mut durations: Vec<Duration>) -> Self {
        assert!(!durations.is_empty());
        durations.sort();
        Self(durations)
    }

    pub fn of(times: usize, mut once: impl FnMut() -> Duration) -> Self {
        Self::new((0..times).map(|_| once()).collect())
    }

    pub fn p50_ms(&self) -> f64 {
        self.at(50)
    }

    pub fn p99_ms(&self) -> f64 {
        self.at(99)
    }

    fn at(&self, percent: usize) -> f64 {
        self.0[(self.0.len() - 1) * percent / 100].as_secs_f64() * 1000.0
    }
}

/// Durations of one thing that was measured in turns with others.
pub struct Turns {
    pub all: Samples,
    /// Those of the quarter of the turns that has the lowest medians. A figure of few hops between processes has more
    /// luck there than one of many, so that the one is no measure of the other.
    pub fastest: Samples,
}

impl Turns {
    pub fn new<'a>(turns: impl Iterator<Item = &'a Samples>) -> Self {
        let mut turns: Vec<&Samples> = turns.collect();
        turns.sort_by(|one, other| one.p50_ms().total_cmp(&other.p50_ms()));
        let first = |number: usize| {
            Samples::new(turns.iter().take(number).flat_map(|turn| turn.0.iter().copied()).collect())
        };
        Self { all: first(turns.len()), fastest: first(turns.len().div_ceil(4)) }
    }
}

/// What is to be reached.
#[derive(Clone, Copy)]
pub enum Target {
    AtMost(f64),
    AtLeast(f64),
}

/// One engine's figures in the order in which they were measured.
#[derive(Default)]
pub struct Figures(Vec<Figure>);

struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    target: Option<Target>,
}

impl Figures {
    pub fn add(&mut self, name: &str, value: f64, unit: &'static str) {
        self.judge_if(name, value, unit, None);
    }

    pub fn judge(&mut self, name: &str, value: f64, unit: &'static str, target: Target) {
        self.judge_if(name, value, unit, Some(target));
    }

    pub fn judge_if(&mut self, name: &str, value: f64, unit: &'static str, target: Option<Target>) {
        self.0.push(Figure { name: name.to_owned(), value, unit, target });
    }
}

impl Figure {
    fn holds(&self) -> Option<bool> {
        self.target.map(|target| match target {
            Target::AtMost(bound) => self.value <= bound,
            Target::AtLeast(bound) => self.value >= bound,
        })
    }
}

/// A Markdown table.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| {:<48} | {:>10} | {:<7} | {:>12} | {:<6} |",
            "what", "measured", "unit", "target", ""
        )?;
        writeln!(f, "|{:-<50}|{:->11}:|{:-<9}|{:->13}:|{:-<8}|", "", "", "", "", "")?;
        for figure in &self.0 {
            let target = match figure.target {
                Some(Target::AtMost(bound)) => format!("<= {}", number(bound)),
                Some(Target::AtLeast(bound)) => format!(">= {}", number(bound)),
                None => String::new(),
            };
            let verdict = match figure.holds() {
                Some(true) => "ok",
                Some(false) => "MISSED",
                None => "",
            };
            let (name, value, unit) = (&figure.name, number(figure.value), figure.unit);
            writeln!(f, "| {name:<48} | {value:>10} | {unit:<7} | {target:>12} | {verdict:<6} |")?;
        }
        Ok(())
    }
}

/// Three significant digits, at least; whole numbers beyond a hundred.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// All engines' figures as JSON.
pub fn report(measured: &[(&str, Figures)]) -> String {
    let of_engine = |figures: &Figures| {
        let one = |figure: &Figure| {
            let (kind, bound) = match figure.target {
                Some(Target::AtMost(bound)) => (json!("at most"), json!(bound)),
                Some(Target::AtLeast(bound)) => (json!("at least"), json!(bound)),
                None => (Value::Null, Value::Null),
            };
            json!({
                "what": figure.name, "value": figure.value, "unit": figure.unit,
                "target": kind, "bound": bound, "holds": figure.holds()
            })
        };
        figures.0.iter().map(one).collect::<Vec<Value>>()
    };
    let engines: serde_json::Map<String, Value> =
        measured.iter().map(|(name, figures)| ((*name).to_owned(), of_engine(figures).into())).collect();
    format!("{:#}\n", json!({"machine": machine(), "engines": engines}))
}

/// What it was measured on.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model =
        processors.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown processor");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{}, {cores} cores, Linux {}", model.trim_start_matches([' ', '\t', ':']), kernel.trim())
}
