"""`runtime.run`: other languages as processes of their own, bounded, ended with their groups, told in full."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator

import pytest

from sandbox import DEADLINE_SECONDS, Sandbox

IMPORT = "from mcp import runtime\n"
needs = {
    name: pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name} here")
    for name in ("gcc", "g++", "node", "ruby", "php")
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as started:
        started.run(IMPORT)
        yield started


def value(sandbox: Sandbox, code: str) -> str:
    done = sandbox.run(code)
    assert done["outcome"] == "finished", done
    assert isinstance(done["value"], str)
    return done["value"]


HELLO = [
    ("python", "import sys\nprint('hello', sys.argv[1], sys.stdin.read())"),
    ("bash", 'echo hello "$1" "$(cat)"'),
    pytest.param(
        "javascript",
        "console.log('hello', process.argv[2], require('fs').readFileSync(0, 'utf8'))",
        marks=needs["node"],
    ),
    pytest.param(
        "c",
        "#include <stdio.h>\nint main(int n, char **v) {"
        ' char s[9] = ""; fgets(s, 9, stdin); printf("hello %s %s\\n", v[1], s); }',
        marks=needs["gcc"],
    ),
    pytest.param(
        "c++",
        "#include <iostream>\n#include <string>\nint main(int, char **v) { std::string s; std::getline(std::cin, s);"
        " try { throw 1; } catch (int) { std::cout << \"hello \" << v[1] << ' ' << s << std::endl; } }",
        marks=needs["g++"],
    ),
    pytest.param("ruby", 'puts "hello #{ARGV[0]} #{STDIN.read}"', marks=needs["ruby"]),
    pytest.param("php", "<?php echo 'hello ', $argv[1], ' ', stream_get_contents(STDIN), PHP_EOL;", marks=needs["php"]),
]


@pytest.mark.parametrize(("language", "code"), HELLO)
def test_a_program_has_its_arguments_and_its_input(sandbox: Sandbox, language: str, code: str) -> None:
    call = f"({language!r}, {code!r}, stdin='in', args=['a b'])"
    assert value(sandbox, f"await runtime.run{call}") == "completed (exit code 0)\nstdout:\nhello a b in"
    assert value(
        sandbox, f"r = runtime.run_sync{call}\n(r.status, r.exit_code, r.signal, r.stdout, r.diagnostics)"
    ) == ("('completed', 0, None, 'hello a b in\\n', [])")


@pytest.mark.parametrize(
    ("language", "code", "said"),
    [
        ("python", "import sys\nsys.exit(3)", "failed (exit code 3)"),
        ("bash", "echo out; echo err >&2; exit 4", "failed (exit code 4)\nstdout:\nout\nstderr:\nerr"),
        ("python", "import os\nos.abort()", "crashed (SIGABRT)"),
        ("bash", "kill -TERM $$", "terminated (SIGTERM)"),
        ("bash", "echo before; sleep 60", "timeout\nstdout:\nbefore"),
        pytest.param("c", "int main() { return *(volatile int *)0; }", "crashed (SIGSEGV)", marks=needs["gcc"]),
        pytest.param(
            "c",
            "int f(int n) { volatile char x[64]; x[n % 64] = 1; return f(n + 1) + x[0]; } int main() { return f(0); }",
            "crashed (SIGSEGV)",
            marks=needs["gcc"],
        ),
        pytest.param("c", "int main() { for (;;); }", "timeout", marks=needs["gcc"]),
    ],
)
def test_how_a_program_ended_is_told(sandbox: Sandbox, language: str, code: str, said: str) -> None:
    assert value(sandbox, f"runtime.run_sync({language!r}, {code!r}, timeout=1.5)").startswith(said)


@pytest.mark.parametrize(
    ("language", "code", "said"),
    [
        ("python", "x = 1\n  y = 2", "main.py:2:None"),
        ("python", "if x:\n    return return", "main.py:2:12"),
        ("bash", "if true\necho x", "main.sh:"),
        pytest.param("javascript", "let a = 1;\n  let b = ;", "main.js:2:11", marks=needs["node"]),
        pytest.param("c", "int main() {\n  int x = y;\n  return 0;\n}", "main.c:2:11", marks=needs["gcc"]),
        pytest.param("c++", "int main() {\n  return zzz;\n}", "main.cpp:2:10", marks=needs["g++"]),
        pytest.param("c", "void missing();\nint main() { missing(); }", "main.c:None", marks=needs["gcc"]),
        pytest.param("ruby", "x = 1\ndef f(\n", "main.rb:", marks=needs["ruby"]),
        pytest.param("php", "<?php\n$x = ;\n", "main.php:2", marks=needs["php"]),
    ],
)
def test_what_does_not_parse_is_told_with_its_place(sandbox: Sandbox, language: str, code: str, said: str) -> None:
    call = f"r = runtime.run_sync({language!r}, {code!r})\n"
    found = value(
        sandbox,
        call
        + "d = r.diagnostics[0]\nprint(r.stderr)\nf'{r.status} {d.severity} {d.file}:{d.line}:{d.column} {d.message}'",
    )
    assert found[1:].startswith(f"failed error {said}"), found
    assert value(sandbox, "r.stderr and '/tmp/' in repr(d)") == "False"


@needs["gcc"]
def test_warnings_of_what_compiles_are_told(sandbox: Sandbox) -> None:
    code = "int main() { int unused; return 0; }"
    said = value(sandbox, f"runtime.run_sync('c', {code!r})")
    assert said.startswith("completed (exit code 0)\ndiagnostics:\nmain.c:1:18: warning: unused variable"), said


def test_a_line_that_redraws_itself_shows_its_last_state(sandbox: Sandbox) -> None:
    code = "print('1%\\r50%\\r99%\\nend')"
    said = value(sandbox, f"r = runtime.run_sync('python', {code!r})\nr")
    assert said == "completed (exit code 0)\nstdout:\n99%\nend"
    assert value(sandbox, "r.stdout") == repr("1%\r50%\r99%\nend\n")


def test_files_lie_beside_the_code_and_nothing_stays(sandbox: Sandbox) -> None:
    files = "{'helper.py': 'X = 7', 'data/in.bin': b'\\xff'}"
    code = "import os, helper\nprint(helper.X, open('data/in.bin', 'rb').read(), os.getcwd())\nopen('out', 'w').close()"
    said = value(sandbox, f"r = runtime.run_sync('python', {code!r}, files={files})\nr.stdout")
    assert said.startswith("\"7 b'\\\\xff' /tmp/run-"), said
    assert value(sandbox, "import os\nos.path.exists(r.stdout.split()[-1])") == "False"


@needs["gcc"]
def test_sources_that_are_given_are_compiled_with_the_code(sandbox: Sandbox) -> None:
    files = {"lib/twice.c": '#include "twice.h"\nint twice(int x) { return 2 * x; }', "lib/twice.h": "int twice(int);"}
    code = (
        '#include <math.h>\n#include <stdio.h>\n#include "lib/twice.h"\n'
        'int main(int n, char **v) { printf("%d %.0f", twice(21), sqrt(n * 81)); }'
    )
    assert value(sandbox, f"runtime.run_sync('c', {code!r}, files={files!r}).stdout") == "'42 9'"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            "'pyton', ''",
            "ValueError: runtime.run knows no language 'pyton'; did you mean 'python'? it runs python, bash",
        ),
        ("'cobol', ''", "ValueError: runtime.run knows no language 'cobol'; "),
        ("5, ''", "TypeError: the language is a str, not int"),
        ("'bash', b''", "TypeError: the code is a str, not bytes"),
        ("'bash', '', files={'../x': ''}", "ValueError: '../x' is no name of a file beside the code"),
        ("'bash', '', files={'/etc/x': ''}", "ValueError: '/etc/x' is no name"),
        ("'bash', '', files={'a//b': ''}", "ValueError: 'a//b' is no name"),
        ("'bash', '', files={'-o': ''}", "ValueError: '-o' is no name"),
        ("'bash', '', files={'main.sh': ''}", "ValueError: 'main.sh' is the name of the code's own file"),
        ("'bash', '', files={'x': 5}", "TypeError: file 'x' is a str or bytes, not int"),
        ("'bash', '', stdin=5", "TypeError: stdin is a str or bytes, not int"),
        ("'bash', '', args='-l'", "TypeError: args is a list of arguments, not one text"),
        ("'bash', '', args=['a\\0b']", "ValueError: an argument holds no null character"),
        ("'bash', '', timeout=0", "ValueError: timeout is more than 0"),
        ("'bash', '', timeout=float('nan')", "ValueError: timeout is more than 0"),
        ("'bash', '', timeout='1'", "TypeError: timeout is seconds, not str"),
    ],
)
def test_what_cannot_be_run_is_said(sandbox: Sandbox, call: str, error: str) -> None:
    done = sandbox.run(f"await runtime.run({call})")
    assert done["error"]["traceback"].splitlines()[-1].startswith(error), done["error"]["traceback"]


def test_a_language_that_is_not_there_is_answered_with_the_command_that_adds_it() -> None:
    with Sandbox() as sandbox:
        sandbox.run(f"{IMPORT}import os\nos.environ['PATH'] = '/nowhere'")
        said = sandbox.run("runtime.run_sync('ruby', '')")["error"]["traceback"].splitlines()[-1]
    assert said == (
        "RuntimeError: ruby is not in this sandbox's image, which has python; "
        "the user adds it with `belljar image build --with-languages ruby --use`, "
        "or without a container engine by installing it"
    )


def test_of_much_output_the_beginning_and_the_end_are_kept(sandbox: Sandbox) -> None:
    code = "import sys\nfor out in (sys.stdout, sys.stderr): out.write('begin' + 'x' * 3_000_000 + 'end')"
    call = f"r = runtime.run_sync('python', {code!r})\n"
    ends = "('begin', 'end', 524316)"
    assert value(sandbox, f"{call}[(t[:5], t[-3:], len(t)) for t in (r.stdout, r.stderr)]") == f"[{ends}, {ends}]"
    assert value(sandbox, "'\\n[2,475,720 bytes left out]\\n' in r.stdout") == "True"


def test_much_input_that_nobody_reads_does_not_hold_it_up(sandbox: Sandbox) -> None:
    assert (
        value(sandbox, "runtime.run_sync('bash', 'exec 0<&-; echo done', stdin=b'x' * 5_000_000).stdout") == "'done\\n'"
    )
    assert value(sandbox, "runtime.run_sync('bash', 'wc -c', stdin=b'x' * 5_000_000).stdout") == "'5000000\\n'"


def wait_until_gone(mark: str) -> None:
    """A killed process is not gone at once."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while processes_with(mark):
        assert time.monotonic() < deadline, processes_with(mark)


