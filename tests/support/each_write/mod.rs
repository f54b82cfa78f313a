//! Ends the program, or stops it for a while, at each of its changes of files in turn: before every open, write, rename and the like,
//! in the midst of every write, and after it.
//!
//! What a kill takes of the machine's own memory, as a failure of power does, is not tried.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use super::Home;

/// Runs of a program whose changes of files are counted.
pub struct Steps {
    dir: tempfile::TempDir,
    below: Vec<&'static str>,
}

impl Steps {
    /// Those below these folders of the home, `:` not among their letters.
    pub fn below(folders: &[&'static str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/each_write/steps.c");
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", source, "-ldl", "-o"]);
        let built =
            cc.arg(dir.path().join("steps.so")).output().expect("there is a C compiler: rustc links with it");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Self { dir, below: folders.to_vec() }
    }

    /// The home with which the program is sent the signal at the step of this number, from 1; at none without.
    pub fn counted(&self, home: Home, at: Option<(usize, Signal)>) -> Home {
        std::fs::write(self.told(), [0; 8]).unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let below: Vec<String> = self.below.iter().map(|folder| text(home.path().join(folder))).collect();
        let (number, signal) = at.unwrap_or((0, Signal::SIGKILL));
        home.env("LD_PRELOAD", &text(self.dir.path().join("steps.so")))
            .env("BELLJAR_STEPS", &text(self.told()))
            .env("BELLJAR_STEPS_BELOW", &below.join(":"))
            .env("BELLJAR_STEPS_AT", &number.to_string())
            .env("BELLJAR_STEPS_SIGNAL", &(signal as i32).to_string())
    }

    /// The same home for programs that nothing happens to.
    pub fn uncounted(home: Home) -> Home {
        let names = ["", "_BELOW", "_AT", "_SIGNAL"].map(|part| format!("BELLJAR_STEPS{part}"));
        names.iter().fold(home.without_env("LD_PRELOAD"), |home, name| home.without_env(name))
    }

    /// What has been done since, in its order: what, and the path.
    pub fn made(&self) -> Vec<String> {
        let told = std::fs::read(self.told()).unwrap();
        let told = String::from_utf8_lossy(&told[8..]).into_owned();
        let mut numbered: BTreeMap<usize, String> = BTreeMap::new();
        for line in told.lines() {
            let (number, step) = line.split_once(' ').unwrap();
            numbered.insert(number.parse().unwrap(), step.to_owned());
        }
        numbered.into_values().collect()
    }

    /// Whether the program has come to the step of this number.
    pub fn has_come_to(&self, number: usize) -> bool {
        self.made().len() >= number
    }

    fn told(&self) -> PathBuf {
        self.dir.path().join("steps")
    }
}

/// What is done with the program, and what has to hold afterwards.
pub struct Scenario<'s, A> {
    pub name: &'s str,
    /// The folders of the home that count.
    pub below: &'s [&'static str],
    /// A home as it is before.
    pub home: &'s dyn Fn() -> Home,
    /// Works with the program until all is done or it has ended, and says what was acknowledged.
    pub act: &'s dyn Fn(&Home) -> A,
    /// Looks at what is left.
    pub check: &'s dyn Fn(&Home, &A),
}

impl<A> Scenario<'_, A> {
    /// Kills the program at each step in turn, in a home of its own each time.
    pub fn killed_at_each_write(&self) {
        self.killed_at(true);
    }

    /// The same at those that are [`chosen`], which takes less long.
    pub fn killed_at_some_writes(&self) {
        self.killed_at(is_every());
    }

    fn killed_at(&self, is_every: bool) {
        let steps = Steps::below(self.below);
        let home = steps.counted((self.home)(), None);
        let acknowledged = (self.act)(&home);
        let made = steps.made();
        println!("{}: {} steps, not killed", self.name, made.len());
        (self.check)(&Steps::uncounted(home), &acknowledged);
        let some = chosen(&made);
        let mut kills = 0;
        // Until it is done without having come to that step.
        for number in (1..).filter(|number| is_every || *number > made.len() || some.contains(number)) {
            let home = steps.counted((self.home)(), Some((number, Signal::SIGKILL)));
            let acknowledged = (self.act)(&home);
            if !steps.has_come_to(number) {
                break;
            }
            kills += 1;
            println!("{}: killed at {number}, {}", self.name, steps.made()[number - 1]);
            (self.check)(&Steps::uncounted(home), &acknowledged);
        }
        assert!(kills >= some.len(), "{kills} kills, {made:#?}");
        println!("{}: {kills} kills at {} steps", self.name, made.len());
    }
}

/// Steps that are chosen, where there are as many.
const CHOSEN: usize = 6;

/// Numbers of some steps, as different from each other as can be, from all over; with `BELLJAR_EVERY_WRITE=1` of all steps.
pub fn chosen(made: &[String]) -> BTreeSet<usize> {
    if is_every() {
        return (1..=made.len()).collect();
    }
    let kind = |step: &str| {
        let (what, path) = step.split_once(' ').unwrap();
        let names = path.rsplit('/').take(2).map(|name| if is_made_up(name) { "*" } else { name });
        (what.to_owned(), names.collect::<Vec<_>>().join("/"))
    };
    let of_kinds: BTreeMap<_, usize> =
        made.iter().enumerate().map(|(at, step)| (kind(step), at + 1)).collect();
    let of_kinds = BTreeSet::from_iter(of_kinds.into_values());
    if of_kinds.len() >= CHOSEN { evenly(of_kinds) } else { &of_kinds | &evenly((1..=made.len()).collect()) }
}

/// As many of them as are chosen, the first and the last among them.
fn evenly(numbers: BTreeSet<usize>) -> BTreeSet<usize> {
    let numbers: Vec<usize> = numbers.into_iter().collect();
    let last = numbers.len().saturating_sub(1);
    (0..CHOSEN).filter_map(|part| numbers.get(part * last / (CHOSEN - 1)).copied()).collect()
}

fn is_every() -> bool {
    std::env::var("BELLJAR_EVERY_WRITE").is_ok_and(|value| value == "1")
}

/// Whether a file's name is another one each time.
fn is_made_up(name: &str) -> bool {
    name.chars().any(|c| c.is_ascii_digit())
        || [".tmp", ".belljar-", ".session-"].iter().any(|begin| name.starts_with(begin))
}

/// What a command that must succeed prints.
#[track_caller]
pub fn printed(home: &Home, command: &[&str]) -> String {
    let output = home.run(command);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{command:?}: {output:?}");
    output.stdout
}

/// The names in a folder, sorted; none where there is no folder.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What may be found: what was acknowledged, or also what was under way.
#[track_caller]
pub fn is_one_of<S: PartialEq + std::fmt::Debug>(found: &S, states: &[S], acknowledged: usize) {
    let may = &states[acknowledged..states.len().min(acknowledged + 2)];
    assert!(may.contains(found), "after {acknowledged}: {found:#?} is none of {may:#?}");
}

/// A long text in short.
pub fn short(text: impl AsRef<str>) -> String {
    let mut hash = std::hash::DefaultHasher::new();
    text.as_ref().hash(&mut hash);
    format!("{} bytes, {:x}", text.as_ref().len(), hash.finish())
}
