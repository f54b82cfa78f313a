//! An office with ten servers, all of them processes of their own: seven of other people's, one of them remote, a page to
//! fetch, and a shop and a desk that are written by hand. Its data are always the same (`tests/tasks/world.py`).

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::engines::cache;
use super::everything::Everything;
use super::http_fixture::{HttpFixture, reply};
use super::{Engine, Home};

/// Their names.
pub const SERVERS: [&str; 10] =
    ["files", "git", "time", "memory", "books", "calculator", "web", "lab", "shop", "desk"];

pub struct Office {
    pub home: Home,
    /// Where the pages are.
    pages: HttpFixture,
    _lab: Everything,
}

/// Where the tasks, their data and the servers of our own are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tasks")
}

/// What a program of that folder prints.
pub fn python(program: &str, arguments: &[&str]) -> Value {
    let output = Command::new("python3").arg(folder().join(program)).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

impl Office {
    pub fn new(engine: &Engine) -> Self {
        let home = Home::on(engine);
        let root = home.path().join("world");
        std::fs::create_dir(&root).unwrap();
        python("world.py", &["lay", root.to_str().unwrap()]);
        let pages = root.join("pages");
        let pages = HttpFixture::start(move |request, stream| {
            let name = request.path.trim_start_matches('/');
            let (status, page) = match std::fs::read_to_string(pages.join(name)) {
                Ok(page) => ("200 OK", page),
                Err(_) => ("404 Not Found", "there is no such page".into()),
            };
            reply(stream, status, &[], &page)
        });
        let lab = Everything::start("streamableHttp", "mcp");
        let node = |name: &str| cache().join("servers/node/node_modules/.bin").join(name);
        let pip = |name: &str| cache().join("servers/python/bin").join(name);
        let older = |name: &str| cache().join("servers/python-older/bin").join(name);
        let ours = |kind: &str| {
            let file = root.join(kind).with_extension("json");
            json!({"command": "python3", "args": [folder().join("office_server.py"), kind, file]})
        };
        let entries = [
            json!({"command": node("mcp-server-filesystem"), "args": [root.join("files")]}),
            json!({"command": pip("mcp-server-git"), "args": ["--repository", root.join("repo")]}),
            json!({"command": pip("mcp-server-time"), "args": ["--local-timezone", "UTC"]}),
            json!({"command": node("mcp-server-memory"), "env": {"MEMORY_FILE_PATH": root.join("memory.jsonl")}}),
            json!({"command": older("mcp-server-sqlite"), "args": ["--db-path", root.join("books.db")]}),
            json!({"command": older("mcp-server-calculator")}),
            json!({"command": pip("mcp-server-fetch"), "args": ["--ignore-robots-txt", "--allow-private-ips"]}),
            json!({"url": lab.url}),
            ours("shop"),
            ours("desk"),
        ];
        let home =
            SERVERS.into_iter().zip(entries).fold(home, |home, (name, entry)| home.server(name, entry));
        Self { home, pages, _lab: lab }
    }

    /// A program as it has to be here: `/world` is the folder, `http://world` where the pages are.
    pub fn at_home(&self, program: &str) -> String {
        let pages = self.pages.url.trim_end_matches("/mcp");
        program.replace("http://world", pages).replace("/world/", &format!("{}/", self.root().display()))
    }

    /// What the servers have on their disks now.
    pub fn state(&self) -> Value {
        python("world.py", &["look", self.root().to_str().unwrap()])
    }

    fn root(&self) -> PathBuf {
        self.home.path().join("world")
    }
}
