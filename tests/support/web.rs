//! `belljar serve --http`, and a client that speaks HTTP as it is written here, so that it can also say what no library would.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::{Home, PATIENCE};

/// The version of MCP whose clients have a session of the protocol.
pub const WITH_SESSIONS: &str = "2025-11-25";
/// The version whose clients have none.
pub const WITHOUT_SESSIONS: &str = "2026-07-28";

/// The running program, which ends with this value.
pub struct Served {
    child: Child,
    pub address: SocketAddr,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// A request whose answer has begun, so that the program has read it.
pub struct Begun {
    stream: TcpStream,
    bytes: Vec<u8>,
}

/// A client with a token.
pub struct WebClient<'s> {
    served: &'s Served,
    token: String,
    version: &'static str,
    pub session: Option<String>,
    id: u64,
}

impl Served {
    pub fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut command = home.command(&["serve", "--http", "127.0.0.1:0"]);
        let mut child = command.args(arguments).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = said.next().expect("it says its address").unwrap();
            if let Some((_, rest)) = line.split_once("://") {
                break rest.split('/').next().unwrap().parse().unwrap();
            }
        };
        // Nobody else reads what it says.
        std::thread::spawn(move || said.for_each(|line| eprintln!("serve: {}", line.unwrap_or_default())));
        Self { child, address }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request and waits for the head of the answer; nothing when the program has ended.
    fn begin(&self, bytes: &[u8]) -> Option<Begun> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).ok()?;
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
            let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
            answer.extend_from_slice(&piece[..count]);
        }
        Some(Begun { stream, bytes: answer })
    }

    /// The answer to bytes, up to the end of the connection. Its status is 0 when the program has ended.
    pub fn answer_to(&self, bytes: &[u8]) -> Answer {
        let Ok(mut stream) = TcpStream::connect(self.address) else { return Answer::of(b"") };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // What refuses a request may not read all of it.
        drop(stream.write_all(bytes));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        Answer::of(&answer)
    }

    /// The answer to a request with these headers, each of them only once.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.answer_to(&self.bytes_of(method, path, headers, body))
    }

    fn bytes_of(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
        let usual = [
            ("host", self.address.to_string()),
            ("accept", "application/json, text/event-stream".into()),
            ("content-type", "application/json".into()),
            ("connection", "close".into()),
            ("content-length", body.len().to_string()),
        ];
        let is_own = |name: &str| headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let usual =
            usual.iter().filter(|(name, _)| !is_own(name)).map(|(name, value)| (*name, value.as_str()));
        let all: String = usual
            .chain(headers.iter().copied())
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        format!("{method} {path} HTTP/1.1\r\n{all}\r\n{body}").into_bytes()
    }

    /// A client with a session of the protocol.
    pub fn client(&self, token: &str) -> WebClient<'_> {
        self.client_until_killed(token).unwrap_or_else(|answer| panic!("{answer:?}"))
    }

    /// The same of a program that may be killed at any time.
    ///
    /// # Errors
    /// The first answer that is no success.
    pub fn client_until_killed(&self, token: &str) -> Result<WebClient<'_>, Answer> {
        let mut client =
            WebClient { served: self, token: token.into(), version: WITH_SESSIONS, session: None, id: 0 };
        let about = json!({"protocolVersion": WITH_SESSIONS, "capabilities": {},
            "clientInfo": {"name": "web", "version": "1"}});
        let answer = client.send("initialize", about);
        client.session = answer.header("mcp-session-id").map(str::to_owned);
        if answer.status != 200 || client.session.is_none() {
            return Err(answer);
        }
        let answer = client.notify("notifications/initialized");
        if answer.status == 202 { Ok(client) } else { Err(answer) }
    }

    /// A client that comes back to its session of the protocol.
    pub fn coming_back(&self, token: &str, session: Option<String>) -> WebClient<'_> {
        WebClient { served: self, token: token.into(), version: WITH_SESSIONS, session, id: 100 }
    }

    /// A client whose requests have nothing in common.
    pub fn stateless(&self, token: &str) -> WebClient<'_> {
        WebClient { served: self, token: token.into(), version: WITHOUT_SESSIONS, session: None, id: 0 }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = kill(self.pid(), Signal::SIGTERM);
        drop(self.child.wait());
    }
}

impl Answer {
    fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The code of the error of the protocol that it is.
    pub fn message_of_error(&self) -> i64 {
        serde_json::from_str::<Value>(&self.body).unwrap()["error"]["code"].as_i64().unwrap()
    }

    /// The answer in it, from a stream or alone.
    #[track_caller]
    pub fn message(&self) -> Value {
        self.message_if_any().unwrap_or_else(|| panic!("no answer in {self:?}"))
    }

    /// The same; nothing when the program was killed before it answered.
    pub fn message_if_any(&self) -> Option<Value> {
        let lines = self.body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        messages.find(|message| message.get("id").is_some() && message.get("method").is_none())
    }
}

impl Begun {
    /// The whole answer.
    pub fn finish(mut self) -> Answer {
        // The program may be killed meanwhile.
        drop(self.stream.read_to_end(&mut self.bytes));
        Answer::of(&self.bytes)
    }
}

impl WebClient<'_> {
    /// Sends a message as it is; nothing when the program has ended.
    pub fn begin(&self, message: &Value) -> Option<Begun> {
        let headers = self.headers("", &json!({}));
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.served.begin(&self.served.bytes_of("POST", "/mcp", &headers, &message.to_string()))
    }

    fn headers(&self, method: &str, params: &Value) -> Vec<(String, String)> {
        let mut headers = vec![
            ("authorization".to_owned(), format!("Bearer {}", self.token)),
            ("mcp-protocol-version".to_owned(), self.version.to_owned()),
        ];
        if self.version == WITHOUT_SESSIONS {
            headers.push(("mcp-method".to_owned(), method.to_owned()));
            let name = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str);
            headers.extend(name.map(|name| ("mcp-name".to_owned(), name.to_owned())));
        }
        headers.extend(self.session.clone().map(|session| ("mcp-session-id".to_owned(), session)));
        headers
    }

    /// The whole answer to a request.
    pub fn send(&mut self, method: &str, mut params: Value) -> Answer {
        self.id += 1;
        let headers = self.headers(method, &params);
        if self.version == WITHOUT_SESSIONS {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.version,
                "io.modelcontextprotocol/clientInfo": {"name": "web", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let body = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}).to_string();
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.served.request("POST", "/mcp", &headers, &body)
    }

    fn notify(&self, method: &str) -> Answer {
        let headers = self.headers(method, &json!({}));
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let body = json!({"jsonrpc": "2.0", "method": method}).to_string();
        self.served.request("POST", "/mcp", &headers, &body)
    }

    /// Ends the session of the protocol.
    pub fn delete(&self) -> Answer {
        let headers = self.headers("", &json!({}));
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.served.request("DELETE", "/mcp", &headers, "")
    }

    /// The result of a request.
    #[track_caller]
    pub fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.send(method, params).message();
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    /// The reply to code, in one text, and whether it is an error.
    #[track_caller]
    pub fn run(&mut self, arguments: Value) -> (String, bool) {
        let result = self.result("tools/call", json!({"name": "run_python", "arguments": arguments}));
        let texts = result["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str());
        (texts.collect::<Vec<_>>().join("\n"), result["isError"] == json!(true))
    }

    /// What code prints that must not fail.
    #[track_caller]
    pub fn ok(&mut self, code: &str) -> String {
        let (reply, is_error) = self.run(json!({"code": code}));
        assert!(!is_error, "{reply}");
        reply
    }
}
