//! Sessions of subjects of an OAuth issuer: each subject is an owner, whichever of its access tokens it sends.

use nix::sys::signal::{Signal, kill};
use serde_json::json;

use crate::on_one_engine_and_processes;
use crate::support::issuer::{Issuer, Key, now_s};
use crate::support::web::Served;
use crate::support::{Engine, Fixture, Home};

on_one_engine_and_processes!(subjects_of_an_issuer_run_code_and_see_nothing_of_each_other,);

const AUDIENCE: &str = "https://bridge.example/mcp";
const SERVER: &str = "import mcp.servers.one as one\nprint(await one.pid())";
const SEEN: &str =
    "import os\nprint('x' in globals(), os.listdir('/workspace'), dict(runtime.state), runtime.skills)";

fn subjects_of_an_issuer_run_code_and_see_nothing_of_each_other(engine: &Engine) {
    let one = Fixture::new(&[]);
    let home = Home::on(engine).server("one", one.entry());
    let key = Key::new("ES256", "good");
    let issuer = Issuer::start(&[&key]);
    let token = |subject: &str, life_s: u64| {
        let mut claims = issuer.claims(subject, AUDIENCE);
        claims["exp"] = json!(now_s() + life_s);
        key.token(&claims)
    };
    let usual = ["--oauth-issuer", &issuer.url, "--oauth-audience", AUDIENCE];
    let served = Served::start(&home, &usual);
    let (mut ada, mut eve) = (served.client(&token("ada", 300)), served.client(&token("eve", 300)));
    ada.ok("x = 1\nopen('/workspace/x', 'w').write('x')\nruntime.state['x'] = 1");
    ada.ok(
        "def twice(n: int) -> int:\n    \"\"\"Doubles a number.\"\"\"\n    return 2 * n\nsave_tool(twice)",
    );
    let of_eve = eve.ok(SEEN);
    assert!(of_eve.starts_with("False [] {}") && !of_eve.contains("twice"), "{of_eve}");
    let first_line = |reply: String| reply.lines().next().unwrap_or_default().to_owned();
    assert_ne!(first_line(ada.ok(SERVER)), first_line(eve.ok(SERVER)), "each has a process of the server");
    // The next token of the same subject finds the session, also after the bridge was killed.
    let session = ada.session.clone();
    let mut refreshed = served.coming_back(&token("ada", 600), session.clone());
    assert_eq!(refreshed.ok("print(x)"), "1");
    kill(served.pid(), Signal::SIGKILL).unwrap();
    drop(served);
    let served = Served::start(&home, &[&usual[..], &["--oauth-policy", "careful"]].concat());
    let foreign = served.coming_back(&token("eve", 600), session.clone()).send("tools/list", json!({}));
    assert_eq!(foreign.status, 404);
    let mut again = served.coming_back(&token("ada", 900), session);
    let reply = again.ok("import os\nprint(x, 'x' in os.listdir('/workspace'))");
    assert!(reply.starts_with("1 True") && reply.contains("this session goes on from "), "{reply}");
    let mut fresh = served.client(&token("ada", 600));
    let seen = fresh.ok(SEEN);
    assert!(seen.starts_with("False [] {}") && seen.contains("twice"), "a function that was saved: {seen}");
    // The policy of these sessions is the one of the option.
    let (reply, is_error) = fresh.run(json!({"code": SERVER}));
    assert!(is_error && reply.contains("profile careful"), "{reply}");
    let log = home.run(&["log"]).stdout;
    let owners: std::collections::BTreeSet<&str> =
        log.split_whitespace().filter(|word| word.starts_with("oauth-")).collect();
    assert_eq!(owners.len(), 2, "{log}");
    assert!(owners.iter().all(|owner| owner.len() == "oauth-".len() + 32), "{owners:?}");
}
