//! Why a skill is not kept, changed or found.

/// Refusals and failures; each message names the skill where there is one.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// Not a name.
    #[error(
        "'{name}' is no name for a skill: it must be a Python identifier of at most 64 ASCII letters, digits and _, no \
         keyword, and not begin with __"
    )]
    Name {
        /// What was said, harmless to show.
        name: String,
    },
    /// There is none of that name.
    #[error("there is no skill '{name}'{}", near.as_ref().map(|near| format!("; did you mean '{near}'?")).unwrap_or_default())]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// One like it.
        near: Option<String>,
    },
    /// The source is too long.
    #[error("the source of '{name}' has {bytes} bytes, at most {bytes_max} are kept")]
    TooLarge {
        /// Which skill.
        name: String,
        /// Its length.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// Names are bounded, those of removed skills with a history among them.
    #[error(
        "{count_max} skills are kept already, removed ones with a history among them; \
         `belljar skill rm NAME --purge` forgets one"
    )]
    TooMany {
        /// The bound.
        count_max: usize,
    },
    /// The source does not define what it should.
    #[error("the source defines no function '{name}' at its top level")]
    NoFunction {
        /// Which skill.
        name: String,
    },
    /// The file is not as it was written, and only the user can say which is right.
    #[error(
        "skill '{name}' is not loaded: {why}; the user can look at it and accept it: belljar skill trust {name}"
    )]
    Changed {
        /// Which skill.
        name: String,
        /// What is different.
        why: String,
    },
    /// The file cannot be taken at all.
    #[error("skill '{name}' cannot be used: {why}")]
    Unusable {
        /// Which skill.
        name: String,
        /// Why.
        why: String,
    },
    /// Nothing is to be accepted.
    #[error("skill '{name}' is as belljar has written it; there is nothing to accept")]
    Unchanged {
        /// Which skill.
        name: String,
    },
    /// It was changed once more while the user looked at it.
    #[error("skill '{name}' was changed again meanwhile; look at it once more")]
    ChangedAgain {
        /// Which skill.
        name: String,
    },
    /// That version is not kept.
    #[error("version {version} of '{name}' is not kept; kept: {kept}")]
    NoVersion {
        /// Which skill.
        name: String,
        /// The version that was asked for.
        version: u64,
        /// Those that there are.
        kept: String,
    },
    /// The folder cannot be read or written.
    #[error("the folder of skills cannot be used: {0}")]
    Folder(#[from] std::io::Error),
}
