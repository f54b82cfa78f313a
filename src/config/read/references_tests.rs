//! Claims about references: what is replaced, what is refused and how, and what is remembered of it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn substitute(
        &self,
        value: &str,
        commands: Commands<'_>,
    ) -> (Result<Option<String>, Unresolved>, ResolvedReferences) {
        let environment = Environment {
            variables: [("KEY", "v1"), ("HOME", "/home/ada")]
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
            home: Some(self.0.path().to_owned()),
            uid: nix::unistd::geteuid().as_raw(),
            cwd: None,
            executable: None,
            owner: None,
        };
        let limits = Limits { reference_bytes_max: 10, ..Limits::default() };
        let sources = Sources {
            environment: &environment,
            limits: &limits,
            files: Files::Read,
            commands,
            private: &PrivatePlaces::default(),
        };
        let mut resolved = ResolvedReferences::default();
        (sources.substitute(value, Some(self.0.path()), &mut resolved), resolved)
    }

    fn refusal(&self, value: &str) -> String {
        let Unresolved { message, hint } = self.substitute(value, Commands::Refused).0.unwrap_err();
        format!("{message}; {hint}").replace(self.0.path().to_str().unwrap(), "~")
    }
}

fn folder() -> Folder {
    Folder(tempfile::tempdir().unwrap())
}

#[test]
fn references_are_replaced_and_everything_else_stays() {
    let (replaced, resolved) =
        folder().substitute("a ${KEY} ${env:KEY}${NONE:-d e} $KEY $${KEY} $ ${HOME}", Commands::Refused);
    assert_eq!(replaced.unwrap().unwrap(), "a v1 v1d e $KEY ${KEY} $ /home/ada");
    let known = ("KEY".to_owned(), "v1".to_owned());
    assert_eq!(
        resolved.values,
        [known.clone(), known],
        "a default stands in the file, and a home is no secret"
    );
}

#[test]
fn a_reference_to_nothing_is_refused_by_name() {
    let refusal = |value: &str| folder().refusal(value).replace("; write $${ for a literal ${", "");
    assert_eq!(refusal("${NONE}"), "refers to ${NONE}, which is not set");
    assert_eq!(refusal("${input:token}"), "refers to ${input:…}, which is no environment variable");
    assert_eq!(refusal("${env:none}"), "refers to ${env:none}, which is not set");
    for password in ["${hunter2}", "x${Pa55word}", "${p@ss word}", "${p:word}"] {
        assert!(refusal(password).starts_with("refers to a ${…}, which is "), "{}", refusal(password));
    }
    assert_eq!(refusal("${KEY"), "has \"${\" without its \"}\"");
}

#[test]
fn a_file_is_read_whole_without_one_line_end_and_remembered() {
    let folder = folder();
    for (name, text) in [("a", "t0ken\n"), ("b", "two\r\n"), ("c", "x\n\n"), ("d", "")] {
        fs::write(folder.0.path().join(name), text).unwrap();
    }
    let absolute = folder.0.path().join("b").display().to_string();
    let value = format!("<${{file:a}}> <${{file:{absolute}}}> <${{file:~/c}}> <${{file:./d}}>");
    let (replaced, resolved) = folder.substitute(&value, Commands::Refused);
    assert_eq!(replaced.unwrap().unwrap(), "<t0ken> <two> <x\n> <>");
    let values: Vec<&str> = resolved.values.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["t0ken", "two", "x\n", ""]);
    assert_eq!(resolved.files[0], (folder.0.path().join("a"), file::fingerprint(&folder.0.path().join("a"))));
}

#[test]
fn a_file_that_is_none_or_nobody_s_own_is_refused_without_its_text() {
    let folder = folder();
    let path = |name: &str| folder.0.path().join(name);
    fs::write(path("large"), "s3cret-text").unwrap();
    fs::write(path("latin"), b"\xe9").unwrap();
    fs::write(path("open"), "s3cret").unwrap();
    fs::set_permissions(path("open"), fs::Permissions::from_mode(0o666)).unwrap();
    fs::create_dir(path("folder")).unwrap();
    nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (name, said) in [
        ("none", "does not exist"),
        ("large", "is larger than the 10 bytes allowed"),
        ("latin", "is not UTF-8"),
        ("open", "other users may write to this file, so what it says is not trusted"),
        ("folder", "is a folder, not a file"),
        ("pipe", "is a pipe, not a file"),
        ("/dev/zero", "is a device, not a file"),
        (" ", "names no file"),
    ] {
        let hint = "a relative path is taken from this file's folder";
        let refusal = format!("refers to ${{file:{name}}}, which {said}; {hint}");
        assert_eq!(folder.refusal(&format!("${{file:{name}}}")), refusal);
    }
}

