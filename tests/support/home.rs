//! A user's home for one test: configuration, runtime folder and environment, none of them the real ones.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use serde_json::{Value, json};

use super::{Engine, program};

/// Variables by which whoever runs the tests chooses what they run in, and the settings that they become.
const FROM_TESTER: [(&str, &str); 3] = [
    ("BELLJAR_TEST_IMAGE", "MCP_BRIDGE_IMAGE"),
    ("BELLJAR_TEST_OCI_RUNTIME", "MCP_BRIDGE_OCI_RUNTIME"),
    ("BELLJAR_TEST_ALLOW_WEAK", "MCP_BRIDGE_ALLOW_WEAK"),
];

/// Stand-ins for the programs that open a browser.
const OPENERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/openers");

/// The folder and the environment that the program is started with.
#[derive(Clone)]
pub struct Home {
    dir: Rc<tempfile::TempDir>,
    variables: BTreeMap<String, String>,
    servers: BTreeMap<String, Value>,
    /// The program and arguments that start ours, and run before it.
    launcher: Vec<String>,
}

impl Home {
    /// Without servers, and with no engine to be found anywhere.
    pub fn new() -> Self {
        // What tests write is the user's alone, as belljar requires, whatever the umask of the machine is.
        nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
        // Users have homes with a blank in the name, so each test has one.
        let dir = tempfile::Builder::new().prefix("belljar test-").tempdir().unwrap();
        for name in ["MCPs", "run"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::fs::set_permissions(dir.path().join("run"), PermissionsExt::from_mode(0o700)).unwrap();
        let home = Self {
            dir: Rc::new(dir),
            variables: BTreeMap::new(),
            servers: BTreeMap::new(),
            launcher: vec![],
        };
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let (run, socket) = (text(home.path().join("run")), text(home.path().join("no-engine.sock")));
        let own = text(home.path().to_owned());
        home.env("HOME", &own)
            .env("XDG_RUNTIME_DIR", &run)
            .env("PATH", &std::env::var("PATH").unwrap())
            .env("MCP_BRIDGE_RUNTIME", &format!("unix://{socket}"))
    }

    /// With this engine, and the sandbox started by the first run, not before.
    /// With the usual image, or `BELLJAR_TEST_IMAGE`.
    pub fn on(engine: &Engine) -> Self {
        let home = Self::new().env("MCP_BRIDGE_RUNTIME", engine.address()).env("MCP_BRIDGE_PREWARM", "0");
        if engine.is_process() {
            home.share_environments(&super::environments::usual());
        }
        let asked = |(test, own): (&str, &str)| Some((own.to_owned(), std::env::var(test).ok()?));
        FROM_TESTER
            .into_iter()
            .filter_map(asked)
            .fold(home.with_compiled_code(), |home, (name, value)| home.env(&name, &value))
    }

    /// Has these virtual environments, as all homes have the same images of a container engine.
    pub fn share_environments(&self, folder: &Path) {
        let data = self.path().join(".local/share/belljar");
        std::fs::create_dir_all(&data).unwrap();
        std::os::unix::fs::symlink(folder, data.join("environments")).unwrap();
    }

    /// Has the compiled code of the runtime that `scripts/test.sh` has had stored, as a user has it from the second session
    /// on. Compiling it takes a third of the processor time of a sandbox's start.
    fn with_compiled_code(self) -> Self {
        let stored = Path::new(env!("CARGO_TARGET_TMPDIR")).join("home/.cache/belljar/runtime");
        let own = self.compiled_code();
        DirBuilder::new().recursive(true).mode(0o700).create(&own).unwrap();
        for file in std::fs::read_dir(stored).into_iter().flatten() {
            let file = file.unwrap();
            // Another sandbox may have had it removed meanwhile.
            drop(std::fs::copy(file.path(), own.join(file.file_name())));
        }
        self
    }

    /// Has no compiled code, as a new user.
    pub fn without_compiled_code(self) -> Self {
        std::fs::remove_dir_all(self.compiled_code()).unwrap();
        self
    }

    /// The folder with the compiled code of the runtime.
    pub fn compiled_code(&self) -> PathBuf {
        self.path().join(".cache/belljar/runtime")
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    pub fn without_env(mut self, name: &str) -> Self {
        self.variables.remove(name);
        self
    }

    /// With so few descriptors for the program.
    pub fn open_files(self, max: u32) -> Self {
        self.launched_by(&["sh"], &format!("ulimit -n {max}"))
    }

    /// With a folder below the home that is full, to the program and what it starts.
    pub fn full_folder(self, name: &str) -> Self {
        let folder = self.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let fill = format!(
            "mount -t tmpfs -o size=64k,mode=700 tmpfs '{0}' && ! cat /dev/zero >'{0}/full' 2>/dev/null",
            folder.display()
        );
        self.in_namespaces(&fill)
    }

    /// With a home that can only be read, to the program and what it starts, except for these folders below it.
    pub fn read_only(self, except: &[&str]) -> Self {
        let home = self.path().display().to_string();
        let mut mounts = format!("mount --bind '{home}' '{home}'");
        for folder in except {
            std::fs::create_dir_all(self.path().join(folder)).unwrap();
            mounts += &format!(" && mount --bind '{home}/{folder}' '{home}/{folder}'");
        }
        mounts += &format!(" && mount -o remount,bind,ro '{home}' && cd '{home}'");
        self.in_namespaces(&mounts)
    }

    /// With second names of folders below the home, to the program and what it starts.
    pub fn bound(self, folders: &[(&str, &str)]) -> Self {
        let mut bind = "true".to_owned();
        for (folder, name) in folders {
            std::fs::create_dir_all(self.path().join(name)).unwrap();
            bind += &format!(" && mount --bind '{0}/{folder}' '{0}/{name}'", self.path().display());
        }
        self.in_namespaces(&bind)
    }

    /// With mounts that this command makes, and that nobody else sees.
    fn in_namespaces(self, command: &str) -> Self {
        // Root needs no user namespace, and would lose its rights over the files of others in one.
        let unshare: &[&str] = match nix::unistd::geteuid().is_root() {
            true => &["unshare", "--mount", "sh"],
            false => &["unshare", "--mount", "--user", "--map-root-user", "sh"],
        };
        self.launched_by(unshare, command)
    }

    /// The program is started in this folder below the home.
    pub fn started_in(self, folder: &str) -> Self {
        let first = format!("cd '{}'", self.path().join(folder).display());
        self.launched_by(&["sh"], &first)
    }

    fn launched_by(mut self, shell: &[&str], first: &str) -> Self {
        self.launcher = shell.iter().map(|&part| part.to_owned()).collect();
        self.launcher.extend(["-c".into(), format!("{first} && exec \"$0\" \"$@\"")]);
        self
    }

    /// Adds a server to the one configuration file.
    pub fn server(mut self, name: &str, entry: Value) -> Self {
        self.servers.insert(name.to_owned(), entry);
        let content = json!({"mcpServers": self.servers}).to_string();
        self.file("MCPs/servers.json", &content)
    }

    /// Writes a file below the home.
    pub fn file(self, name: &str, content: &str) -> Self {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        self
    }

    /// Keeps the folder as long as somebody holds this.
    pub fn keep(&self) -> Rc<tempfile::TempDir> {
        Rc::clone(&self.dir)
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// What would have been opened in a browser, a line each. No program of a home finds a real opener.
    pub fn opened(&self) -> String {
        std::fs::read_to_string(self.path().join("opened")).unwrap_or_default()
    }

    /// The variables of the home. Programs that open a browser are replaced, whatever `PATH` the test has chosen.
    fn environment(&self) -> BTreeMap<String, String> {
        let mut variables = self.variables.clone();
        if let Some(path) = variables.get_mut("PATH") {
            *path = format!("{OPENERS}:{path}");
        }
        variables
    }

    /// The PATH that programs of the home get.
    pub fn search_path(&self) -> String {
        self.environment().remove("PATH").unwrap_or_default()
    }

    /// The program with this environment and nothing else of ours.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut words: Vec<&OsStr> = self.launcher.iter().map(OsStr::new).collect();
        let program = program("belljar");
        words.push(program.as_os_str());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command.args(arguments).env_clear().envs(self.environment()).current_dir(self.path());
        command
    }

    /// What the program shows if stdout and stderr are one terminal, with these further variables.
    pub fn on_terminal(&self, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let terminal = nix::pty::openpty(None, None).unwrap();
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied()).stdin(Stdio::null());
        command.stdout(terminal.slave.try_clone().unwrap()).stderr(terminal.slave);
        let mut child = command.spawn().unwrap();
        // It holds the other ends of the terminal.
        drop(command);
        let (mut shown, mut master) = (Vec::new(), File::from(terminal.master));
        // Linux says that the last writer has gone by an error.
        drop(master.read_to_end(&mut shown));
        child.wait().unwrap();
        String::from_utf8(shown).unwrap().replace("\r\n", "\n")
    }

    /// Runs a shell's command line with this environment and nothing else of ours.
    pub fn shell(&self, line: &str) -> Output {
        let mut command = Command::new("sh");
        let output =
            command.args(["-c", line]).env_clear().envs(self.environment()).current_dir(self.path()).output();
        let output = output.expect("there is a shell");
        Output {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs the program to its end with nothing on stdin.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, "")
    }

    /// Runs the program to its end.
    pub fn run_with(&self, arguments: &[&str], stdin: &str) -> Output {
        use std::io::Write;
        use std::process::Stdio;
        let mut command = self.command(arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Whoever does not read its input closes it, which is no defect.
        drop(child.stdin.take().unwrap().write_all(stdin.as_bytes()));
        let output = child.wait_with_output().unwrap();
        Output {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The owner ids of the bridges that live here now: containers carry them as a label.
    pub fn owners(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path().join("run/belljar")) else { return vec![] };
        entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "lock"))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect()
    }
}

/// What a program left.
#[derive(Debug, PartialEq, Eq)]
pub struct Output {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}
