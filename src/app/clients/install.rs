//! `belljar install` and `belljar uninstall`: add belljar to the configuration of an MCP client, and remove it again.
//!
//! `clients` knows how to edit a client's file; this module reports what is done.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use belljar_base::limits::Limits;
use belljar_base::names::ServerName;
use belljar_base::programs::find_program;
use belljar_base::text;
use serde_json::json;

use super::import::{USAGE, is_own_command, refused, surroundings};
use crate::app::common::printing::{err, out, row, to_stdout};
use crate::cli;
use crate::clients::{
    self, Calls, Edit, HttpAddress, InstallContext, InstallError, Plan, Reach, Registration, ReplaceRule,
    Scope, StartCommand, Surroundings, client, missing_approval, unpassable,
};
use crate::config::{Config, ConfigFiles, Environment};

/// Adds belljar to each named client's file. Without a name, it lists the clients.
pub(crate) fn install(environment: &Environment, arguments: &cli::Install) -> ExitCode {
    let Some(surroundings) = surroundings(environment) else {
        return refused("no home folder is known, so there is nowhere to look");
    };
    if arguments.clients.is_empty() {
        let head = "install writes belljar into the client that --client names:";
        return list(environment, &surroundings, &arguments.name, (head, arguments.json));
    }
    let mut named = arguments.clients.iter().filter_map(|name| client(name));
    if let Some(client) = named.find(|client| arguments.approve_calls && !client.can_approve()) {
        err!(
            "belljar: --approve-calls: {} has no such setting that belljar knows; use its own",
            client.title
        );
        return ExitCode::from(USAGE);
    }
    let (config, files) = ConfigFiles::load(environment.clone());
    let Some(program) = environment.executable.as_deref().filter(|program| program.is_absolute()) else {
        return refused("the system does not tell where this executable is");
    };
    let limits = Limits::default();
    // This is the sum of the longest run, the longest wait for a human, and the longest start of a sandbox.
    let longest_reply = config.timeout_max + limits.approval + limits.sandbox_start;
    let address = arguments.http.as_deref().map(|url| HttpAddress::new(url, &arguments.token_variable));
    let address = match address.transpose() {
        Ok(address) => address,
        Err(error) => {
            err!("belljar: {}", text::inert(&error.to_string()));
            return ExitCode::from(USAGE);
        }
    };
    let (reach, way) = match &address {
        Some(address) => (Reach::Http(address), format!(" --http {}", address.url())),
        None if arguments.shared => (Reach::StartShared, " --shared".into()),
        None => (Reach::Start, String::new()),
    };
    let calls = if arguments.approve_calls { Calls::Approved } else { Calls::AsSet };
    let variables = files.referred_variables();
    let (program, args) = &lasting(program, environment);
    let starting =
        StartCommand { program, args, longest_reply, start: limits.sandbox_start, variables, calls, reach };
    let is_own = |program: &str, words: &[String]| is_own_command(environment, program, words);
    let rule = if arguments.force { ReplaceRule::Allowed } else { ReplaceRule::Refused };
    let scope = if arguments.project { Scope::Project } else { Scope::User };
    let targets = InstallTargets {
        clients: &arguments.clients,
        name: &arguments.name,
        scope,
        is_dry_run: arguments.dry_run,
    };
    let code = targets.each(&config, &surroundings, &limits, |registration, context| {
        if registration.scope == Scope::User && !registration.client.is_there(context.surroundings) {
            out!("{} was not found here; its file is made all the same", registration.client.title);
        }
        let hint = match calls {
            Calls::AsSet => missing_approval(registration, context)?,
            Calls::Approved => None,
        };
        let mut hint =
            hint.map(|(key, refuses)| approval_hint(registration, &way, key, refuses)).unwrap_or_default();
        let lost = unpassable(registration.client, variables);
        if !lost.is_empty() && address.is_none() {
            hint.push_str(&format!(
                "\nnote: {} does not pass on {}, which your servers' entries refer to: write `env` with the values into \
                 belljar's entry, or write ${{file:PATH}} in your servers' entries",
                registration.client.title,
                lost.join(", ")
            ));
        }
        match clients::install(registration, starting, (rule, &is_own), context)? {
            Plan::Nothing(path) => {
                Ok((None, format!("{} is in {} already", registration.name, shown(&path))))
            }
            Plan::Edit(edit) => {
                let word = if edit.replaces { "replaced another server called" } else { "put" };
                let done = format!("{word} {} into {}", registration.name, shown(&edit.path));
                let with = address.as_ref().map(|address| {
                    format!(" with a token in {} (`belljar token add NAME --quiet` makes one)", address.variable())
                });
                let (title, with) = (registration.client.title, with.unwrap_or_default());
                let after = format!("{done}; {title} sees it when it starts next{with}{hint}");
                Ok((Some(edit), after))
            }
        }
    });
    let (free, all) = config.servers_with_rights();
    if free > 0 {
        out!(
            "note: {free} of {all} servers that a command starts run with all your rights; `sandbox = true` below [servers] \
             of config.toml confines them, and `belljar doctor --ask` says what each one needs then"
        );
    }
    code
}