#[test]
fn a_command_is_refused_noted_or_replaced_by_what_it_has_printed() {
    let folder = folder();
    assert_eq!(
        folder.refusal("${cmd:pass show s3cret}"),
        "refers to ${cmd:pass …}, and commands are not run; the user may set policy.allow_cmd = true in the own \
         config.toml, or MCP_BRIDGE_ALLOW_CMD=1"
    );
    let (replaced, resolved) =
        folder.substitute("Bearer ${cmd:pass 'a b' \"\"x} ${cmd:pass 'a b' \"\"x}", Commands::Later);
    assert_eq!(replaced, Ok(None));
    let [CommandLine { written, words, folder: ran_in }] = resolved.commands.as_slice() else {
        panic!("one command")
    };
    assert_eq!(
        (written.as_str(), words.as_slice()),
        ("pass 'a b' \"\"x", &["pass", "a b", "x"].map(String::from)[..])
    );
    assert_eq!(ran_in.as_deref(), Some(folder.0.path()));
    for (written, program) in [("./get-token", "./get-token"), ("~/bin/get-token", "bin/get-token")] {
        let commands = folder.substitute(&format!("${{cmd:{written} a/b}}"), Commands::Later).1.commands;
        let program = folder.0.path().join(program).to_str().unwrap().to_owned();
        assert_eq!(commands[0].words, [program, "a/b".to_owned()]);
    }
    let printed = BTreeMap::from([("pass x".to_owned(), "t0ken\n".to_owned())]);
    let (replaced, resolved) = folder.substitute("Bearer ${cmd:pass x}", Commands::Ran(&printed));
    assert_eq!(replaced.unwrap().unwrap(), "Bearer t0ken");
    assert_eq!(resolved.values, [("cmd".to_owned(), "t0ken".to_owned())]);
    for broken in ["${cmd:}", "${cmd: }", "${cmd:pass 'a}", "${cmd:'' a}"] {
        let refusal = folder.refusal(broken);
        assert!(refusal.starts_with("refers to a ${cmd:…} without a program, or with a quote"), "{refusal}");
    }
}

#[test]
fn where_nothing_may_be_opened_no_file_is() {
    let folder = folder();
    fs::write(folder.0.path().join("a"), "x").unwrap();
    let environment = Environment {
        variables: BTreeMap::new(),
        home: None,
        uid: nix::unistd::geteuid().as_raw(),
        cwd: None,
        executable: None,
        owner: None,
    };
    let limits = Limits::default();
    let sources = Sources {
        environment: &environment,
        limits: &limits,
        files: Files::Closed,
        commands: Commands::Refused,
        private: &PrivatePlaces::default(),
    };
    let mut resolved = ResolvedReferences::default();
    let refused = sources.substitute("${file:a}", Some(folder.0.path()), &mut resolved).unwrap_err();
    assert_eq!(refused.message, "refers to ${file:a}, which is not opened here");
    assert!(resolved.files.is_empty() && resolved.values.is_empty());
}

#[test]
fn a_referred_value_is_a_secret_unless_it_says_where_something_is() {
    let folder = folder();
    let path = folder.0.path().to_str().unwrap();
    let noted = |value: &str| {
        let environment = Environment {
            variables: BTreeMap::from([("V".into(), value.into())]),
            home: None,
            uid: 0,
            cwd: None,
            executable: None,
            owner: None,
        };
        let (limits, files, commands) = (Limits::default(), Files::Read, Commands::Refused);
        let sources = Sources {
            environment: &environment,
            limits: &limits,
            files,
            commands,
            private: &PrivatePlaces::default(),
        };
        let mut resolved = ResolvedReferences::default();
        assert_eq!(sources.substitute("${V}", None, &mut resolved).unwrap().unwrap(), value);
        resolved.values
    };
    assert_eq!(noted(path), []);
    assert_eq!(noted("https://x.example/api"), []);
    assert_eq!(noted("hunter22"), [("V".to_owned(), "hunter22".to_owned())]);
    assert_eq!(noted("/no/such/path").len(), 1);
}

#[test]
fn an_address_is_shown_with_the_references_in_its_host() {
    for (url, shown) in [
        ("https://${HOST:-x.test}:${PORT}/mcp?k=${K}", Some("https://${HOST}:${PORT}")),
        ("${BASE}/mcp", Some("${BASE}")),
        ("https://x.test/${PATH}", None),
        ("https://x.test", None),
    ] {
        assert_eq!(written_origin(url).as_deref(), shown, "{url}");
    }
}

#[test]
fn a_reference_within_a_reference_is_refused() {
    let refusal = folder().refusal("${A:-${KEY}}");
    assert_eq!(
        refusal,
        "has a reference within a reference, which belljar does not know; write $${ for a literal ${"
    );
}

#[test]
fn variables_are_found_wherever_a_value_refers_to_them() {
    let found = |value: &str| {
        let mut variables = BTreeSet::new();
        variables_in(value, &mut variables);
        variables.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found("${A}-${env:b}:${C:-x} $D ${file:E} ${cmd:f $G} $${H} ${I J} ${K"), "A C b");
    assert_eq!(found("$${${L}}"), "L");
}
