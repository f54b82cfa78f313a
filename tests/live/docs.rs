//! The pages in docs/: their examples run, and say what the pages say.

use std::path::Path;

use crate::on_every_engine;
use crate::support::images::with_languages;
use crate::support::{Bridge, Engine, Home};

on_every_engine!(
    what_the_page_on_files_shows_is_so,
    what_the_page_on_images_shows_is_so,
    what_the_page_on_languages_shows_is_so,
);

/// Between examples: the sandbox's container is removed.
const REMOVED: &str = "<!-- the container is removed -->";

/// What a page asks for, in its order.
#[derive(Debug, PartialEq)]
pub enum Step {
    Run(String),
    Says(String),
    LoseContainer,
}

pub fn steps(page: &str) -> Vec<Step> {
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
fn check(engine: &Engine, home: &Home, name: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    let steps = steps(&std::fs::read_to_string(page).unwrap());
    assert!(steps.iter().filter(|step| matches!(step, Step::Says(_))).count() >= 2, "{steps:?}");
    let mut bridge = Bridge::start(home).warm();
    let mut reply = String::new();
    for step in steps {
        match step {
            Step::Run(code) => reply = bridge.run(&code).text,
            Step::Says(text) => assert_eq!(reply, text, "{name}"),
            Step::LoseContainer => {
                engine.remove_container(&engine.containers_of(&home.owners())[0]);
                bridge.says("went away");
            }
        }
    }
}

fn what_the_page_on_files_shows_is_so(engine: &Engine) {
    check(engine, &Home::on(engine), "files.md");
}

fn what_the_page_on_images_shows_is_so(engine: &Engine) {
    check(engine, &Home::on(engine), "images.md");
}

fn what_the_page_on_languages_shows_is_so(engine: &Engine) {
    check(engine, &with_languages(engine), "languages.md");
}
