//! The server that the benchmarks call, without belljar in between.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::async_rw::AsyncRwTransport;

use crate::figures::Samples;
use crate::support::Fixture;

const CALLS: usize = 2_000;
const AT_ONCE: usize = 1_000;

/// A client that is as small as can be, and its server.
pub struct Direct {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

impl Direct {
    pub fn start() -> Self {
        let mut server = Command::new(Fixture::program())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let input = server.stdin.take().expect("a pipe");
        let output = BufReader::new(server.stdout.take().expect("a pipe"));
        Self { server, input, output, last_id: 0 }
    }

    /// One call.
    pub fn call(&mut self) -> Duration {
        self.last_id += 1;
        let started = Instant::now();
        let params = r#"{"name":"echo","arguments":{"text":"x"}}"#;
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/call\",\"params\":{params}}}\n",
            self.last_id
        );
        self.input.write_all(line.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("the server answers");
        let parsed: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(parsed["result"]["content"][0]["text"], "x");
        started.elapsed()
    }

    pub fn end(self) {
        let Self { mut server, input, .. } = self;
        drop(input);
        server.wait().expect("the server ends");
    }
}

/// Calls by rmcp's client: one after the other, and how many a second when a thousand are made at once.
pub async fn through_rmcp() -> (Samples, f64) {
    let mut server = tokio::process::Command::new(Fixture::program())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let (output, input) = (server.stdout.take().expect("a pipe"), server.stdin.take().expect("a pipe"));
    let client =
        ().serve(AsyncRwTransport::new_client(output, input)).await.expect("the server shakes hands");
    let arguments = serde_json::json!({"text": "x"}).as_object().expect("an object").clone();
    let call = || client.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments.clone()));
    let mut calls = Vec::new();
    for _ in 0..CALLS {
        let started = Instant::now();
        call().await.expect("the call is answered");
        calls.push(started.elapsed());
    }
    let mut fastest = f64::MAX;
    for _ in 0..5 {
        let started = Instant::now();
        let answers = futures_util::future::join_all((0..AT_ONCE).map(|_| call())).await;
        assert!(answers.iter().all(Result::is_ok));
        fastest = fastest.min(started.elapsed().as_secs_f64());
    }
    client.cancel().await.expect("the client ends");
    server.wait().await.expect("the server ends");
    (Samples::new(calls), AT_ONCE as f64 / fastest)
}
