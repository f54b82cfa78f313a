//! A bridge that a relay and a client over HTTP share: both do random deeds at once, and the bridge may be killed meanwhile.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::rc::Rc;

use nix::sys::signal::{Signal, kill};

use crate::deeds::{self, Runs};
use crate::history::Entry;
use crate::link::Link;
use crate::session::{End, Log, Past, Session, gone};
use crate::support::random::Random;
use crate::support::survivors::marking;
use crate::support::web::Served;
use crate::support::{Bridge, Engine, Fixture, Home};

/// Numbers of sessions count on from `number`.
pub fn passing(
    engine: &Engine,
    number: &mut usize,
    log: &Log,
    random: &mut Random,
    runs: &mut Runs,
) -> Vec<Past> {
    let fixture = Rc::new(Fixture::new(&["--durable"]));
    let home = marking(Home::on(engine).server("ledger", fixture.entry()));
    let token = home.run(&["token", "add", "web", "--quiet"]).stdout.trim().to_owned();
    let of_relay = home.clone().env("MCP_BRIDGE_SHARED", "1");
    let (served, mut again) = (Served::start(&home, &[]), OnceCell::new());
    let mut session = |link| {
        *number += 1;
        Session::over(engine, &home, &fixture, link, *number, log)
    };
    let mut relay = session(Link::Stdio(Bridge::start(&of_relay)));
    let mut web = session(Link::web(&served, &token));
    let mut pasts = vec![];
    let mut owners = vec![];
    act(&mut relay, &mut web, random, runs);
    owners.extend(home.owners());
    if random.below(3) > 0 {
        kill(served.pid(), Signal::SIGKILL).expect("the program is there");
        pasts.push(relay.close(End::HangUp));
        web.go_on_with(again.get_or_init(|| Served::start(&home, &[])));
        relay = session(Link::Stdio(Bridge::start(&of_relay)));
        act(&mut relay, &mut web, random, runs);
        owners.extend(home.owners());
    }
    pasts.push(relay.close(random.of(&[End::HangUp, End::Terminate, End::Kill])));
    let mut web = web.close(End::HangUp);
    drop((served, again.take()));
    web.survivors.extend(gone(engine, &home, &fixture, &owners));
    pasts.push(web);
    // Each session has its calls, and the last one those of nobody, which are a violation.
    let mut calls = Entry::all(&fixture.ledger());
    for past in pasts.iter_mut().rev().skip(1) {
        let runs: HashSet<u64> = past.history.runs().collect();
        let (own, others) = calls.into_iter().partition(|call| runs.contains(&call.run()));
        past.take_calls(own, engine, log);
        calls = others;
    }
    pasts.last_mut().expect("there is one").take_calls(calls, engine, log);
    pasts
}

/// Each does something while the other does; at the end either may have something under way.
fn act<'s>(relay: &mut Session<'s>, web: &mut Session<'s>, random: &mut Random, runs: &mut Runs) {
    for _ in 0..2 + random.below(6) {
        let (one, other) =
            if random.below(2) == 0 { (&mut *relay, &mut *web) } else { (&mut *web, &mut *relay) };
        if random.below(2) == 0 {
            deeds::begin(other, random, runs);
        }
        if !one.is_stuck && !other.is_stuck {
            deeds::step(one, random, runs);
        }
    }
}