/// The command that starts belljar on any day. A launcher such as uvx runs it from a cache, from which it may be removed.
fn lasting(program: &Path, environment: &Environment) -> (PathBuf, &'static [&'static str]) {
    const LAUNCHERS: [(&str, &str, &[&str]); 3] = [
        ("archive-v0", "uvx", &["belljar"]),
        ("_npx", "npx", &["-y", "belljar"]),
        (".cache", "pipx", &["run", "belljar"]),
    ];
    let is_in = |folder: &str| program.iter().any(|part| part == folder);
    let is_of = |(folder, launcher, _): &&(&str, &str, &[&str])| {
        is_in(folder) && (*launcher != "pipx" || is_in("pipx"))
    };
    match LAUNCHERS.iter().find(is_of) {
        None => (program.to_owned(), &[]),
        Some((_, launcher, args)) => {
            let (path, home) = (environment.variable("PATH"), environment.home.as_deref());
            let cwd = environment.cwd.as_deref().unwrap_or(Path::new("/"));
            // A client of the desktop may have a shorter PATH.
            let found = find_program(Path::new(launcher), path, cwd, home);
            (found.unwrap_or_else(|| PathBuf::from(launcher)), args)
        }
    }
}

/// A line about a setting that the user may want. Belljar sets it only on request. `way` has the options of this command.
fn approval_hint(registration: &Registration<'_>, way: &str, key: &str, refuses: &str) -> String {
    let Registration { client, name, .. } = registration;
    let name = if *name == "belljar" { String::new() } else { format!(" --name {name}") };
    format!(
        "\nnote: {refuses} refuses each call without `{key}`; `belljar install --client {}{name}{way} --approve-calls` sets it: {} then \
         makes every call of run_python without asking you, and only belljar's own policy decides what code calls",
        client.name, client.title
    )
}

/// Removes belljar from each named client's file.
pub(crate) fn uninstall(environment: &Environment, arguments: &cli::Uninstall) -> ExitCode {
    let Some(surroundings) = surroundings(environment) else {
        return refused("no home folder is known, so there is nowhere to look");
    };
    if arguments.clients.is_empty() {
        let head = "uninstall takes belljar out of the client that --client names:";
        return list(environment, &surroundings, &arguments.name, (head, arguments.json));
    }
    let config = Config::load(environment);
    let limits = Limits::default();
    let is_own = |program: &str, words: &[String]| is_own_command(environment, program, words);
    let scope = if arguments.project { Scope::Project } else { Scope::User };
    let targets = InstallTargets {
        clients: &arguments.clients,
        name: &arguments.name,
        scope,
        is_dry_run: arguments.dry_run,
    };
    targets.each(&config, &surroundings, &limits, |registration, context| {
        Ok(match clients::uninstall(registration, &is_own, context)? {
            Plan::Nothing(path) => (None, format!("{} is not in {}", registration.name, shown(&path))),
            Plan::Edit(edit) => {
                let path = shown(&edit.path);
                let done = match edit.removes_file() {
                    true => format!("removed {path}, which was made for {}", registration.name),
                    false => format!("took {} out of {path}", registration.name),
                };
                (Some(edit), done)
            }
        })
    })
}

