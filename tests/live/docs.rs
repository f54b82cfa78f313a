//! The pages in docs/: their examples run, and say what the pages say.

use std::path::Path;

use nix::sys::signal::Signal;

use crate::support::images::with_languages;
use crate::support::model_server::ModelServer;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually, program};
use crate::{on_every_container_engine, on_one_engine_and_processes};

on_one_engine_and_processes!(
    examples_on_handles_reply_as_the_page_says,
    examples_on_jobs_reply_as_the_page_says,
    examples_on_models_reply_as_the_page_says,
    examples_on_sessions_reply_as_the_page_says,
    examples_on_skills_reply_as_the_page_says,
    schedules_on_skills_run_the_skill,
);

on_every_container_engine!(
    examples_on_checkpoints_reply_as_the_page_says,
    examples_on_files_reply_as_the_page_says,
    examples_on_images_reply_as_the_page_says,
    examples_on_languages_reply_as_the_page_says,
);

/// Where the page on skills has the program.
const PROGRAM: &str = "/home/me/.cargo/bin/belljar";

/// Between examples: the sandbox's container is removed.
const REMOVED: &str = "<!-- the container is removed -->";
/// The next example is run from this checkpoint.
const RESET: &str = "<!-- with checkpoint: ";
/// The client goes; the next example is of another session.
const ENDS: &str = "<!-- the session ends -->";
/// The example before has made a call that has no answer yet.
const KILLED: &str = "<!-- belljar is killed in the call -->";

/// What a page asks for, in its order.
#[derive(Debug, PartialEq)]
pub enum Step {
    Run(String),
    /// The value of `checkpoint`, as JSON, for the next run.
    Reset(String),
    Says(String),
    /// Commands, each behind `$ `, and what they print.
    Shell(String),
    LoseContainer,
    End,
    /// The code, in the midst of whose call belljar is killed.
    Kill(String),
}

pub fn steps(page: &str) -> Vec<Step> {
    let mut steps = vec![];
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let mut block = || lines.by_ref().take_while(|line| *line != "```").collect::<Vec<_>>().join("\n");
        match line {
            "```python" => steps.push(Step::Run(block())),
            "```text" => steps.push(Step::Says(block())),
            "```console" => steps.push(Step::Shell(block())),
            REMOVED => steps.push(Step::LoseContainer),
            ENDS => steps.push(Step::End),
            KILLED => match steps.pop() {
                Some(Step::Run(code)) => steps.push(Step::Kill(code)),
                other => panic!("{other:?} is no example"),
            },
            _ => {
                let reset = line.strip_prefix(RESET).and_then(|rest| rest.strip_suffix(" -->"));
                steps.extend(reset.map(|value| Step::Reset(value.to_owned())));
            }
        }
    }
    steps
}

/// A page's examples, which are run in their order.
struct Page<'p> {
    engine: &'p Engine,
    name: &'p str,
    home: Home,
    /// The server that examples call.
    server: Option<Fixture>,
}

impl Page<'_> {
    /// Runs all examples; each that is followed by what is said has said that.
    fn check(&self, mut bridge: Bridge) {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(self.name);
        let steps = steps(&std::fs::read_to_string(page).unwrap());
        assert!(
            steps.iter().filter(|step| matches!(step, Step::Says(_) | Step::Shell(_))).count() >= 2,
            "{steps:?}"
        );
        let mut reply = String::new();
        let mut reset = serde_json::Value::Null;
        for step in steps {
            match step {
                Step::Reset(value) => reset = serde_json::from_str(&value).unwrap(),
                Step::Run(code) => {
                    let asked = serde_json::json!({"code": code, "checkpoint": reset.take()});
                    reply = bridge.run_with(asked).text;
                }
                Step::Says(text) => {
                    assert_eq!(without_session(&self.shown(&reply)), without_session(&text), "{}", self.name);
                }
                Step::Shell(text) => self.shell(&text),
                Step::LoseContainer => {
                    self.engine.remove_container(&self.engine.containers_of(&self.home.owners())[0]);
                    bridge.says("went away");
                }
                Step::End => {
                    bridge.hang_up();
                    bridge.wait(PATIENCE);
                    bridge = Bridge::start(&self.home);
                }
                Step::Kill(code) => {
                    let server = self.server.as_ref().expect("there is a server to call");
                    bridge.send_run(serde_json::json!({"code": code}));
                    let is_called =
                        || server.ledger().last().is_some_and(|event| event.starts_with("call hang"));
                    eventually("the call is under way", PATIENCE, is_called);
                    bridge.signal(Signal::SIGKILL);
                    bridge.wait(PATIENCE);
                }
            }
        }
    }

    /// A reply; without what the engine has to say, where a page has a session's first one.
    fn shown(&self, reply: &str) -> String {
        let hides_notes = self.server.is_some();
        let shown = reply.lines().filter(|line| !(hides_notes && line.starts_with("note: ")));
        shown.collect::<Vec<_>>().join("\n")
    }

    fn shell(&self, text: &str) {
        for example in format!("\n{text}").split("\n$ ").skip(1) {
            let (command, says) = example.split_once('\n').unwrap_or((example, ""));
            let words: Vec<&str> = command.split(' ').collect();
            assert_eq!(words[0], "belljar");
            let output = self.home.run(&words[1..]);
            assert_eq!(plain(&output.stdout), plain(says), "{command}: {}", output.stderr);
        }
    }
}

