//! A real authorization server with an MCP server that takes only its tokens, and the user's browser.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::engines::cache;
use super::home::{Home, Output};

/// Both servers, in one process.
pub struct Authorization {
    child: Child,
    pub issuer: String,
    /// The address of the MCP server.
    pub mcp: String,
    control: String,
    /// What services log in with: private keys and tokens of a platform, by their names.
    credentials: Value,
}

/// What a server answered to the browser.
pub struct Page {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// `belljar login` under way.
pub struct Login {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    said: String,
    /// Where the user is sent to.
    pub address: String,
}

impl Authorization {
    /// Access tokens are good for so long.
    pub fn start(life_s: u32) -> Self {
        Self::start_with(life_s, &[])
    }

    /// With these variables, which the server's text describes.
    pub fn start_with(life_s: u32, variables: &[(&str, &str)]) -> Self {
        // From its text, so that node finds the packages in the working folder.
        let mut child = Command::new("node")
            .args(["--input-type=module", "--eval", include_str!("../fixtures/authorization/server.mjs")])
            .env("LIFE_S", life_s.to_string())
            .envs(variables.iter().copied())
            .current_dir(cache().join("servers/authorization"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("scripts/setup.sh has installed the servers");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        // Nothing that it says later may end it.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        let about: Value = serde_json::from_str(&line).expect("it says where it is");
        let text = |key: &str| about[key].as_str().unwrap().to_owned();
        let (issuer, mcp, control) = (text("issuer"), text("mcp"), text("control"));
        Self { child, issuer, mcp, control, credentials: about }
    }

    /// A private key in PEM, by its kind.
    pub fn key(&self, name: &str) -> String {
        self.credentials["keys"][name].as_str().unwrap().to_owned()
    }

    /// A token of the platform or the identity provider, by what is right or wrong with it.
    pub fn assertion(&self, name: &str) -> String {
        self.credentials["assertions"][name].as_str().unwrap().to_owned()
    }

    /// Has all access tokens be good for nothing any more.
    pub fn expire(&self) {
        self.order("expire");
    }

    /// The same of all tokens.
    pub fn revoke(&self) {
        self.order("revoke");
    }

    /// Every token that was ever given.
    pub fn tokens(&self) -> Vec<String> {
        let issued = self.order("")["issued"].clone();
        issued.as_array().unwrap().iter().map(|token| token["value"].as_str().unwrap().to_owned()).collect()
    }

    /// How many requests came to the MCP server with a token that was not good.
    pub fn refused_tokens(&self) -> usize {
        let asked = self.order("")["asked"].clone();
        let refused = |request: &&Value| request["token"].is_string() && request["taken"] == false;
        asked.as_array().unwrap().iter().filter(refused).count()
    }

    /// What was wrong with proofs that came to the MCP server.
    pub fn problems(&self) -> Vec<String> {
        let asked = self.order("")["asked"].clone();
        let problems = asked.as_array().unwrap().iter().filter_map(|request| request["problem"].as_str());
        problems.map(str::to_owned).collect()
    }

    /// How tokens were sent to the MCP server, each way once.
    pub fn schemes(&self) -> Vec<String> {
        let asked = self.order("")["asked"].clone();
        let schemes = asked.as_array().unwrap().iter().filter_map(|request| request["scheme"].as_str());
        let schemes: std::collections::BTreeSet<String> = schemes.map(str::to_owned).collect();
        schemes.into_iter().collect()
    }

    /// A new access token of the client that logs in by its secret.
    pub fn service_token(&self) -> String {
        let form = "grant_type=client_credentials&client_id=by-secret&scope=mcp\
                    &client_secret=secret%20%2B%20of%3A%20the%20service";
        let address = self.issuer.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "POST /token HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
            form.len()
        );
        stream.write_all((head + form).as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let body = reply.split_once("\r\n\r\n").expect("a reply").1;
        let json = &body[body.find('{').unwrap()..=body.rfind('}').unwrap()];
        serde_json::from_str::<Value>(json).unwrap()["access_token"].as_str().unwrap().to_owned()
    }

    fn order(&self, order: &str) -> Value {
        let page = fetch(&format!("{}?do={order}", self.control), &mut BTreeMap::new());
        serde_json::from_str(&page.body).unwrap()
    }
}

impl Drop for Authorization {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Login {
    /// Starts it, and waits for the address.
    pub fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut words = vec!["login"];
        words.extend(arguments);
        let mut command = home.command(&words);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let at = said.len();
            if stdout.read_line(&mut said).unwrap() == 0 {
                let mut stderr = String::new();
                child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
                panic!("there is no address: {said}{stderr}");
            }
            if let Some(address) = said[at..].strip_prefix("  ") {
                break address.trim_end().to_owned();
            }
        };
        Self { child, stdout, said, address }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Waits for its end.
    pub fn end(mut self) -> Output {
        self.stdout.read_to_string(&mut self.said).unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        Output { code: self.child.wait().unwrap().code(), stdout: self.said, stderr }
    }
}

/// Logs in, as a user who agrees to everything.
pub fn log_in(home: &Home, arguments: &[&str]) -> Output {
    let login = Login::start(home, arguments);
    let back = agreed(&login.address);
    assert_eq!(visit(&back).status, 200);
    login.end()
}

/// Goes where the address leads, and agrees; returns the address that leads back to the program, unvisited.
pub fn agreed(address: &str) -> String {
    let (mut address, mut cookies) = (address.to_owned(), BTreeMap::new());
    for _ in 0..10 {
        let page = fetch(&address, &mut cookies);
        let location = page.headers.iter().find(|(name, _)| name == "location");
        let Some((_, location)) = location else { panic!("{address}: {} {}", page.status, page.body) };
        address = url::Url::parse(&address).unwrap().join(location).unwrap().into();
        if address.contains("/callback?") {
            return address;
        }
    }
    panic!("it leads in circles");
}

/// Gets one page.
pub fn visit(address: &str) -> Page {
    fetch(address, &mut BTreeMap::new())
}

fn fetch(address: &str, cookies: &mut BTreeMap<String, String>) -> Page {
    let url = url::Url::parse(address).unwrap();
    let mut stream = TcpStream::connect(url.socket_addrs(|| None).unwrap()[0]).unwrap();
    let sent: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let head =
        format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nCookie: {}\r\nConnection: close", sent.join("; "));
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").expect("a reply");
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    for (_, cookie) in headers.iter().filter(|(name, _)| name == "set-cookie") {
        let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
        cookies.insert(name.to_owned(), value.to_owned());
    }
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    Page { status, headers, body: if is_chunked { unchunked(body) } else { body.to_owned() } }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    whole
}
