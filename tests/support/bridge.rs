//! A client of the built program: JSON-RPC lines over its stdio, well-formed or not.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::{Home, PATIENCE, eventually, monotonic_ns};

/// A running program and its client's end. Dropping it kills the program.
pub struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    /// With the time at which each came.
    lines: Receiver<(u64, String)>,
    /// Messages that somebody else waits for.
    unread: VecDeque<Value>,
    errors: Arc<Mutex<String>>,
    /// Ends when nobody has stderr open any more.
    reader: JoinHandle<()>,
    last_id: i64,
    _home: Rc<tempfile::TempDir>,
}

/// A reply of `run_python`.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Without the note about a wait for another run.
    pub text: String,
    pub is_error: bool,
    /// MIME type and base64 of each image.
    pub images: Vec<(String, String)>,
    pub structured: Option<Value>,
}

impl Bridge {
    /// Starts the program; says nothing to it.
    pub fn spawn(home: &Home) -> Self {
        let mut child = home
            .command(&[])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (lines_in, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines() {
                let Ok(line) = line else { return };
                if lines_in.send((monotonic_ns(), line)).is_err() {
                    return;
                }
            }
        });
        let errors = Arc::new(Mutex::new(String::new()));
        let (err, kept) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&errors));
        let reader = std::thread::spawn(move || {
            for line in err.lines() {
                let Ok(line) = line else { return };
                kept.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, unread: VecDeque::new(), errors, reader, last_id: 0, _home: home.keep() }
    }

    /// Starts the program and opens the connection.
    pub fn start(home: &Home) -> Self {
        let mut bridge = Self::spawn(home);
        bridge.initialize("2025-11-25");
        bridge
    }

    /// Starts the program as a client that can do these things.
    pub fn start_with(home: &Home, capabilities: Value) -> Self {
        let mut bridge = Self::spawn(home);
        bridge.initialize_with("2025-11-25", capabilities);
        bridge
    }

    /// The next request of the program, by its method: the id and the parameters.
    pub fn asked(&mut self, method: &str) -> (Value, Value) {
        let mut asked = self.message(&format!("the request {method}"), |message| message["method"] == method);
        (asked["id"].take(), asked["params"].take())
    }

    /// Answers a request of the program.
    pub fn answer_to(&mut self, id: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    /// Answers a request of the program by an error.
    pub fn refuse(&mut self, id: &Value, code: i32, message: &str) {
        let error = json!({"code": code, "message": message});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    /// The handshake of a client of this version; returns the result of `initialize`.
    pub fn initialize(&mut self, version: &str) -> Value {
        self.initialize_with(version, json!({}))
    }

    /// The same of one that can do these things.
    pub fn initialize_with(&mut self, version: &str, capabilities: Value) -> Value {
        let about = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": about});
        let result = self.request("initialize", params).expect("initialize is answered");
        self.notify("notifications/initialized", json!({}));
        result
    }

    /// Sends a request and waits for its result, or its error object.
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.send_request(method, params);
        self.answer(id)
    }

    /// Sends a request; [`Self::answer`] waits for the answer.
    pub fn send_request(&mut self, method: &str, params: Value) -> i64 {
        self.last_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}));
        self.last_id
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// The answer to the request.
    pub fn answer(&mut self, id: i64) -> Result<Value, Value> {
        self.answer_within(id, PATIENCE)
    }

    fn answer_within(&mut self, id: i64, within: Duration) -> Result<Value, Value> {
        // The program counts its own requests too.
        let is_it = |message: &Value| message["id"] == json!(id) && message.get("method").is_none();
        let mut message = self.message_within(&format!("the answer to {id}"), within, is_it);
        match message.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(message["result"].take()),
        }
    }

    /// The next notification of this method.
    pub fn notification(&mut self, method: &str) -> Value {
        self.message(method, |message| message["method"] == json!(method))
    }

    /// The next message for which the test holds; others are kept for later.
    pub fn message(&mut self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.message_within(what, PATIENCE, holds)
    }

    fn message_within(&mut self, what: &str, within: Duration, holds: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.unread.iter().position(&holds) {
            return self.unread.remove(at).unwrap();
        }
        let until = Instant::now() + within;
        loop {
            let line = self.lines.recv_timeout(until.saturating_duration_since(Instant::now()));
            let Ok((_, line)) = line else {
                panic!("{what} did not come ({line:?}); on stderr:\n{}", self.stderr());
            };
            let message = parsed(&line);
            if holds(&message) {
                return message;
            }
            self.unread.push_back(message);
        }
    }

    /// The next line with the time at which it came, for a client that takes all of them in their order.
    pub fn next(&mut self, within: Duration) -> Result<(u64, Value), RecvTimeoutError> {
        self.lines.recv_timeout(within).map(|(at, line)| (at, parsed(&line)))
    }

    /// Every message that has come and was not asked for, once the program has answered what it was sent before.
    pub fn rest(&mut self) -> Vec<Value> {
        self.request("ping", json!({})).expect("ping is answered");
        self.unread.drain(..).collect()
    }

    /// Runs code.
    pub fn run(&mut self, code: &str) -> Reply {
        self.run_with(json!({"code": code}))
    }

    /// Runs with all arguments.
    pub fn run_with(&mut self, arguments: Value) -> Reply {
        let id = self.send_run(arguments);
        self.reply(id)
    }

    /// Runs code with a program that may be killed at any time; nothing when it was, before it answered.
    pub fn run_until_killed(&mut self, code: &str) -> Option<Reply> {
        self.last_id += 1;
        let params = json!({"name": "run_python", "arguments": {"code": code}});
        let message = json!({"jsonrpc": "2.0", "id": self.last_id, "method": "tools/call", "params": params});
        let input = self.input.as_mut().expect("the connection is open");
        // It may have gone by now: then nothing comes.
        drop(input.write_all(format!("{message}\n").as_bytes()));
        self.reply_until_killed(self.last_id)
    }

    /// The reply to a run that was sent; nothing when the program was killed before it answered.
    pub fn reply_until_killed(&mut self, id: i64) -> Option<Reply> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.next(until.saturating_duration_since(Instant::now())) {
                Ok((_, mut message)) if message["id"] == json!(id) && message.get("method").is_none() => {
                    return Some(Reply::of(message["result"].take()));
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("no answer and no end; on stderr:\n{}", self.stderr())
                }
            }
        }
    }

    /// Starts the program, and sends the handshake and a run without waiting for answers. Returns the id of the run.
    pub fn spawn_with_run(home: &Home, code: &str) -> (Self, i64) {
        let mut bridge = Self::spawn(home);
        let about = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about});
        bridge.send_request("initialize", params);
        bridge.notify("notifications/initialized", json!({}));
        let id = bridge.send_run(json!({"code": code}));
        (bridge, id)
    }

    /// The answer to a run that was sent, if it has come by now.
    pub fn reply_by_now(&mut self, id: i64) -> Option<Reply> {
        while let Ok((_, message)) = self.next(Duration::from_millis(2)) {
            self.unread.push_back(message);
        }
        let at = self
            .unread
            .iter()
            .position(|message| message["id"] == json!(id) && message.get("method").is_none())?;
        Some(Reply::of(self.unread.remove(at).unwrap()["result"].take()))
    }

    pub fn send_run(&mut self, arguments: Value) -> i64 {
        self.send_request("tools/call", json!({"name": "run_python", "arguments": arguments}))
    }

    /// The reply to a run that was sent.
    pub fn reply(&mut self, id: i64) -> Reply {
        Reply::of(self.answer(id).expect("a run is answered by a result"))
    }

    /// The reply to a run that has much to do.
    pub fn late_reply(&mut self, id: i64, within: Duration) -> Reply {
        Reply::of(self.answer_within(id, within).expect("a run is answered by a result"))
    }

    /// Runs code that must succeed and returns its text.
    #[track_caller]
    pub fn ok(&mut self, code: &str) -> String {
        let reply = self.run(code);
        assert!(!reply.is_error, "{code:?} failed:\n{}", reply.text);
        reply.text
    }

    /// Runs the first code of a session; returns what it printed, without the engine's notices.
    pub fn first(&mut self, code: &str) -> String {
        self.ok(code)
            .lines()
            .filter(|line| !line.starts_with("note: ") && !line.starts_with("sandbox note: "))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Has the sandbox started, and its notices given.
    pub fn warm(mut self) -> Self {
        self.ok("None");
        self
    }

    pub fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("the connection is open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("the program reads");
    }

    /// What it has written to stderr so far.
    pub fn stderr(&self) -> String {
        self.errors.lock().unwrap().clone()
    }

    /// Waits for words on stderr.
    #[track_caller]
    pub fn says(&self, words: &str) {
        let until = Instant::now() + Duration::from_secs(10);
        while !self.stderr().contains(words) {
            assert!(Instant::now() < until, "{words:?} is not on stderr:\n{}", self.stderr());
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("the program is there");
    }

    /// Closes its stdin, as a client that goes away does.
    pub fn hang_up(&mut self) {
        drop(self.input.take());
    }

    /// Waits for its end; says how long that took.
    #[track_caller]
    pub fn wait(&mut self, within: Duration) -> (ExitStatus, Duration) {
        let mut status = None;
        let took = eventually("the program's end", within, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        // Its last words may still be on the way. A process that it has left may have stderr open.
        let until = Instant::now() + Duration::from_secs(1);
        while !self.reader.is_finished() && Instant::now() < until {
            std::thread::park_timeout(Duration::from_millis(2));
        }
        (status.unwrap(), took)
    }

    /// Resident memory, in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.memory_kib("VmRSS:")
    }

    /// The most resident memory that it has had, in KiB.
    pub fn peak_kib(&self) -> u64 {
        self.memory_kib("VmHWM:")
    }

    fn memory_kib(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

fn parsed(line: &str) -> Value {
    let message: Value = serde_json::from_str(line)
        .unwrap_or_else(|error| panic!("stdout holds something else than MCP ({error}): {line:?}"));
    assert_eq!(message["jsonrpc"], "2.0", "{line}");
    message
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Reply {
    pub fn of(result: Value) -> Self {
        let content = result["content"].as_array().cloned().unwrap_or_default();
        let part = |block: &Value, key: &str| block[key].as_str().unwrap_or_default().to_owned();
        let of_kind = |kind: &'static str| content.iter().filter(move |block| block["type"] == kind);
        Self {
            text: without_the_wait(&of_kind("text").map(|block| part(block, "text")).collect::<String>()),
            is_error: result["isError"] == json!(true),
            images: of_kind("image").map(|block| (part(block, "mimeType"), part(block, "data"))).collect(),
            structured: result.get("structuredContent").cloned(),
        }
    }
}

/// A run that is sent behind another one may wait long enough to be told, on a slow machine.
fn without_the_wait(text: &str) -> String {
    let lines = text.split('\n').filter(|line| !line.starts_with("note: this run waited "));
    lines.collect::<Vec<_>>().join("\n")
}