/// Without the name of the session in a command.
fn without_session(text: &str) -> String {
    let mut parts = text.split("--session ");
    let first = parts.next().unwrap_or_default().to_owned();
    let is_of_name = |c: char| c.is_ascii_hexdigit();
    parts.fold(first, |said, part| said + "--session ID" + part.trim_start_matches(is_of_name))
}

/// Without what is another each time: names of sessions, numbers, and where the sandbox is.
fn plain(text: &str) -> String {
    let is_of_word = |c: char| c.is_ascii_alphanumeric();
    let mut plain = String::new();
    for line in text.trim_end().lines() {
        // As engines have to say.
        if line.starts_with("  note: ") {
            continue;
        }
        if line.starts_with("  sandbox ") {
            plain.push_str("  sandbox\n");
            continue;
        }
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c| is_of_word(c) != is_of_word(first)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            match word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit()) {
                true => plain.push_str("ID"),
                false => {
                    for part in word.split_inclusive(|c: char| !c.is_ascii_digit()) {
                        let letter = part.trim_start_matches(|c: char| c.is_ascii_digit());
                        plain.push_str(if letter.len() < part.len() { "N" } else { "" });
                        plain.push_str(letter);
                    }
                }
            }
            rest = behind;
        }
        plain.push('\n');
    }
    plain
}

/// A page that needs no server of its own.
fn check(engine: &Engine, home: Home, name: &str) {
    let bridge = Bridge::start(&home).warm();
    Page { engine, name, home, server: None }.check(bridge);
}

fn examples_on_checkpoints_reply_as_the_page_says(engine: &Engine) {
    check(engine, Home::on(engine), "guides/checkpoints.md");
}

fn examples_on_files_reply_as_the_page_says(engine: &Engine) {
    check(engine, Home::on(engine), "guides/files.md");
}

fn examples_on_handles_reply_as_the_page_says(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("demo", fixture.entry());
    let bridge = Bridge::start(&home).warm();
    Page { engine, name: "guides/handles.md", home, server: Some(fixture) }.check(bridge);
}

fn examples_on_images_reply_as_the_page_says(engine: &Engine) {
    check(engine, Home::on(engine), "guides/images.md");
}

fn examples_on_jobs_reply_as_the_page_says(engine: &Engine) {
    check(engine, Home::on(engine), "guides/jobs.md");
}

fn examples_on_languages_reply_as_the_page_says(engine: &Engine) {
    check(engine, with_languages(engine), "guides/languages.md");
}

fn examples_on_models_reply_as_the_page_says(engine: &Engine) {
    let server = ModelServer::open(|prompt| match prompt.contains("kind") {
        true => "praise".to_owned(),
        false => "complaint".to_owned(),
    });
    let home = server.set(Home::on(engine)).env("MCP_BRIDGE_MODEL_REQUESTS_PER_RUN", "6");
    check(engine, home, "guides/models.md");
}

fn examples_on_sessions_reply_as_the_page_says(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full").server("demo", fixture.entry());
    let bridge = Bridge::start(&home);
    Page { engine, name: "guides/sessions.md", home, server: Some(fixture) }.check(bridge);
}

/// The blocks of a page in this language.
fn blocks(name: &str, language: &str) -> Vec<String> {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)).unwrap();
    let opening = format!("\n```{language}\n");
    page.split(&opening).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

fn examples_on_skills_reply_as_the_page_says(engine: &Engine) {
    check(engine, Home::on(engine), "guides/skills.md");
}

fn schedules_on_skills_run_the_skill(engine: &Engine) {
    let home = Home::on(engine);
    let first = blocks("guides/skills.md", "python").swap_remove(0);
    Bridge::start(&home).warm().ok(&first);
    let program = program("belljar");
    let program = program.to_str().unwrap();
    let runs = |command: &str| {
        assert!(command.contains(PROGRAM), "{command}");
        let command = command.replace(PROGRAM, program);
        let done = home.shell(&command);
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), "[3]\n"), "{command}: {}", done.stderr);
    };

    let [cron] = &blocks("guides/skills.md", "cron")[..] else { panic!("one line") };
    let fields: Vec<&str> = cron.splitn(6, ' ').collect();
    for (field, last) in fields[..5].iter().zip([59, 23, 31, 12, 7]) {
        let numbers = field.split(['-', ',']).filter(|number| *number != "*");
        assert!(
            numbers.into_iter().all(|number| number.parse::<u32>().is_ok_and(|number| number <= last)),
            "{cron}"
        );
    }
    assert!(!cron.contains('%'), "which ends a command there");
    runs(fields[5]);

    let [service, timer] = &blocks("guides/skills.md", "ini")[..] else { panic!("a service and a timer") };
    runs(service.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap());
    let units = tempfile::tempdir().unwrap();
    std::fs::write(units.path().join("outliers.service"), service.replace(PROGRAM, program)).unwrap();
    std::fs::write(units.path().join("outliers.timer"), timer).unwrap();
    let verify = std::process::Command::new("systemd-analyze")
        .args(["--user", "verify"])
        .args(["outliers.service", "outliers.timer"].map(|unit| units.path().join(unit)))
        .env("XDG_RUNTIME_DIR", units.path())
        .output();
    match verify {
        Ok(said) => {
            let said = String::from_utf8_lossy(&said.stderr);
            // What it says of units of the machine is not about these.
            assert!(!said.lines().any(|line| line.contains("outliers")), "{said}");
        }
        Err(error) => eprintln!("SKIPPED: systemd-analyze cannot be started here: {error}"),
    }
}
