//! A server of HTTP on the loopback interface whose every reply is written by the test, byte for byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What came in.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// With the query.
    pub path: String,
    /// In lower case, with their values.
    pub headers: Vec<(String, String)>,
    /// As JSON; null when there is none.
    pub body: Value,
}

/// Writes the replies, each over a connection of its own.
pub type Script = dyn Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync;

/// The server; it ends with the test's process.
pub struct HttpFixture {
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl HttpFixture {
    pub fn start(
        script: impl Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (kept, script): (_, Arc<Script>) = (Arc::clone(&requests), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, script) = (Arc::clone(&kept), Arc::clone(&script));
                std::thread::spawn(move || {
                    let Some((request, mut stream)) = read(stream) else { return };
                    kept.lock().unwrap().push(request.clone());
                    // A client that goes away in the middle is what some tests are about.
                    drop(script(&request, &mut stream));
                });
            }
        });
        Self { url, requests }
    }

    /// A server that answers `initialize` and lists one tool `t`; everything else is the script's.
    pub fn usual(
        script: impl Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |request, stream| match usual_answer(request) {
            Some(answer) => reply(stream, "200 OK", &[("Mcp-Session-Id", "s1")], &answer.to_string()),
            None if request.is("notifications/initialized") => reply(stream, "202 Accepted", &[], ""),
            None => script(request, stream),
        })
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub fn count(&self, method: &str) -> usize {
        self.requests().iter().filter(|request| request.is(method)).count()
    }
}

impl Request {
    pub fn is(&self, method: &str) -> bool {
        self.body["method"] == method
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub fn answer(&self, result: Value) -> String {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}).to_string()
    }
}

/// What every server answers.
pub fn usual_answer(request: &Request) -> Option<Value> {
    let result = match request.body["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": request.body["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "fixture", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result}))
}

/// A whole reply of JSON.
pub fn reply(
    stream: &mut impl Write,
    status: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// The beginning of a stream of events, which ends with the connection.
pub fn events(stream: &mut TcpStream, events: &str) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{events}")
}

/// One request.
pub fn read<S: Read>(stream: S) -> Option<(Request, S)> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let mut words = lines.first()?.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let headers: Vec<(String, String)> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some((Request { method, path, headers, body }, reader.into_inner()))
}
