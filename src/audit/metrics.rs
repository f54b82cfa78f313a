//! Counts the runs and calls of this process, for programs that watch belljar. Nothing of what they are about is counted.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use parking_lot::Mutex;

use super::entry::Event;

/// The upper bounds of the classes of durations, in seconds. The longest run takes minutes.
const BOUNDS_S: [f64; 11] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0, 300.0, 1800.0];

/// The runs and calls so far, by how they ended.
#[derive(Debug, Default)]
pub struct Metrics {
    runs: Mutex<BTreeMap<String, Histogram>>,
    calls: Mutex<BTreeMap<String, Histogram>>,
}

/// How many took how long.
#[derive(Debug, Default)]
struct Histogram {
    /// The number in each class, and last of all that took longer.
    classes: [u64; BOUNDS_S.len() + 1],
    sum_s: f64,
}

/// A number that is not counted here.
#[derive(Debug)]
pub struct Gauge {
    /// The name, without `belljar_`.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub help: &'static str,
    /// The number now.
    pub value: u64,
}

impl Metrics {
    /// Counts a run or call that has ended.
    pub fn count(&self, event: &Event) {
        let (all, outcome, ms, times) = match event {
            Event::Run(run) => (&self.runs, &run.outcome, run.ms, 1),
            Event::Call(call) => (&self.calls, &call.outcome, call.ms, call.times),
        };
        all.lock().entry(outcome.clone()).or_default().add(Duration::from_millis(ms).as_secs_f64(), times);
    }

    /// The numbers in the text format of Prometheus, version 0.0.4.
    ///
    /// # Errors
    /// Never: it is written to a text.
    pub fn text(&self, gauges: &[Gauge]) -> Result<String, fmt::Error> {
        let mut text = String::new();
        for Gauge { name, help, value } in gauges {
            writeln!(
                text,
                "# HELP belljar_{name} {help}\n# TYPE belljar_{name} gauge\nbelljar_{name} {value}"
            )?;
        }
        for (name, help, all) in [
            ("run", "The runs of code, by how they ended.", &self.runs),
            ("call", "The calls of tools, by how they ended.", &self.calls),
        ] {
            writeln!(text, "# HELP belljar_{name}_seconds {help}\n# TYPE belljar_{name}_seconds histogram")?;
            for (outcome, histogram) in &*all.lock() {
                histogram.write(&mut text, name, outcome)?;
            }
        }
        Ok(text)
    }
}

impl Histogram {
    fn add(&mut self, seconds: f64, times: u64) {
        let class = BOUNDS_S.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS_S.len());
        self.classes[class] += times;
        self.sum_s += seconds;
    }

    fn write(&self, text: &mut String, name: &str, outcome: &str) -> fmt::Result {
        let bounds = BOUNDS_S.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (bound, number) in bounds.zip(self.classes) {
            count += number;
            writeln!(text, "belljar_{name}_seconds_bucket{{outcome=\"{outcome}\",le=\"{bound}\"}} {count}")?;
        }
        let sum_s = self.sum_s;
        writeln!(text, "belljar_{name}_seconds_sum{{outcome=\"{outcome}\"}} {sum_s}")?;
        writeln!(text, "belljar_{name}_seconds_count{{outcome=\"{outcome}\"}} {count}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::RunEvent;
    use super::*;

    #[test]
    fn runs_are_counted_by_how_they_ended_and_how_long_they_took() {
        let metrics = Metrics::default();
        for (outcome, ms) in [("ok", 2), ("ok", 7_000), ("ok", 9_999_999), ("timeout", 30_000)] {
            let (outcome, why) = (outcome.to_owned(), String::new());
            metrics.count(&Event::Run(RunEvent {
                run: 1,
                outcome,
                calls: 0,
                readings: 0,
                why,
                code_bytes: 3,
                ms,
            }));
        }
        let gauge = Gauge { name: "sessions", help: "The sessions.", value: 2 };
        let text = metrics.text(&[gauge]).unwrap();
        for line in [
            "# TYPE belljar_sessions gauge",
            "belljar_sessions 2",
            "# TYPE belljar_run_seconds histogram",
            "belljar_run_seconds_bucket{outcome=\"ok\",le=\"0.001\"} 0",
            "belljar_run_seconds_bucket{outcome=\"ok\",le=\"0.005\"} 1",
            "belljar_run_seconds_bucket{outcome=\"ok\",le=\"5\"} 1",
            "belljar_run_seconds_bucket{outcome=\"ok\",le=\"20\"} 2",
            "belljar_run_seconds_bucket{outcome=\"ok\",le=\"+Inf\"} 3",
            "belljar_run_seconds_count{outcome=\"ok\"} 3",
            "belljar_run_seconds_count{outcome=\"timeout\"} 1",
            "belljar_run_seconds_sum{outcome=\"timeout\"} 30",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("belljar_call_seconds_count"), "{text}");
    }
}
