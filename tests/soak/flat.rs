//! Whether a bridge that has worked for long has grown.

use std::fmt;

/// What a bridge has of the machine at one moment between two runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    pub rss_kib: u64,
    pub fds: u64,
    pub threads: u64,
    pub children: u64,
    pub containers: u64,
}

/// The medians of the first quarter after the warm-up, and of the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub first: Sample,
    pub last: Sample,
}

/// Fewer say nothing.
const SAMPLES_MIN: usize = 100;
/// The share of the samples that is the warm-up: caches fill, and the allocator finds its size.
const WARM_UP: usize = 5;
const RSS_PERCENT_MAX: u64 = 5;
const RSS_KIB_MAX: u64 = 2048;
const FDS_MAX: u64 = 2;

impl Ends {
    /// Nothing when there are too few samples.
    pub fn of(samples: &[Sample]) -> Option<Self> {
        if samples.len() < SAMPLES_MIN {
            return None;
        }
        let warm = &samples[samples.len() / WARM_UP..];
        let quarter = warm.len() / 4;
        Some(Self { first: median(&warm[..quarter]), last: median(&warm[warm.len() - quarter..]) })
    }

    /// What has grown by more than it may.
    pub fn grown(&self) -> Vec<String> {
        let Self { first, last } = self;
        let rss_max = first.rss_kib + first.rss_kib * RSS_PERCENT_MAX / 100 + RSS_KIB_MAX;
        [
            ("resident KiB", first.rss_kib, last.rss_kib, rss_max),
            ("file descriptors", first.fds, last.fds, first.fds + FDS_MAX),
            ("threads", first.threads, last.threads, first.threads + FDS_MAX),
            ("child processes", first.children, last.children, first.children),
            ("containers", first.containers, last.containers, first.containers),
        ]
        .into_iter()
        .filter(|(_, _, last, max)| last > max)
        .map(|(what, first, last, _)| format!("{what}: {first} at first, {last} at last"))
        .collect()
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        write!(
            f,
            "RSS {} -> {} KiB, fds {} -> {}, threads {} -> {}, processes {} -> {}, containers {} -> {}",
            first.rss_kib,
            last.rss_kib,
            first.fds,
            last.fds,
            first.threads,
            last.threads,
            first.children,
            last.children,
            first.containers,
            last.containers
        )
    }
}

fn median(samples: &[Sample]) -> Sample {
    let of = |part: fn(&Sample) -> u64| {
        let mut values: Vec<u64> = samples.iter().map(part).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    Sample {
        rss_kib: of(|sample| sample.rss_kib),
        fds: of(|sample| sample.fds),
        threads: of(|sample| sample.threads),
        children: of(|sample| sample.children),
        containers: of(|sample| sample.containers),
    }
}
