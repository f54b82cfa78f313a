//! The content of a skill file: a skill as it was saved, or a change that waits for the user.
//!
//! It reads no file.

use belljar_base::text;

use super::definition::{Definition, definition};
use super::header::{self, Header};
use super::name::SkillName;

/// The content of a skill file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillFile {
    /// A skill, as it was saved.
    Ready(Box<Skill>),
    /// A change that the user has not accepted yet.
    Changed {
        /// What is different, as a sentence.
        why: String,
    },
    /// A text that is not a skill.
    Unusable {
        /// Why, to come after "it".
        why: String,
    },
}

/// A skill, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What is said of it, harmless to show.
    pub header: Header,
    /// Its source.
    pub body: String,
    /// The function.
    pub definition: Definition,
}

impl Skill {
    /// As its file has it.
    #[must_use]
    pub fn text(&self) -> String {
        self.header.before(&self.body)
    }
}

/// What the text of a file is worth.
pub(super) fn judged(name: &SkillName, text: &str) -> SkillFile {
    let changed = |why: String| SkillFile::Changed { why };
    match header::read(text) {
        None => changed("its file has no header of belljar's".into()),
        Some((Err(why), _)) => changed(format!("its header cannot be read: {why}")),
        Some((Ok(header), body)) if header.fits(body) && header.name == name.as_str() => {
            match definition(body, name.as_str()) {
                Some(definition) => SkillFile::Ready(Box::new(Skill {
                    header: header.inert(),
                    body: body.to_owned(),
                    definition,
                })),
                None => changed("its file defines no function of that name".into()),
            }
        }
        Some((Ok(header), body)) if header.fits(body) => {
            changed(format!("its header is of '{}'", text::inert_excerpt(&header.name, 64)))
        }
        Some((Ok(_), _)) => changed("its file was changed since belljar wrote it".into()),
    }
}

/// What a file says of itself, as far as it can be read, and the rest.
pub(super) fn parted<'t>(name: &SkillName, text: &'t str) -> (Header, &'t str) {
    let (header, body) = match header::read(text) {
        Some((header, body)) => (header.ok(), body),
        None => (None, text),
    };
    let described = || definition(body, name.as_str()).map(|definition| definition.doc).unwrap_or_default();
    let header = header.unwrap_or_else(|| Header { description: described(), ..Header::default() });
    (Header { name: name.to_string(), ..header }, body)
}
