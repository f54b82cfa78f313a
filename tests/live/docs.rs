//! The pages in docs/: their examples run, and say what the pages say.

use std::path::Path;

use crate::on_every_engine;
use crate::support::{Bridge, Engine, Home, program};

on_every_engine!(
    what_the_page_on_files_shows_is_so,
    what_the_page_on_skills_shows_is_so,
    the_schedules_of_the_page_on_skills_do_what_they_say,
);

/// Where the page has the program.
const PROGRAM: &str = "/home/me/.cargo/bin/hotcell";

/// Between examples: the sandbox's container is removed.
const REMOVED: &str = "<!-- the container is removed -->";

/// What a page asks for, in its order.
#[derive(Debug, PartialEq)]
enum Step {
    Run(String),
    Says(String),
    LoseContainer,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps = vec![];
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let mut block = || lines.by_ref().take_while(|line| *line != "```").collect::<Vec<_>>().join("\n");
        match line {
            "```python" => steps.push(Step::Run(block())),
            "```text" => steps.push(Step::Says(block())),
            REMOVED => steps.push(Step::LoseContainer),
            _ => {}
        }
    }
    steps
}

/// Runs all examples of a page in one session; each that is followed by a reply has that reply.
fn check(engine: &Engine, name: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    let steps = steps(&std::fs::read_to_string(page).unwrap());
    assert!(steps.iter().filter(|step| matches!(step, Step::Says(_))).count() >= 3, "{steps:?}");
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    let mut reply = String::new();
    for step in steps {
        match step {
            Step::Run(code) => reply = bridge.ok(&code),
            Step::Says(text) => assert_eq!(reply, text, "{name}"),
            Step::LoseContainer => {
                engine.remove_container(&engine.containers_of(&home.owners())[0]);
                bridge.says("went away");
            }
        }
    }
}

/// The blocks of a page in this language.
fn blocks(name: &str, language: &str) -> Vec<String> {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)).unwrap();
    let opening = format!("\n```{language}\n");
    page.split(&opening).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

fn what_the_page_on_skills_shows_is_so(engine: &Engine) {
    check(engine, "skills.md");
}

fn the_schedules_of_the_page_on_skills_do_what_they_say(engine: &Engine) {
    let home = Home::on(engine);
    let first = blocks("skills.md", "python").swap_remove(0);
    Bridge::start(&home).warm().ok(&first);
    let program = program("hotcell");
    let program = program.to_str().unwrap();
    let runs = |command: &str| {
        assert!(command.contains(PROGRAM), "{command}");
        let command = command.replace(PROGRAM, program);
        let done = home.shell(&command);
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), "[3]\n"), "{command}: {}", done.stderr);
    };

    let [cron] = &blocks("skills.md", "cron")[..] else { panic!("one line") };
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

    let [service, timer] = &blocks("skills.md", "ini")[..] else { panic!("a service and a timer") };
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

fn what_the_page_on_files_shows_is_so(engine: &Engine) {
    check(engine, "files.md");
}
