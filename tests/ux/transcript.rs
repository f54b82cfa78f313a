//! A transcript's file: a line of text what it is about, settings, and steps.
//!
//! ```text
//! # What it is about.
//! server github --publishes github
//! env MCP_BRIDGE_OUTPUT_MODE=toon
//! --- run timeout=1
//! print(1)
//! --- reply
//! 1
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
                    let argument = |word: &str| {
                        let (name, value) = word.split_once('=').ok_or(format!("no argument: {word}"))?;
                        Ok::<_, String>((name.to_owned(), value.to_owned()))
                    };
                    Does::Run {
                        arguments: words.map(argument).collect::<Result<_, _>>()?,
                        code: body.to_owned(),
                    }
                }
                Some("kill-container") => Does::KillContainer,
                Some("list") => Does::List,
                _ => return Err(format!("no step: {head}")),
            };
            steps.push(Step { does, reply: String::new() });
        }
        Ok(Self { about: about.to_owned(), settings, steps })
    }
}

fn setting(line: &str) -> Result<Setting, String> {
    let (kind, rest) = line.split_once(' ').ok_or(format!("no setting: {line}"))?;
    match kind {
        "server" => {
            let mut words = rest.split(' ').map(str::to_owned);
            let name = words.next().ok_or("a server has a name")?;
            Ok(Setting::Server { name, flags: words.collect() })
        }
        "env" => {
            let (name, value) = rest.split_once('=').ok_or(format!("no variable: {rest}"))?;
            Ok(Setting::Env { name: name.to_owned(), value: value.to_owned() })
        }
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
            }
        }
        for Step { does, reply } in &self.steps {
            match does {
                Does::Run { arguments, code } => {
                    let arguments: String =
                        arguments.iter().map(|(name, value)| format!(" {name}={value}")).collect();
                    // The last line feed belongs to the next step.
                    writeln!(f, "--- run{arguments}\n{}", code.trim_end_matches('\n'))?;
                }
                Does::KillContainer => writeln!(f, "--- kill-container")?,
                Does::List => writeln!(f, "--- list")?,
            }
            if !reply.is_empty() {
                writeln!(f, "--- reply\n{reply}")?;
            }
        }
        Ok(())
    }
}
