//! Splits the arguments of a runner into its own options and the command that it runs.
//!
//! An option that is not listed here counts as one without a value. If it has one, the command may be found too early,
//! and fewer files are made visible.

/// The arguments of a runner.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunnerArguments<'a> {
    /// Its options with their values; `None` for a flag.
    pub(super) options: Vec<(&'a str, Option<&'a str>)>,
    /// Its subcommands, such as `run`.
    subcommands: Vec<&'a str>,
    /// The command or package that it runs, with its arguments.
    pub(super) command: &'a [String],
}

/// Subcommands of all runners that have some.
pub(super) const SUBCOMMANDS: [&str; 6] = ["run", "tool", "exec", "dlx", "x", "start"];
/// Options of all runners that have a value.
const WITH_VALUE: [&str; 25] = [
    "-p",
    "-C",
    "-w",
    "-i",
    "-f",
    "--package",
    "--prefix",
    "--cache",
    "--workspace",
    "--dir",
    "--python",
    "--from",
    "--with",
    "--with-editable",
    "--directory",
    "--project",
    "--index",
    "--default-index",
    "--index-url",
    "--extra-index-url",
    "--find-links",
    "--extra",
    "--group",
    "--exclude-newer",
    "--cache-dir",
];

impl<'a> RunnerArguments<'a> {
    /// Splits the arguments. `known` are the runner's subcommands, and `files` are further options that have a value.
    pub(super) fn of(args: &'a [String], known: &[&str], files: &[&str]) -> Self {
        let mut found = Self { options: Vec::new(), subcommands: Vec::new(), command: args };
        while let Some((first, rest)) = found.command.split_first() {
            found.command = rest;
            if let Some((name, value)) = first.split_once('=').filter(|_| first.starts_with('-')) {
                found.options.push((name, Some(value)));
            } else if WITH_VALUE.contains(&first.as_str()) || files.contains(&first.as_str()) {
                found.options.push((first, rest.first().map(String::as_str)));
                found.command = rest.get(1..).unwrap_or_default();
            } else if first.starts_with('-') {
                found.options.push((first, None));
            } else if known.contains(&first.as_str()) {
                found.subcommands.push(first);
            } else {
                found.command = &args[args.len() - rest.len() - 1..];
                break;
            }
        }
        found
    }

    /// Whether the subcommand makes a runner of projects run what the project defines. `uv tool run` does not: it runs
    /// a package.
    pub(super) fn runs_project(&self) -> bool {
        self.subcommands.first().is_some_and(|word| ["run", "start"].contains(word))
    }

    /// Whether the command may be a script instead of a package or a program.
    pub(super) fn runs_scripts(&self) -> bool {
        self.subcommands.first() == Some(&"run")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_command_are_not_those_of_the_runner() {
        let args = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let words = args("--offline --from=a==1 -c a.lock a --from b -c c");
        let found = RunnerArguments::of(&words, &SUBCOMMANDS, &["-c", "--from"]);
        let options = [("--offline", None), ("--from", Some("a==1")), ("-c", Some("a.lock"))];
        assert_eq!(found.options, options);
        assert_eq!(found.command, args("a --from b -c c"));
        assert!(!found.runs_scripts());
        let words = args("run --with mcp mcp run a.py");
        let found = RunnerArguments::of(&words, &SUBCOMMANDS, &[]);
        assert_eq!((found.command, found.runs_scripts()), (&args("mcp run a.py")[..], true));
        let runs_project =
            |words: &str, known: &[&str]| RunnerArguments::of(&args(words), known, &[]).runs_project();
        assert!(runs_project("run a", &SUBCOMMANDS) && runs_project("--silent start", &SUBCOMMANDS));
        assert!(!runs_project("tool run a", &SUBCOMMANDS) && !runs_project("exec start", &SUBCOMMANDS));
        // A package can have the name of a subcommand.
        assert!(!runs_project("run a", &[]));
        let words = args("-y --package a -- b");
        assert_eq!(RunnerArguments::of(&words, &SUBCOMMANDS, &[]).command, args("b"));
        assert!(RunnerArguments::of(&args("-c"), &SUBCOMMANDS, &["-c"]).command.is_empty());
    }
}
