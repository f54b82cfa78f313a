//! Sixty tasks as people give them, each with a program as a model writes it (`tests/tasks`), over ten servers that are all
//! real processes: what the programs print and what they leave is what the data say.
//!
//! `make tasks` prints what each costs: the characters that a model reads of the tool's reply, and those of all results of
//! calls, which it would read without it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::on_one_engine_and_processes;
use crate::support::office::{Office, SERVERS, folder, python};
use crate::support::{Bridge, Engine};

on_one_engine_and_processes!(
    sixty_tasks_over_ten_servers_come_to_what_their_data_say,
    a_task_that_is_done_wrong_is_named_with_what_was_expected_and_what_came,
);

/// Parts of a program that are runs of their own; before the second the interpreter is reset.
const NEXT_RUN: &str = "# --- the next run\n";
const FRESH: &str = "# --- a fresh interpreter\n";

/// A task with its program.
struct Task {
    /// Of its file.
    name: String,
    servers: BTreeSet<String>,
    /// What is right, as its header says.
    prints: Vec<String>,
    /// Parts of the state.
    changes: BTreeSet<String>,
    program: String,
}

/// What was done for a task.
#[derive(Default)]
struct Done {
    /// What its last run printed.
    printed: Vec<String>,
    ms: usize,
    code_characters: usize,
    reply_characters: usize,
}

/// What the journal has of a task's calls.
#[derive(Default)]
struct Calls {
    servers: BTreeSet<String>,
    number: usize,
    /// Of all texts that they have answered.
    characters: usize,
}

impl Task {
    fn number(&self) -> usize {
        self.name[..2].parse().unwrap()
    }

    fn all() -> Vec<Self> {
        let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
        let mut tasks: Vec<Self> = entries.filter_map(|path| Self::read(&path)).collect();
        tasks.sort_by(|one, other| one.name.cmp(&other.name));
        assert_eq!(tasks.iter().map(Self::number).collect::<Vec<_>>(), (1..=60).collect::<Vec<_>>());
        tasks
    }

    fn read(path: &Path) -> Option<Self> {
        let name = path.file_stem()?.to_str()?.to_owned();
        if !name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let (head, program) = text.split_once("\n\n").unwrap();
        let said = |key: &str| {
            let key = format!("# {key}: ");
            head.lines().filter_map(|line| line.strip_prefix(&key).map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(said("task").len(), 1, "{name}");
        let servers = said("servers").iter().flat_map(|line| line.split(", ")).map(str::to_owned).collect();
        let changes = said("changes").into_iter().collect();
        Some(Self { name, servers, prints: said("prints"), changes, program: program.to_owned() })
    }

    /// Runs the program's parts, one after the other, in an interpreter of its own.
    fn perform(&self, program: &str, office: &Office, bridge: &mut Bridge) -> Result<Done, String> {
        let mut done = Done::default();
        let began = Instant::now();
        for (at, fresh) in program.split(FRESH).enumerate() {
            for (run, code) in fresh.split(NEXT_RUN).enumerate() {
                let code = office.at_home(code);
                let reset = run == 0;
                let reply = bridge.run_with(json!({"code": code, "reset": reset, "timeout": 60}));
                done.code_characters += code.chars().count();
                done.reply_characters += reply.text.chars().count();
                if reply.is_error {
                    return Err(format!("{}, part {at}.{run}, failed:\n{}", self.name, reply.text));
                }
                let notes = ["note: ", "sandbox note: ", "state: ", "(no output)"];
                let lines =
                    reply.text.lines().filter(|line| !notes.iter().any(|note| line.starts_with(note)));
                done.printed = lines.map(str::to_owned).collect();
            }
        }
        done.ms = usize::try_from(began.elapsed().as_millis()).unwrap();
        match done.printed == self.prints {
            true => Ok(done),
            false => Err(format!("{}: expected {:#?}, got {:#?}", self.name, self.prints, done.printed)),
        }
    }

    /// That the servers' state is the one before with what the task leaves, and nothing else.
    fn check_state(&self, before: &Value, leaves: &Value, after: &Value) -> Result<(), String> {
        let mut expected = before.clone();
        for (pointer, value) in leaves.as_object().unwrap() {
            put(&mut expected, pointer, value.clone());
        }
        for (part, expected) in expected.as_object().unwrap() {
            if *expected != after[part] {
                return Err(format!("{}: expected {part}: {expected}, got {}", self.name, after[part]));
            }
        }
        Ok(())
    }
}

/// Puts a value where a JSON pointer says, also where nothing is yet.
fn put(state: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/");
    match state.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}: there is no {parent}")) {
        Value::Array(array) => {
            assert_eq!(name, array.len().to_string(), "{pointer}: it is the next one");
            array.push(value);
        }
        parent => parent[name] = value,
    }
}

