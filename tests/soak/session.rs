//! One session with its client: asks, waits, breaks things, and writes down what it does and sees.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::facts::Facts;
use crate::flat::Sample;
use crate::history::{Entry, Event, History, What};
use crate::link::Link;
use crate::support::bridge::Reply;
use crate::support::processes::{children_of, is_alive};
use crate::support::survivors::{left, marking};
use crate::support::web::Served;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, monotonic_ns};

/// How long everything may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Where all histories are written, line by line: a soak that breaks leaves what it has seen.
pub type Log = Arc<Mutex<File>>;

/// Code to run, and how.
#[derive(Debug, Clone, Default)]
pub struct Deed {
    pub name: &'static str,
    pub code: String,
    pub timeout: Option<f64>,
    pub reset: bool,
}

/// How a bridge is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    HangUp,
    Terminate,
    Kill,
}

pub struct Session<'a> {
    pub engine: &'a Engine,
    home: Home,
    fixture: Rc<Fixture>,
    link: Link<'a>,
    number: usize,
    log: Log,
    events: Vec<Event>,
    /// Answers that are to come, by id.
    open: HashMap<i64, usize>,
    last_id: i64,
    pub samples: Vec<Sample>,
    pub counts: BTreeMap<String, u64>,
    survivors: Vec<String>,
    /// A request has not been answered in all the time that there is.
    pub is_stuck: bool,
}

/// A session that has ended.
#[derive(Default)]
pub struct Past {
    number: usize,
    pub history: History,
    pub samples: Vec<Sample>,
    pub counts: BTreeMap<String, u64>,
    pub survivors: Vec<String>,
}

impl<'a> Session<'a> {
    /// With a bridge of its own.
    pub fn start(engine: &'a Engine, number: usize, log: &Log) -> Self {
        let fixture = Fixture::new(&["--durable"]);
        let home = marking(Home::on(engine).server("ledger", fixture.entry()));
        let link = Link::Stdio(Bridge::start(&home));
        Self::over(engine, &home, &Rc::new(fixture), link, number, log)
    }

    /// With a client that is there.
    pub fn over(
        engine: &'a Engine,
        home: &Home,
        fixture: &Rc<Fixture>,
        link: Link<'a>,
        number: usize,
        log: &Log,
    ) -> Self {
        Self {
            engine,
            home: home.clone(),
            fixture: Rc::clone(fixture),
            link,
            number,
            log: Arc::clone(log),
            events: Vec::new(),
            open: HashMap::new(),
            // The bridge's client has used some for the handshake.
            last_id: 100,
            samples: Vec::new(),
            counts: BTreeMap::new(),
            survivors: Vec::new(),
            is_stuck: false,
        }
    }

    /// Sends a run; returns its request's id.
    pub fn ask(&mut self, run: u64, deed: &Deed) -> i64 {
        self.last_id += 1;
        self.ask_as(self.last_id, run, deed);
        self.last_id
    }

    /// The same under an id that may be another request's.
    pub fn ask_as(&mut self, id: i64, run: u64, deed: &Deed) {
        let mut arguments = json!({"code": deed.code, "reset": deed.reset});
        if let Some(timeout) = deed.timeout {
            arguments["timeout"] = json!(timeout);
        }
        self.count(deed.name);
        self.request(
            id,
            Some(run),
            deed.name,
            "tools/call",
            json!({"name": "run_python", "arguments": arguments}),
        );
    }

    /// Something that the bridge answers at once.
    pub fn ask_other(&mut self, method: &str) {
        self.last_id += 1;
        self.request(self.last_id, None, "other", method, json!({}));
    }

