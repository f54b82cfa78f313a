//! A service that speaks OpenAI's chat completions, over real sockets: what it says is the test's.

use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::home::Home;
use super::http_fixture::{HttpFixture, Request, reply};

/// The key that it wants.
pub const KEY: &str = "sk-canary-5d1e-key";

/// The service; it ends with the test's process.
pub struct ModelServer {
    fixture: HttpFixture,
    under_way: Arc<UnderWay>,
}

/// How many requests it has at once.
#[derive(Default)]
pub struct UnderWay {
    now_and_most: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl ModelServer {
    /// Its model answers so, whatever the key.
    pub fn open(says: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::start(move |request, out, _| say(out, request, &says(prompt(request))))
    }

    /// It wants the key, and repeats any other one in its refusal.
    pub fn locked(says: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::start(move |request, out, _| match request.header("authorization") {
            Some(key) if key == format!("Bearer {KEY}") => say(out, request, &says(prompt(request))),
            key => {
                let message = format!("Incorrect API key provided: {}", key.unwrap_or_default());
                reply(out, "401 Unauthorized", &[], &json!({"error": {"message": message}}).to_string())
            }
        })
    }

    /// Every reply is the script's.
    pub fn start(
        script: impl Fn(&Request, &mut TcpStream, &UnderWay) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let under_way = Arc::new(UnderWay::default());
        let counts = Arc::clone(&under_way);
        let fixture = HttpFixture::start(move |request, out| {
            if (request.method.as_str(), request.path.as_str()) != ("POST", "/v1/chat/completions") {
                return reply(out, "404 Not Found", &[], "");
            }
            counts.add();
            let replied = script(request, out, &counts);
            counts.take();
            replied
        });
        Self { fixture, under_way }
    }

    pub fn url(&self) -> String {
        self.fixture.url.replace("/mcp", "/v1")
    }

    pub fn requests(&self) -> Vec<Request> {
        self.fixture.requests()
    }

    /// What it was asked, in the order in which that came.
    pub fn prompts(&self) -> Vec<String> {
        self.requests().iter().map(|request| prompt(request).to_owned()).collect()
    }

    /// The most requests that it has had at once.
    pub fn most(&self) -> usize {
        self.under_way.now_and_most.lock().unwrap().1
    }

    /// A home whose code asks it.
    pub fn set(&self, home: Home) -> Home {
        home.env("MCP_BRIDGE_MODEL_ENDPOINT", &self.url()).env("MCP_BRIDGE_MODEL_NAME", "small-1")
    }

    /// The same, with its key.
    pub fn set_with_key(&self, home: Home) -> Home {
        self.set(home).env("LLM_KEY", KEY).env("MCP_BRIDGE_MODEL_KEY", "${env:LLM_KEY}")
    }
}

impl UnderWay {
    /// Waits until so many are under way, or it is plain that there will not be.
    pub fn wait_for(&self, wanted: usize) {
        let now_and_most = self.now_and_most.lock().unwrap();
        let (gone, _) = self
            .changed
            .wait_timeout_while(now_and_most, Duration::from_secs(5), |(now, _)| *now < wanted)
            .unwrap();
        drop(gone);
    }

    fn add(&self) {
        let mut now_and_most = self.now_and_most.lock().unwrap();
        now_and_most.0 += 1;
        now_and_most.1 = now_and_most.1.max(now_and_most.0);
        self.changed.notify_all();
    }

    fn take(&self) {
        self.now_and_most.lock().unwrap().0 -= 1;
    }
}

/// The last that was said to the model.
pub fn prompt(request: &Request) -> &str {
    let last = request.body["messages"].as_array().and_then(|messages| messages.last());
    last.and_then(|message| message["content"].as_str()).unwrap_or_default()
}

/// An answer, whose tokens are its words.
pub fn say(out: &mut TcpStream, request: &Request, text: &str) -> std::io::Result<()> {
    let tokens = |text: &str| text.split_whitespace().count();
    let (sent, received) = (tokens(prompt(request)), tokens(text));
    let completion: Value = json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "small-1-2026",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received},
    });
    reply(out, "200 OK", &[], &completion.to_string())
}