#[test]
fn headers_of_the_tasks_say_what_the_data_say() {
    let answers = python("answers.py", &[]);
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    let tasks = Task::all();
    for task in &tasks {
        let answer = &answers[task.number().to_string()];
        assert_eq!(json!(task.prints), answer["prints"], "{}", task.name);
        let places = answer["leaves"].as_object().unwrap().keys();
        let places: BTreeSet<String> =
            places.map(|place| place.split('/').nth(1).unwrap().to_owned()).collect();
        assert_eq!(task.changes, places, "{}", task.name);
        for server in &task.servers {
            *uses.entry(server).or_default() += 1;
        }
    }
    assert_eq!(uses.keys().copied().collect::<BTreeSet<_>>(), BTreeSet::from(SERVERS));
    assert!(uses.values().all(|tasks| *tasks >= 5), "{uses:?}");
    let sync = tasks.iter().filter(|task| task.program.contains("runtime.call_tool_sync(")).count();
    assert!(sync >= 50, "{sync} of them call as most models do");
}

fn sixty_tasks_over_ten_servers_come_to_what_their_data_say(engine: &Engine) {
    let answers = python("answers.py", &[]);
    let mut office = Office::new(engine);
    office.home = office.home.env("MCP_BRIDGE_JOURNAL", "full");
    let mut bridge = Bridge::start(&office.home).warm();
    let mut state = office.state();
    let (mut wrong, mut done, mut runs) = (vec![], vec![], 1);
    let tasks = Task::all();
    for task in &tasks {
        let first = runs + 1;
        runs += task.program.split(NEXT_RUN).flat_map(|part| part.split(FRESH)).count();
        match task.perform(&task.program, &office, &mut bridge) {
            Ok(performed) => done.push((task, first..=runs, performed)),
            Err(why) => wrong.push(why),
        }
        let after = office.state();
        wrong.extend(task.check_state(&state, &answers[task.number().to_string()]["leaves"], &after).err());
        state = after;
    }
    bridge.hang_up();
    bridge.wait(crate::support::PATIENCE);
    let calls = calls_by_run(&office);
    let mut table = Table::default();
    for (task, runs, performed) in &done {
        let mut of_task = Calls::default();
        for calls in runs.clone().filter_map(|run| calls.get(&run)) {
            of_task.servers.extend(calls.servers.iter().cloned());
            of_task.number += calls.number;
            of_task.characters += calls.characters;
        }
        if of_task.servers != task.servers {
            wrong.push(format!(
                "{}: expected calls of {:?}, got {:?}",
                task.name, task.servers, of_task.servers
            ));
        }
        table.row(task, performed, &of_task);
    }
    print!("{}", table.text());
    assert!(wrong.is_empty(), "{} of 60 are wrong:\n{}", wrong.len(), wrong.join("\n"));
    // Else the tool would be of no use for them.
    let [_, _, _, reply, results] = table.sums;
    assert!(reply * 10 < results, "{reply} of {results}");
}

