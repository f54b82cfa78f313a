//! Ten servers of as many kinds, seven of which do not work, each in its own way; and what has to go on beside them.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::everything::Everything;
use super::http_fixture::{HttpFixture, Request, reply, usual_answer};
use super::{Bridge, Engine, Fixture, Home};

/// Where a server says who gives its tokens.
const METADATA: &str = "/.well-known/oauth-protected-resource";
/// Over stdio, over HTTP+SSE as the reference server speaks it, and over Streamable HTTP.
pub const HEALTHY: [&str; 3] = ["one", "legacy", "remote"];
pub const BROKEN: [&str; 7] = ["missing", "crashing", "silent", "slow", "locked", "stuck", "garbled"];
/// As many that work, in their place.
pub const WORKING: [&str; 7] = ["w1", "w2", "w3", "w4", "w5", "w6", "w7"];

/// Calls each that works; what it prints.
pub const CALLS_THOSE_THAT_WORK: (&str, &str) = (
    "print(await mcp_one.echo(text='1'), await mcp_legacy.echo(message='2'), await mcp_remote.t())",
    "1 Echo: 2 far",
);

/// Their entries, and what must live as long as they are used.
pub struct Servers {
    entries: Vec<(&'static str, Value)>,
    _fixtures: Vec<Fixture>,
    _remotes: Vec<HttpFixture>,
    _legacy: Everything,
}

impl Servers {
    pub fn new() -> Self {
        let local = |flags: &[&str]| Fixture::new(flags);
        let fixtures = vec![local(&[]), local(&["--crash-at-start"]), local(&["--never-answer"])];
        let legacy = Everything::start("sse", "sse");
        let remotes = vec![
            HttpFixture::usual(|request, stream| {
                let result = json!({"content": [{"type": "text", "text": "far"}]});
                if request.is("tools/call") {
                    reply(stream, "200 OK", &[], &request.answer(result))
                } else {
                    reply(stream, "405 Method Not Allowed", &[], "")
                }
            }),
            HttpFixture::start(guarded),
            // It takes the request and never says a word.
            HttpFixture::start(|_, _| {
                loop {
                    std::thread::park();
                }
            }),
            HttpFixture::start(|_, stream| reply(stream, "200 OK", &[], "<html>not found</html>")),
            HttpFixture::start(slow),
        ];
        let far = |at: usize| json!({"url": remotes[at].url});
        let mut entries = vec![
            ("one", fixtures[0].entry()),
            ("legacy", json!({"url": legacy.url, "type": "sse"})),
            ("remote", far(0)),
            ("missing", json!({"command": "/nowhere/at-all"})),
            ("crashing", fixtures[1].entry()),
            ("silent", fixtures[2].entry()),
            ("slow", far(4)),
            ("locked", far(1)),
            ("stuck", far(2)),
            ("garbled", far(3)),
        ];
        entries.extend(WORKING.map(|name| (name, fixtures[0].entry())));
        Self { entries, _fixtures: fixtures, _remotes: remotes, _legacy: legacy }
    }

    pub fn home(&self, engine: &Engine, names: &[&str]) -> Home {
        let wanted = self.entries.iter().filter(|(name, _)| names.contains(name));
        wanted.fold(Home::on(engine), |home, (name, entry)| home.server(name, entry.clone()))
    }
}

/// It wants a login, and says where one is to be had.
fn guarded(request: &Request, stream: &mut TcpStream) -> std::io::Result<()> {
    let origin = format!("http://{}", request.header("host").unwrap_or_default());
    if request.path.starts_with(METADATA) {
        let about = json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]});
        return reply(stream, "200 OK", &[], &about.to_string());
    }
    let challenge = format!("Bearer resource_metadata=\"{origin}{METADATA}/mcp\"");
    reply(stream, "401 Unauthorized", &[("WWW-Authenticate", &challenge)], "{}")
}

/// Its first answer takes longer than any healthy server's all, and it works.
fn slow(request: &Request, stream: &mut TcpStream) -> std::io::Result<()> {
    if request.is("initialize") {
        std::thread::park_timeout(Duration::from_secs(5));
    }
    let result = json!({"content": [{"type": "text", "text": "at last"}]});
    match usual_answer(request) {
        Some(answer) => reply(stream, "200 OK", &[], &answer.to_string()),
        None if request.is("tools/call") => reply(stream, "200 OK", &[], &request.answer(result)),
        None if request.is("notifications/initialized") => reply(stream, "202 Accepted", &[], ""),
        None => reply(stream, "405 Method Not Allowed", &[], ""),
    }
}

/// All ten.
pub fn ten() -> Vec<&'static str> {
    HEALTHY.into_iter().chain(BROKEN).collect()
}

/// The time until the first reply of a warm bridge with these servers, and that reply.
pub fn first_reply(engine: &Engine, servers: &Servers, names: &[&str], code: &str) -> (Duration, String) {
    let mut bridge = Bridge::start(&servers.home(engine, names)).warm();
    let began = Instant::now();
    let reply = bridge.ok(code);
    (began.elapsed(), reply)
}
