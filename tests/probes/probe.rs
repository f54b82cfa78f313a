//! What a probe is: code that tries something, what is required of the answer, and what shows that the same code succeeds
//! where the defence is missing.
//!
//! It runs nothing.

/// Code that sandboxed code may be, and what has to become of it.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// `kind.what`, unique.
    pub name: &'static str,
    /// What it tries, in one line.
    pub tries: &'static str,
    pub code: &'static str,
    pub required: Required,
    pub variables: Variables,
    /// What the run after it has to be able to do besides.
    pub then: &'static str,
    /// The run's own time.
    pub timeout_s: f64,
    /// Calls that have to reach the servers.
    pub calls: usize,
    pub exception: Exception,
    pub without_defence: WithoutDefence,
    /// Refusals that say that this machine has no such thing at all, so that nothing can be shown.
    pub absent: &'static [&'static str],
    pub pace: Pace,
}

/// What the reply has to say.
#[derive(Debug, Clone, Copy)]
pub enum Required {
    /// The attempt ended by one of these: the name of the error number, or of the exception when there is none.
    Refused(&'static [&'static str]),
    /// A run that succeeded; its reply holds all of `says` and nothing of `never`.
    Succeeds { says: &'static [&'static str], never: &'static [&'static str] },
    /// A run that failed; its reply holds all of `says`.
    Fails { says: &'static [&'static str] },
}

/// What has to become of the variables. That the reply tells the truth about them is checked of every probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variables {
    Kept,
    /// It depends on the version of Python, or on how far the code gets.
    Either,
    /// The code breaks its own interpreter for good: the next run asks for a fresh one.
    Reset,
}

/// Where the code may fare otherwise.
#[derive(Debug, Clone, Copy)]
pub enum Exception {
    Nowhere,
    /// The bridge itself may end the run, where the session's first reply has said that the engine does not enforce this
    /// limit.
    Unenforced(&'static str),
    /// The same, and the code may be refused instead with these words.
    RefusedWhereUnenforced(&'static str, &'static str),
    /// It may succeed where processes of the sandbox cannot use Landlock, as `belljar doctor` says.
    WithoutLandlock,
    /// It may succeed on this engine; SECURITY.md says so, and it is counted and shown in the table.
    KnownOn(&'static str),
}

/// How the code fares without the defence.
#[derive(Debug, Clone, Copy)]
pub enum WithoutDefence {
    /// The attempt succeeds in a container without any defence.
    Succeeds,
    /// The attempt succeeds in a plain Python of this machine; it only reads.
    SucceedsOnHost,
    /// A bare interpreter never comes to its end.
    Hangs,
    /// A bare interpreter says nothing any more afterwards.
    Ends,
    /// It reaches the reader of a bare interpreter's output just so.
    Prints(&'static str),
    /// A bare interpreter writes so many bytes to whoever reads.
    Floods(u64),
    /// A bare Python as PID 1 is interrupted by it.
    Interrupts,
    /// This code, to which the refusal does not apply, reaches a server.
    Calls(&'static str),
    /// What is required is that it works, so a defect shows by itself.
    Itself,
}

/// Whether it runs in `make test` too, or in `make probes` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Quick,
    /// It takes seconds by its nature.
    Slow,
}

impl Probe {
    /// Code that has to be refused: when it comes to its end it has succeeded.
    pub const fn attempt(
        name: &'static str,
        tries: &'static str,
        refusals: &'static [&'static str],
        code: &'static str,
    ) -> Self {
        Self { required: Required::Refused(refusals), ..Self::new(name, tries, code) }
    }

    /// Code that has to succeed with these words in the reply.
    pub const fn says(
        name: &'static str,
        tries: &'static str,
        says: &'static [&'static str],
        code: &'static str,
    ) -> Self {
        Self { required: Required::Succeeds { says, never: &[] }, ..Self::new(name, tries, code) }
    }

    /// Code that has to fail with these words in the reply.
    pub const fn fails(
        name: &'static str,
        tries: &'static str,
        says: &'static [&'static str],
        code: &'static str,
    ) -> Self {
        Self { required: Required::Fails { says }, ..Self::new(name, tries, code) }
    }

    const fn new(name: &'static str, tries: &'static str, code: &'static str) -> Self {
        Self {
            name,
            tries,
            code,
            required: Required::Fails { says: &[] },
            variables: Variables::Kept,
            then: "",
            timeout_s: 20.0,
            calls: 0,
            exception: Exception::Nowhere,
            without_defence: WithoutDefence::Succeeds,
            absent: &[],
            pace: Pace::Quick,
        }
    }

    pub const fn never(self, never: &'static [&'static str]) -> Self {
        match self.required {
            Required::Succeeds { says, .. } => Self { required: Required::Succeeds { says, never }, ..self },
            Required::Refused(_) | Required::Fails { .. } => panic!("only of a run that succeeds"),
        }
    }

    pub const fn without_defence(self, without_defence: WithoutDefence) -> Self {
        Self { without_defence, ..self }
    }

    pub const fn absent(self, absent: &'static [&'static str]) -> Self {
        Self { absent, ..self }
    }

    pub const fn variables(self, variables: Variables) -> Self {
        Self { variables, ..self }
    }

    pub const fn then(self, then: &'static str) -> Self {
        Self { then, ..self }
    }

    pub const fn timeout(self, timeout_s: f64) -> Self {
        Self { timeout_s, ..self }
    }

    pub const fn calls(self, calls: usize) -> Self {
        Self { calls, ..self }
    }

    pub const fn or_ended_where_unenforced(self, limit: &'static str) -> Self {
        Self { exception: Exception::Unenforced(limit), ..self }
    }

    pub const fn or_refused_where_unenforced(self, limit: &'static str, words: &'static str) -> Self {
        Self { exception: Exception::RefusedWhereUnenforced(limit, words), ..self }
    }

    pub const fn by_landlock(self) -> Self {
        Self { exception: Exception::WithoutLandlock, ..self }
    }

    pub const fn known_on(self, engine: &'static str) -> Self {
        Self { exception: Exception::KnownOn(engine), ..self }
    }

    pub const fn slow(self) -> Self {
        Self { pace: Pace::Slow, ..self }
    }

    /// The code as it is run, in the sandbox and without it: attempts say themselves how they ended.
    pub fn script(&self) -> String {
        let Required::Refused(_) = self.required else {
            return format!("print('before')\n{}\n", self.code.trim());
        };
        let indented: String = self.code.trim().lines().map(|line| format!("    {line}\n")).collect();
        format!(
            "print('before')\ntry:\n{indented}except Exception as refusal:\n    print('refused:', name_of(refusal))\n\
             else:\n    print('{SUCCEEDED}')\n"
        )
    }
}

pub const SUCCEEDED: &str = "THE ATTEMPT SUCCEEDED";

/// What the code of every probe may use.
pub const PRELUDE: &str = include_str!("prelude.py");