/// What the journal of the one session has, by the number of the run.
fn calls_by_run(office: &Office) -> BTreeMap<usize, Calls> {
    let folder = office.home.path().join(".local/state/belljar/sessions");
    let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let mut runs: BTreeMap<usize, Calls> = BTreeMap::new();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let call = if line["call"].is_null() { &line["answer"] } else { &line["call"] };
        let Some(run) = call["run"].as_u64() else { continue };
        let calls = runs.entry(run as usize).or_default();
        if let Some(server) = line["call"]["server"].as_str() {
            calls.servers.insert(server.to_owned());
            calls.number += 1;
        }
        let came = &call["came"];
        for result in [&came["value"]["whole"], &came["tool_error"]["whole"]] {
            let texts = result["content"].as_array().into_iter().flatten();
            let texts = texts.filter_map(|block| block["text"].as_str());
            calls.characters += texts.map(|text| text.chars().count()).sum::<usize>();
        }
    }
    runs
}

/// Of each task: calls, milliseconds, characters of its program, of the replies, of all results.
#[derive(Default)]
struct Table {
    rows: String,
    tasks: usize,
    sums: [usize; 5],
}

impl Table {
    fn row(&mut self, task: &Task, done: &Done, calls: &Calls) {
        let figures = [calls.number, done.ms, done.code_characters, done.reply_characters, calls.characters];
        self.rows += &Self::line(&task.name, figures.map(|figure| figure.to_string()));
        self.tasks += 1;
        self.sums = std::array::from_fn(|column| self.sums[column] + figures[column]);
    }

    fn line(name: &str, [calls, ms, code, reply, results]: [String; 5]) -> String {
        format!("{name:<44} {calls:>6} {ms:>8} {code:>9} {reply:>9} {results:>12}\n")
    }

    fn text(&self) -> String {
        let head = ["calls", "ms", "program", "reply", "all results"].map(str::to_owned);
        let sums = self.sums.map(|sum| sum.to_string());
        let (head, sums) =
            (Self::line("characters of:", head), Self::line(&format!("{} tasks", self.tasks), sums));
        format!("{head}{}{sums}", self.rows)
    }
}

fn a_task_that_is_done_wrong_is_named_with_what_was_expected_and_what_came(engine: &Engine) {
    let office = Office::new(engine);
    let mut bridge = Bridge::start(&office.home).warm();
    let tasks = Task::all();
    let task = |number: usize| &tasks[number - 1];
    let mut fails = |number: usize, from: &str, to: &str| {
        let program = &task(number).program;
        assert!(program.contains(from), "{number}");
        task(number).perform(&program.replace(from, to), &office, &mut bridge).err().unwrap_or_default()
    };
    let one_page = fails(1, "page >= answer[\"pages\"]", "True");
    assert!(
        ["01_open_tickets_by_priority: expected [", "'normal': 17", "], got [", "'normal': 7"]
            .iter()
            .all(|part| one_page.contains(part)),
        "{one_page}"
    );
    let silent = fails(2, "print(number, total)", "None");
    assert!(silent.contains("02_returned_orders: expected [") && silent.ends_with("got []"), "{silent}");
    let raises = fails(32, "except runtime.ToolError", "except KeyError");
    assert!(raises.starts_with("32_") && raises.contains("there is no ticket T-99"), "{raises}");
    // It says what it should, and does nothing.
    let before = office.state();
    assert_eq!(fails(42, "runtime.call_tool_sync(\"desk\", \"assign\", ", "str("), "");
    let answers = python("answers.py", &[]);
    let check = |number: usize, leaves: &Value| task(number).check_state(&before, leaves, &office.state());
    let undone = check(42, &answers["42"]["leaves"]).unwrap_err();
    assert!(undone.starts_with("42_urgent_tickets_get_an_agent: expected tickets: "), "{undone}");
    assert_eq!(check(1, &json!({})), Ok(()));
    // It does what it should not.
    fails(1, "print(", "runtime.call_tool_sync('shop', 'set_price', {'sku': 'K01', 'price': 1})\nprint(");
    let spoilt = check(1, &json!({})).unwrap_err();
    assert!(spoilt.starts_with("01_open_tickets_by_priority: expected prices: "), "{spoilt}");
}
