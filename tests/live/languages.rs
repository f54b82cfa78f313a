//! Other languages in the sandbox: what the image has runs there, under the same limits, and what it lacks is said.

use crate::on_every_container_engine;
use crate::support::images::with_languages;
use crate::support::{Bridge, Engine, Home};

on_every_container_engine!(
    all_seven_languages_run_in_an_image_that_has_them,
    what_does_not_parse_or_crashes_costs_the_program_only,
    a_compiled_program_is_started_though_nothing_written_can_be_executed,
    programs_have_the_limits_of_the_sandbox,
    the_usual_image_runs_what_it_has_and_names_the_command_for_the_rest,
);

/// Each echoes its argument and its input.
const ECHO: [(&str, &str); 7] = [
    ("python", r#"import sys; print(sys.argv[1], sys.stdin.read())"#),
    ("bash", r#"echo "$1" "$(cat)""#),
    ("javascript", r#"console.log(process.argv[2], require("fs").readFileSync(0, "utf8"))"#),
    (
        "c",
        r#"#include <stdio.h>
int main(int n, char **v) { char s[9]; fgets(s, 9, stdin); printf("%s %s\n", v[1], s); return 0; }"#,
    ),
    (
        "c++",
        r#"#include <iostream>
#include <string>
#include <thread>
int main(int, char **v) {
    std::string s;
    std::thread([&] { try { throw 1; } catch (int) { std::getline(std::cin, s); } }).join();
    std::cout << v[1] << ' ' << s << std::endl;
}"#,
    ),
    ("ruby", r##"puts "#{ARGV[0]} #{STDIN.read}""##),
    ("php", r#"<?php echo $argv[1], " ", stream_get_contents(STDIN), PHP_EOL;"#),
];

fn started(home: &Home) -> Bridge {
    let mut bridge = Bridge::start(home).warm();
    bridge.ok("from mcp import runtime");
    bridge
}

fn all_seven_languages_run_in_an_image_that_has_them(engine: &Engine) {
    let mut bridge = started(&with_languages(engine));
    let languages = "python, bash, javascript, c, c++, ruby, php";
    assert!(bridge.ok("runtime.packages()").ends_with(&format!("languages: {languages}")));
    for (language, code) in ECHO {
        bridge.ok(&format!("code = {code:?}"));
        let said = bridge.ok(&format!("await runtime.run({language:?}, code, stdin='in', args=['out'])"));
        assert_eq!(said, "completed (exit code 0)\nstdout:\nout in", "{language}");
    }
    assert_eq!(
        bridge.ok("import os\n[name for name in os.listdir('/tmp') if name.startswith('run-')]"),
        "[]"
    );
}

fn what_does_not_parse_or_crashes_costs_the_program_only(engine: &Engine) {
    let mut bridge = started(&with_languages(engine));
    bridge.ok("kept = 1");
    for (language, code, place) in [
        ("python", "x = 1\nx = = 2", "main.py:2:5: error: invalid syntax"),
        ("bash", "if true; then\necho", "main.sh:"),
        ("javascript", "let a = 1;\nlet b = ;", "main.js:2:9: error: Unexpected token ';'"),
        ("c", "int main() {\n  return y;\n}", "main.c:2:10: error: "),
        ("c++", "int main() {\n  return y;\n}", "main.cpp:2:10: error: "),
        ("ruby", "x = 1\ny = = 2", "main.rb:2: error: syntax error"),
        ("php", "<?php\n$x = ;", "main.php:2: error: "),
    ] {
        let said = bridge.ok(&format!(
            "r = runtime.run_sync({language:?}, {code:?})\nprint(r.status, r.exit_code != 0, r.diagnostics[0])"
        ));
        assert!(said.starts_with(&format!("failed True {place}")), "{language}: {said}");
    }
    for (code, how) in [
        ("int main() { return *(volatile int *)0; }", "crashed (SIGSEGV)"),
        ("#include <stdlib.h>\nint main() { abort(); }", "crashed (SIGABRT)"),
        ("int main() { for (;;); }", "timeout"),
        ("#include <signal.h>\nint main() { raise(SIGTERM); }", "terminated (SIGTERM)"),
    ] {
        assert_eq!(bridge.ok(&format!("runtime.run_sync('c', {code:?}, timeout=2)")), how, "{code}");
    }
    assert_eq!(bridge.ok("kept"), "1");
}

fn a_compiled_program_is_started_though_nothing_written_can_be_executed(engine: &Engine) {
    let mut bridge = started(&with_languages(engine));
    bridge.ok("import subprocess\nopen('x.c', 'w').write('int main() { return 7; }')\n\
               subprocess.run(['gcc', 'x.c', '-o', 'x'], check=True)");
    for how in ["['./x']", "['/lib64/ld-linux-x86-64.so.2', './x']"] {
        let said = bridge.ok(&format!(
            "try: print(subprocess.run({how}).returncode)\nexcept OSError as error: print(type(error).__name__)"
        ));
        assert!(!said.starts_with("7\n") && said != "7", "{how}: {said}");
    }
    // What it may ask the kernel for is what the code around it may.
    let code = "#include <errno.h>\n#include <stdio.h>\n#include <sys/socket.h>\n#include <unistd.h>\n\
                int main() { int s = socket(AF_INET, SOCK_STREAM, 0); printf(\"%d %d %d\", s, errno, (int)getuid()); }";
    let said = format!("import os\nruntime.run_sync('c', {code:?}).stdout == f'-1 1 {{os.getuid()}}'");
    assert_eq!(bridge.ok(&said), "True");
}

fn programs_have_the_limits_of_the_sandbox(engine: &Engine) {
    let mut bridge = started(&with_languages(engine).env("MCP_BRIDGE_PIDS", "40"));
    bridge.ok("kept = 1");
    let forks = "for i in $(seq 200); do sleep 30 & done; echo made";
    // Where the engine does not keep a limit, the bridge does, and ends what exceeds it.
    let reply = bridge
        .run(&format!("r = runtime.run_sync('bash', {forks:?}, timeout=5)\n(r.status, 'made' in r.stdout)"));
    let is_ended = reply.text.contains("more than its limit of 40");
    assert!(is_ended || reply.text != "('completed', True)", "{}", reply.text);
    let fills = "#include <stdlib.h>\n#include <string.h>\n\
                 int main() { for (;;) { char *p = malloc(1 << 20); if (!p) return 9; memset(p, 1, 1 << 20); } }";
    bridge.ok("from mcp import runtime");
    let reply = bridge
        .run(&format!("r = runtime.run_sync('c', {fills:?}, timeout=20)\n(r.status, r.exit_code, r.signal)"));
    let outcomes =
        ["('failed', 9, None)", "('terminated', None, 'SIGKILL')", "more than its limit of 512 MiB"];
    assert!(outcomes.iter().any(|outcome| reply.text.contains(outcome)), "{}", reply.text);
    assert_eq!(bridge.ok("kept"), "1");
}

fn the_usual_image_runs_what_it_has_and_names_the_command_for_the_rest(engine: &Engine) {
    let mut bridge = started(&Home::on(engine));
    for (language, code) in &ECHO[..2] {
        let said =
            bridge.ok(&format!("(await runtime.run({language:?}, {code:?}, 'in', args=['out'])).stdout"));
        assert_eq!(said, "'out in\\n'", "{language}");
    }
    for (language, _) in &ECHO[2..] {
        let reply = bridge.run(&format!("await runtime.run({language:?}, '')"));
        let says = format!(
            "RuntimeError: {language} is not in this sandbox's image, which has python, bash; \
             the user adds it with `belljar image build --with-languages {language} --use`, or without a \
             container engine by installing it"
        );
        assert!(reply.is_error && reply.text.contains(&says), "{}", reply.text);
    }
}
