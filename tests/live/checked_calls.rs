//! Calls that cannot succeed: they do not reach the server, and what stands in code is refused before any of it runs.

use serde_json::json;

use crate::on_one_engine_and_processes;
use crate::support::{Bridge, Engine, Fixture, Home};

on_one_engine_and_processes!(
    wrong_arguments_do_not_reach_the_server_and_are_all_told,
    wrong_calls_in_code_are_told_together_before_any_of_it_runs,
    a_check_starts_no_server_and_keeps_to_those_of_the_run,
);

const SIGNATURE: &str = "create_issue(*, owner: str, repo: str, labels: list[str] = ..., \
                         state: Literal['open','closed'] = 'open', limit: int = ..., body: str = None)";

fn wrong_arguments_do_not_reach_the_server_and_are_all_told(engine: &Engine) {
    let fixture = Fixture::new(&["--typed"]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    let code = "wrong = {'owner': 'x', 'rep': 'y', 'labels': ['a', 1], 'state': 'opened', 'limit': '10'}\n\
                try:\n  await mcp_fixture.create_issue(**wrong)\nexcept TypeError as error:\n  print(error)";
    let told = format!(
        "nothing was sent to fixture.create_issue, 5 problems:\n\
         - unknown parameter 'rep'; did you mean 'repo'?\n\
         - missing parameter 'repo': str\n\
         - labels[1]: expected str, got int 1\n\
         - state: expected 'open' or 'closed', got str 'opened'; did you mean 'open'?\n\
         - limit: expected int, got str '10'; text is not converted\n\
         signature: {SIGNATURE}"
    );
    assert_eq!(bridge.ok(code), told);
    let reply = bridge
        .run("wrong = {'owner': 'x', 'repo': 'y', 'limit': 0}\nawait mcp_fixture.create_issue(**wrong)");
    let told = format!(
        "mcp.runtime.InvalidCallError: nothing was sent to fixture.create_issue: limit: expected >= 1, got int 0\n\
         signature: {SIGNATURE}\nstate: variables kept\ncalls made: fixture.create_issue 1 not sent"
    );
    assert!(reply.is_error && reply.text.ends_with(&told), "{}", reply.text);
    assert_eq!(fixture.ledger(), [""; 0]);
    let right = "right = {'owner': 'x', 'repo': 'y', 'labels': [], 'body': None}\nawait mcp_fixture.create_issue(**right)";
    assert_eq!(bridge.ok(right), "'create_issue was called'");
    assert_eq!(fixture.ledger(), [r#"call create_issue {"owner":"x","repo":"y","labels":[],"body":null}"#]);
}

fn wrong_calls_in_code_are_told_together_before_any_of_it_runs(engine: &Engine) {
    let fixture = Fixture::new(&["--typed"]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    bridge.ok("x = await mcp_fixture.peak()");
    let code = "print('begun')\n\
                await mcp_fixture.echo(text='done before')\n\
                for n in range(3):\n  await mcp_fixture.create_isue(owner='x')\n\
                x = mcp_fixture.create_issue.sync(owner='x', rep='y')\n\
                await runtime.call_tool('fixtur', 'echo', {'text': 'x'})\n\
                mcp_fixture.add.sync(1, 2)";
    let told = format!(
        "status: error\nexit: 1\n\
         mcp.runtime.InvalidCallError: nothing was run, since 4 calls in the code cannot succeed:\n\
         line 4: await mcp_fixture.create_isue(owner='x')\n  \
           Tool 'create_isue' not found for server fixture; did you mean 'create_issue'?\n  \
           signature: {SIGNATURE}\n\
         line 5: x = mcp_fixture.create_issue.sync(owner='x', rep='y')\n  \
           fixture.create_issue, 2 problems:\n  \
           - unknown parameter 'rep'; did you mean 'repo'?\n  \
           - missing parameter 'repo': str\n\
         line 6: await runtime.call_tool('fixtur', 'echo', {{'text': 'x'}})\n  \
           Server 'fixtur' is not available\n  \
           did you mean 'fixture'? Available in this run: fixture\n\
         line 7: mcp_fixture.add.sync(1, 2)\n  \
           fixture.add: arguments are given by name only\n  \
           signature: add(*, a: float, b: float)\n\
         (A tool that an earlier line adds: call it in a later run, or in a `try`.)\n\
         state: variables kept"
    );
    let reply = bridge.run(code);
    assert_eq!(reply.text, told);
    assert!(reply.is_error);
    assert_eq!(bridge.ok("x"), "'0'");
    assert_eq!(fixture.ledger(), ["call peak {}"]);
    // One that the code expects is tried.
    let tried = "try:\n  mcp_fixture.create_isue.sync()\nexcept Exception as error:\n  print(error.code)";
    assert_eq!(bridge.ok(tried), "unknown_tool");
    // A tool that is there only once another has been called.
    assert_eq!(
        bridge.ok("await mcp_fixture.change_list()\nawait mcp_fixture.late()"),
        "'late was called'\nnote: server fixture has changed its tools (added: late)"
    );
}

fn a_check_starts_no_server_and_keeps_to_those_of_the_run(engine: &Engine) {
    let (given, other) = (Fixture::new(&[]), Fixture::new(&[]));
    let home = Home::on(engine).server("given", given.entry()).server("other", other.entry());
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("if False:\n  mcp_given.nonsense.sync()\n  mcp_other.echo.sync(nonsense=1)");
    assert_eq!((given.pids(), other.pids()), (vec![], vec![]));
    let mut only_given = |code: &str| bridge.run_with(json!({"code": code, "servers": ["given"]}));
    let refused = only_given("print('begun')\nmcp_other.echo.sync(text='x')");
    assert!(refused.is_error && !refused.text.contains("begun"), "{}", refused.text);
    assert!(
        refused.text.contains("line 2: mcp_other.echo.sync(text='x')\n  Server 'other' is not available"),
        "{}",
        refused.text
    );
    let asked = only_given("if 'other' in mcp_servers:\n  mcp_other.echo.sync(text='x')\n'went on'");
    assert_eq!(asked.text, "'went on'");
    assert_eq!((given.pids(), other.pids()), (vec![], vec![]));
}