    fn request(&mut self, id: i64, run: Option<u64>, deed: &'static str, method: &str, params: Value) {
        // Requests over HTTP come over connections of their own, so nothing says which of them is the first.
        if self.link.is_web() {
            self.wait();
        }
        *self.open.entry(id).or_default() += 1;
        self.note(What::Asked { id, run, deed });
        self.link.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    /// Cancels a run, and asks for something behind it.
    pub fn cancel(&mut self, id: i64) {
        self.count("cancelled by the client");
        self.note(What::Cancelled { id });
        self.link.notify("notifications/cancelled", json!({"requestId": id, "reason": "soak"}));
        self.expect_less(id);
        // Over HTTP the answers come over connections of their own, so none is behind the cancellation.
        if !self.link.is_web() {
            self.ask_other("ping");
        }
    }

    /// Whether its client speaks HTTP.
    pub fn is_web(&self) -> bool {
        self.link.is_web()
    }

    /// The bridge was killed, and another one goes on with the session. What was under way has no answer.
    pub fn go_on_with(&mut self, served: &'a Served) {
        self.linger(Duration::ZERO);
        self.fault("shared bridge killed");
        for id in std::mem::take(&mut self.open).into_keys() {
            self.note(What::Cancelled { id });
        }
        self.link.go_on_with(served);
    }

    pub fn garbage(&mut self, line: &[u8]) {
        self.count("line of garbage");
        self.note(What::Garbage);
        self.link.send_raw(line);
    }

    /// Takes what comes for so long.
    pub fn linger(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Ok((at, message)) = self.link.next(until.saturating_duration_since(Instant::now())) {
            self.take(at, &message);
        }
    }

    /// Waits for all answers.
    pub fn wait(&mut self) {
        while !self.open.is_empty() && !self.is_stuck {
            match self.link.next(PATIENCE) {
                Ok((at, message)) => self.take(at, &message),
                Err(_) => self.is_stuck = true,
            }
        }
    }

    fn take(&mut self, at: u64, message: &Value) {
        if message.get("method").is_some() {
            return;
        }
        let id = message["id"].as_i64();
        let is_reply = message["result"].get("content").is_some();
        let facts = is_reply.then(|| {
            let reply = Reply::of(message["result"].clone());
            let facts = Facts::of(&reply.text, reply.is_error);
            if !facts.is_started {
                self.count("run refused");
            }
            facts
        });
        // What cannot be told from the facts is in the log in full.
        self.write(&json!({"at": at, "message": message}));
        self.events.push(Event { at, what: What::Answered { id, facts } });
        if let Some(id) = id {
            self.expect_less(id);
        }
    }

    fn expect_less(&mut self, id: i64) {
        if let Some(open) = self.open.get_mut(&id) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&id);
            }
        }
    }

    /// Kills the server's process, if it has one.
    pub fn kill_server(&mut self) {
        let Some(pid) = self.fixture.living().pop() else { return };
        self.fault("server killed");
        // It may end by itself meanwhile.
        let _gone_or_killed = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }

    /// Ends the container behind the bridge's back, if it has one.
    pub fn end_container(&mut self, name: &'static str, end: fn(&Engine, &str)) {
        if let Some(container) = self.engine.containers_of(&self.home.owners()).first() {
            self.fault(name);
            end(self.engine, container);
        }
    }

    fn fault(&mut self, fault: &'static str) {
        self.count(fault);
        self.note(What::Fault { fault });
    }

    /// Reads what the bridge has of the machine.
    pub fn sample(&mut self) {
        let Link::Stdio(bridge) = &self.link else { return };
        let (pid, rss_kib) = (bridge.pid(), bridge.resident_kib());
        let entries = |name: &str| {
            std::fs::read_dir(format!("/proc/{pid}/{name}")).map_or(0, |entries| entries.count() as u64)
        };
        let children: Vec<i32> = children_of(pid).collect();
        for child in children.iter().filter(|child| !is_alive(**child)) {
            self.await_reaping(pid, *child);
        }
        let sample = Sample {
            rss_kib,
            fds: entries("fd"),
            threads: entries("task"),
            children: children.len() as u64,
            containers: self.engine.containers_of(&self.home.owners()).len() as u64,
        };
        self.samples.push(sample);
    }

    /// A child that has ended is a zombie for a moment, and not for longer.
    fn await_reaping(&mut self, pid: i32, child: i32) {
        let started = Instant::now();
        while children_of(pid).any(|other| other == child) {
            if started.elapsed() > GONE_WITHIN {
                return self.survivors.push(format!("child {child}, which has ended and is not waited for,"));
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// Ends the bridge and looks for what is left of it.
    pub fn end(self, end: End) -> Past {
        let (engine, home, fixture) = (self.engine, self.home.clone(), Rc::clone(&self.fixture));
        let owners = home.owners();
        let log = Arc::clone(&self.log);
        let mut past = self.close(end);
        past.take_calls(Entry::all(&fixture.ledger()), engine, &log);
        past.survivors.extend(gone(engine, &home, &fixture, &owners));
        past
    }

    /// Ends the client. The calls of its session are not known yet.
    pub fn close(mut self, end: End) -> Past {
        let (how, signal) = match end {
            End::HangUp => ("client hung up", None),
            End::Terminate => ("bridge terminated", Some(Signal::SIGTERM)),
            End::Kill => ("bridge killed", Some(Signal::SIGKILL)),
        };
        self.count(how);
        let midway = !self.open.is_empty() && !self.is_stuck;
        self.note(What::Ended { how, midway });
        match signal {
            Some(signal) => self.link.signal(signal),
            None => self.link.hang_up(),
        }
        while let Ok((at, message)) = self.link.next(PATIENCE) {
            self.take(at, &message);
        }
        self.link.wait();
        let stderr = self.link.stderr();
        self.write(&json!({"stderr": stderr}));
        Past {
            number: self.number,
            history: History { events: self.events, ledger: vec![] },
            samples: self.samples,
            counts: self.counts,
            survivors: self.survivors,
        }
    }

    fn note(&mut self, what: What) {
        let event = Event { at: monotonic_ns(), what };
        self.write(&json!(event));
        self.events.push(event);
    }

    fn write(&self, line: &Value) {
        write(&self.log, self.engine, self.number, line);
    }

    fn count(&mut self, name: &str) {
        *self.counts.entry(name.to_owned()).or_default() += 1;
    }
}

impl Past {
    /// These calls are those of the session.
    pub fn take_calls(&mut self, calls: Vec<Entry>, engine: &Engine, log: &Log) {
        for call in &calls {
            write(log, engine, self.number, &json!({"call": call}));
        }
        self.history.ledger = calls;
    }
}

fn write(log: &Log, engine: &Engine, number: usize, line: &Value) {
    let line = json!({"engine": engine.name, "bridge": number, "line": line});
    let mut log = log.lock().expect("nobody panics while writing");
    log.write_all(format!("{line}\n").as_bytes()).expect("the target folder is writable");
}

/// Waits until nothing is left of bridges that have ended; returns what is left after all. The place of a shared bridge stays.
pub fn gone(engine: &Engine, home: &Home, fixture: &Fixture, owners: &[String]) -> Vec<String> {
    let started = Instant::now();
    let mut survivors = vec![];
    let mut clean = 0;
    // Twice clean: an engine may still be at what it was asked for.
    while clean < 2 && started.elapsed() < GONE_WITHIN + Duration::from_secs(1) {
        survivors = left(engine, home, fixture, owners);
        survivors.retain(|what| !what.starts_with("file \"serve."));
        clean = if survivors.is_empty() { clean + 1 } else { 0 };
        std::thread::park_timeout(Duration::from_millis(100));
    }
    survivors
}
