//! Servers that repeat their credential in a spelling that JSON allows, to code that asks for it.
//!
//! The `fixture` answers with the bytes that it is given, so the probe itself names the credential. It does the same with a
//! value that is none and has to come back whole, which is the control.

use super::probe::Probe;
use super::probe::WithoutDefence::Itself;

const REPLACED: &[&str] = &["[TOKEN]", "the control is whole"];
/// What `session.rs` has in the environment of the servers, without the part that the probes write as an escape.
const NEVER: &[&str] = &["4711081547110815"];

/// A probe whose code defines `result`: the JSON of a result that holds a text.
const fn probe(name: &'static str, tries: &'static str, code: &'static str) -> Probe {
    Probe::says(name, tries, REPLACED, code).never(NEVER).calls(2).without_defence(Itself)
}

pub const PROBES: &[Probe] = &[
    probe(
        "secrets.escaped-sign",
        "read a credential with an escaped hyphen",
        r#"
result = r'{"content":[{"type":"text","text":"canary\u002D471108154711081%d"}]}'
print(await mcp_fixture.odd(result=result % 5))
assert await mcp_fixture.odd(result=result % 6) == 'canary-471108154711081' + '6'
print('the control is whole')
"#,
    ),
    probe(
        "secrets.escaped-letters",
        "read a credential of which each character is an escape",
        r#"
def result(text):
    return '{"content":[{"type":"text","text":"%s"}]}' % ''.join(r'\u%04x' % ord(c) for c in text)
print(await mcp_fixture.odd(result=result('canary-471108154711081%d' % 5)))
assert await mcp_fixture.odd(result=result('canary-471108154711081%d' % 6)) == 'canary-471108154711081' + '6'
print('the control is whole')
"#,
    ),
    probe(
        "secrets.escaped-key",
        "read a credential that is an escaped key of a structured result",
        r#"
result = r'{"content":[],"structuredContent":{"canary\u002d471108154711081%d":1}}'
print(list(await mcp_fixture.odd(result=result % 5)))
assert list(await mcp_fixture.odd(result=result % 6)) == ['canary-471108154711081' + '6']
print('the control is whole')
"#,
    ),
    probe(
        "secrets.nested",
        "read a credential that is escaped in JSON within a text",
        r#"
import json
result = r'{"content":[{"type":"text","text":"{\"key\":\"canary\\u002d471108154711081%d\"} "}]}'
def key(of):
    return (json.loads(of) if isinstance(of, str) else of)['key']
print(key(await mcp_fixture.odd(result=result % 5)))
assert key(await mcp_fixture.odd(result=result % 6)) == 'canary-471108154711081' + '6'
print('the control is whole')
"#,
    ),
    probe(
        "secrets.escaped-error",
        "read a credential in an error that a tool reports",
        r#"
result = r'{"content":[{"type":"text","text":"no \u0063anary\u002d471108154711081%d"}],"isError":true}'
async def error(number):
    try:
        return await mcp_fixture.odd(result=result % number)
    except Exception as error:
        return str(error)
print(await error(5))
assert 'canary-471108154711081' + '6' in await error(6)
print('the control is whole')
"#,
    ),
];