def processes_with(mark: str) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if mark.encode() in file.read():
                    found.append(pid)
        except OSError:
            pass
    return found


@pytest.mark.parametrize("how", ["timeout=0.5", "timeout=60"])
def test_no_process_of_its_group_is_left(sandbox: Sandbox, how: str) -> None:
    mark = f"7{os.getpid()}.{len(how)}"
    ending = "sleep 60" if how == "timeout=0.5" else "exit 0"
    code = f"sleep {mark} & (sleep {mark} &) ; echo started; {ending}"
    said = value(sandbox, f"runtime.run_sync('bash', {code!r}, {how})")
    assert said == ("timeout" if "0.5" in how else "completed (exit code 0)") + "\nstdout:\nstarted"
    wait_until_gone(mark)


@pytest.mark.parametrize("call", ["runtime.run_sync", "await runtime.run"])
def test_an_interrupted_run_ends_its_program(sandbox: Sandbox, call: str) -> None:
    mark = f"8{os.getpid()}.{len(call)}"
    run = sandbox.start(f"print('go', flush=True)\n{call}('bash', 'echo x; sleep {mark}', timeout=60)")
    sandbox.wait_output("go")
    while not processes_with(mark):
        pass
    sandbox.interrupt()
    assert sandbox.finish(run)["outcome"] == "interrupted"
    wait_until_gone(mark)


def test_several_run_at_once(sandbox: Sandbox) -> None:
    # Each waits for the others' files: one after the other they would wait for ever.
    code = "touch /tmp/$2.$1; until [ -e /tmp/$2.1 ] && [ -e /tmp/$2.2 ]; do sleep 0.01; done; echo $1; "
    mark = f"together-{os.getpid()}"
    runs = f"(runtime.run('bash', {code!r}, args=[n, {mark!r}]) for n in (1, 2))"
    call = f"[r.stdout for r in await asyncio.gather(*{runs})]"
    try:
        assert value(sandbox, call) == "['1\\n', '2\\n']"
    finally:
        for n in (1, 2):
            os.unlink(f"/tmp/{mark}.{n}")
