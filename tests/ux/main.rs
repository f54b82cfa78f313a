//! `make ux-transcripts`: situations as a model meets them, through the built program and a real sandbox, and every reply as it was
//! last reviewed.
//!
//! Each file of `transcripts` is one session: what it is about, its servers and settings, and its steps with their replies. With
//! `BLESS=1` the replies are written anew, to be reviewed as a change of the files.

#![allow(clippy::restriction, reason = "a test ends at what it does not expect, and prints")]

mod session;
#[path = "../support/mod.rs"]
mod support;
mod transcript;

use std::path::PathBuf;

use support::Engine;
use transcript::Transcript;

/// How many sessions go on at once.
const AT_ONCE: usize = 4;

/// Situations whose replies name places of packages, languages or notices that only containers have. Where there is no
/// container engine, they are not compared.
const OF_CONTAINERS: [&str; 7] = [
    "host-file.txt",
    "large-output.txt",
    "mode-json.txt",
    "mode-toon.txt",
    "other-language.txt",
    "packages.txt",
    "requests.txt",
];

#[test]
fn every_reply_is_as_it_was_reviewed() {
    let Some(engine) = Engine::all().into_iter().next() else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "no engine is there, and this is CI");
        return eprintln!("SKIPPED: no engine is there; scripts/setup.sh engines-up starts them");
    };
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ux/transcripts"));
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let is_compared = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_str().unwrap();
        !engine.is_process() || !OF_CONTAINERS.contains(&name)
    };
    files.retain(is_compared);
    assert!(files.len() >= 60, "{} situations", files.len());
    let blesses = std::env::var_os("BLESS").is_some();
    let (next, different) = (std::sync::atomic::AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let reviewed = std::fs::read_to_string(file).unwrap();
                    let transcript = Transcript::parse(&reviewed)
                        .unwrap_or_else(|defect| panic!("{}: {defect}", file.display()));
                    let replayed = session::replay(&engine, transcript).to_string();
                    if replayed == reviewed {
                        continue;
                    }
                    if blesses {
                        std::fs::write(file, replayed).unwrap();
                    } else {
                        let name = file.file_name().unwrap().to_string_lossy().into_owned();
                        different.lock().unwrap().push(format!("{name}:\n{}", changes(&reviewed, &replayed)));
                    }
                }
            });
        }
    });
    let different = different.into_inner().unwrap();
    println!("{} situations, {} with other replies than reviewed", files.len(), different.len());
    assert!(
        different.is_empty(),
        "review them after `make ux-transcripts BLESS=1`:\n{}",
        different.join("\n")
    );
}

/// The lines that are in one only, in their order.
fn changes(reviewed: &str, replayed: &str) -> String {
    let diff = similar::TextDiff::from_lines(reviewed, replayed);
    diff.unified_diff().context_radius(2).to_string()
}