/// The names of the clients that have belljar under this name; `None`: no home is known, which was reported.
pub(super) fn registered_clients(
    config: &Config,
    environment: &Environment,
    name: &str,
) -> Option<Vec<String>> {
    let Some((surroundings, state)) = surroundings(environment).zip(config.own_state_dir.as_deref()) else {
        refused("no home folder is known, so there is nowhere to look");
        return None;
    };
    let limits = Limits::default();
    let context = InstallContext { surroundings: &surroundings, state, limits: &limits };
    let is_own = |program: &str, words: &[String]| is_own_command(environment, program, words);
    let has_it = |client: &&'static clients::Client| {
        let registration = Registration { client, name, scope: Scope::User };
        matches!(clients::uninstall(&registration, &is_own, &context), Ok(Plan::Edit(_)))
    };
    Some(clients::clients().iter().filter(has_it).map(|client| client.name.to_owned()).collect())
}

/// The clients, the name and the scope that the command line names.
struct InstallTargets<'n> {
    clients: &'n [String],
    name: &'n str,
    scope: Scope,
    is_dry_run: bool,
}

/// The planned edit, if one is needed, with the line that reports it.
type PlanResult = Result<(Option<Edit>, String), InstallError>;

impl InstallTargets<'_> {
    /// Plans and makes the edit of each client's file. A failure does not stop the others.
    fn each(
        &self,
        config: &Config,
        surroundings: &Surroundings,
        limits: &Limits,
        plan: impl Fn(&Registration<'_>, &InstallContext<'_>) -> PlanResult,
    ) -> ExitCode {
        if let Err(error) = ServerName::new(self.name) {
            err!("belljar: --name: {error}");
            return ExitCode::from(USAGE);
        }
        let Some(state) = config.own_state_dir.as_deref() else {
            return refused("no home folder is known, so there is no place for the backup");
        };
        let context = InstallContext { surroundings, state, limits };
        let mut code = ExitCode::SUCCESS;
        for client in self.clients.iter().filter_map(|name| client(name)) {
            let registration = Registration { client, name: self.name, scope: self.scope };
            if let Err(error) = one(&registration, &context, self.is_dry_run, &plan) {
                err!("belljar: {}", text::inert(&error.to_string()));
                code = ExitCode::FAILURE;
            }
        }
        code
    }
}

fn one(
    registration: &Registration<'_>,
    context: &InstallContext<'_>,
    is_dry_run: bool,
    plan: &impl Fn(&Registration<'_>, &InstallContext<'_>) -> PlanResult,
) -> Result<(), InstallError> {
    let (edit, done) = plan(registration, context)?;
    let Some(edit) = edit else {
        out!("{done}");
        return Ok(());
    };
    out!("{}", shown(&edit.path));
    to_stdout(edit.diff());
    if is_dry_run {
        let notes = done.split_once('\n').map(|(_, notes)| format!("\n{notes}")).unwrap_or_default();
        out!("nothing was written: --dry-run only shows{notes}");
        return Ok(());
    }
    edit.make(context)?;
    out!("{done}");
    Ok(())
}

/// Lists the clients: which are on this machine, and which have belljar under this name.
fn list(
    environment: &Environment,
    surroundings: &Surroundings,
    name: &str,
    (head, as_json): (&str, bool),
) -> ExitCode {
    let Some(registered) = registered_clients(&Config::load(environment), environment, name) else {
        return ExitCode::FAILURE;
    };
    if !as_json {
        out!("{head}");
    }
    for client in clients::clients() {
        let path = client.user_file(surroundings).unwrap_or_default();
        let (is_found, has_belljar) =
            (client.is_there(surroundings), registered.iter().any(|name| name == client.name));
        if as_json {
            let row = json!({"client": client.name, "title": client.title, "found": is_found, "has_belljar": has_belljar, "file": path});
            out!("{row}");
            continue;
        }
        let state = match (has_belljar, is_found) {
            (true, _) => "has belljar",
            (false, true) => "found",
            (false, false) => "-",
        };
        row!("  {:16} {state:11}  {}", client.name, shown(&path));
    }
    ExitCode::SUCCESS
}

pub(super) fn shown(path: &Path) -> String {
    text::inert_line(&path.display().to_string())
}
