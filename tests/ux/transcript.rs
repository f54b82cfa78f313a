//! A transcript's file: a line of text what it is about, settings, and steps.
//!
//! ```text
//! # What it is about.
//! server github --publishes github
//! env MCP_BRIDGE_OUTPUT_MODE=toon
//! file data/sales.csv sold\n3
//! config [run]
//! model
//! --- run timeout=1
//! print(1)
//! --- reply
//! 1
//! --- session MCP_BRIDGE_RESUME=last
//! --- belljar session ls
//! ```

use std::fmt;

/// One session.
#[derive(Debug, PartialEq, Eq)]
pub struct Transcript {
    pub about: String,
    pub settings: Vec<Setting>,
    pub steps: Vec<Step>,
}

/// What is there before the program starts.
#[derive(Debug, PartialEq, Eq)]
pub enum Setting {
    /// A fixture server with these flags.
    Server {
        name: String,
        flags: Vec<String>,
    },
    Env {
        name: String,
        value: String,
    },
    /// A file below the home, in one line.
    File {
        name: String,
        text: String,
    },
    /// A line of config.toml.
    Config(String),
    /// A service whose model says all in capitals.
    Model,
}

/// Something that is done, and what came of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    pub does: Does,
    pub reply: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Does {
    /// Runs code, with other arguments as they are written.
    Run { arguments: Vec<(String, String)>, code: String },
    /// Kills the container.
    KillContainer,
    /// Lists the tools.
    List,
    /// Ends the session and begins another one, with these variables as well.
    Session { variables: Vec<(String, String)> },
    /// Runs the program with these arguments, as the user does.
    Belljar { arguments: Vec<String> },
}

impl Transcript {
    /// # Errors
    /// The line that is none of the form above.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split("\n--- ");
        let mut head = parts.next().unwrap_or_default().lines();
        let about = head.next().and_then(|line| line.strip_prefix("# ")).ok_or("it begins with `# ...`")?;
        let settings = head.map(setting).collect::<Result<_, _>>()?;
        let mut steps: Vec<Step> = Vec::new();
        for part in parts {
            let (head, body) = part.split_once('\n').unwrap_or((part, ""));
            let mut words = head.split(' ');
            let does = match words.next() {
                Some("reply") => {
                    let step = steps.last_mut().ok_or("a reply follows a step")?;
                    step.reply = body.strip_suffix('\n').unwrap_or(body).to_owned();
                    continue;
                }
                Some("run") => {
                    Does::Run { arguments: words.map(pair).collect::<Result<_, _>>()?, code: body.to_owned() }
                }
                Some("session") => Does::Session { variables: words.map(pair).collect::<Result<_, _>>()? },
                Some("belljar") => Does::Belljar { arguments: words.map(str::to_owned).collect() },
                Some("kill-container") => Does::KillContainer,
                Some("list") => Does::List,
                _ => return Err(format!("no step: {head}")),
            };
            steps.push(Step { does, reply: String::new() });
        }
        Ok(Self { about: about.to_owned(), settings, steps })
    }
}

fn pair(word: &str) -> Result<(String, String), String> {
    let (name, value) = word.split_once('=').ok_or(format!("no name=value: {word}"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn setting(line: &str) -> Result<Setting, String> {
    let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
    match kind {
        "server" => {
            let mut words = rest.split(' ').map(str::to_owned);
            let name = words.next().ok_or("a server has a name")?;
            Ok(Setting::Server { name, flags: words.collect() })
        }
        "env" => pair(rest).map(|(name, value)| Setting::Env { name, value }),
        "file" => {
            let (name, text) = rest.split_once(' ').ok_or(format!("no file: {rest}"))?;
            Ok(Setting::File { name: name.to_owned(), text: text.to_owned() })
        }
        "config" => Ok(Setting::Config(rest.to_owned())),
        "model" => Ok(Setting::Model),
        _ => Err(format!("no setting: {line}")),
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# {}", self.about)?;
        for setting in &self.settings {
            match setting {
                Setting::Server { name, flags } => writeln!(
                    f,
                    "{}",
                    [&["server", name], &flags.iter().map(String::as_str).collect::<Vec<_>>()[..]]
                        .concat()
                        .join(" ")
                )?,
                Setting::Env { name, value } => writeln!(f, "env {name}={value}")?,
                Setting::File { name, text } => writeln!(f, "file {name} {text}")?,
                Setting::Config(line) => writeln!(f, "config {line}")?,
                Setting::Model => writeln!(f, "model")?,
            }
        }
        for Step { does, reply } in &self.steps {
            match does {
                Does::Run { arguments, code } => {
                    // The last line feed belongs to the next step.
                    writeln!(f, "--- run{}\n{}", pairs(arguments), code.trim_end_matches('\n'))?;
                }
                Does::KillContainer => writeln!(f, "--- kill-container")?,
                Does::List => writeln!(f, "--- list")?,
                Does::Session { variables } => writeln!(f, "--- session{}", pairs(variables))?,
                Does::Belljar { arguments } => writeln!(f, "--- belljar {}", arguments.join(" "))?,
            }
            if !reply.is_empty() {
                writeln!(f, "--- reply\n{reply}")?;
            }
        }
        Ok(())
    }
}

fn pairs(of: &[(String, String)]) -> String {
    of.iter().map(|(name, value)| format!(" {name}={value}")).collect()
}
