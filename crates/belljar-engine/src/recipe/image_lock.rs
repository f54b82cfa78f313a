//! The lock of an image that was built: what it was built on, what was asked for, and each package with its hash.
//!
//! Its text is a requirements file of pip with remarks: pip itself can install from it.

use std::fmt;

use super::language::{Language, languages};
use super::requirement::{Requirement, RequirementError};

/// The lock of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageLock {
    /// The image below.
    pub base: String,
    /// What the engine called that image's content.
    pub base_id: String,
    /// What was asked for.
    pub asked: Vec<Requirement>,
    /// The languages that were added, which are of the distribution's version.
    pub languages: Vec<Language>,
    /// Lines such as `polars==1.0 --hash=sha256:…`.
    pub packages: Vec<String>,
}

/// The reason for which a text is not a lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// A line does not belong in a lock.
    #[error("line {line} is not a line of a lock: {why}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// It does not say what it is a lock of.
    #[error("it has no line \"# base: IMAGE\"")]
    NoBase,
}

/// Longest text of a lock, in bytes.
pub(super) const LOCK_BYTES_MAX: usize = 1024 * 1024;
/// Longest name of an image, in bytes.
const IMAGE_BYTES_MAX: usize = 300;
const SHA256_DIGITS: usize = 64;

impl ImageLock {
    /// Longest text of one, in bytes.
    pub const BYTES_MAX: usize = LOCK_BYTES_MAX;

    /// The lock of an image from the lines that its build has left.
    ///
    /// # Errors
    /// The first line that does not pin a package.
    pub fn packages_of(text: &str) -> Result<Vec<String>, LockError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines.map(|(at, line)| package(line).map_err(|why| LockError::Line { line: at + 1, why })).collect()
    }

    /// Reads one.
    ///
    /// # Errors
    /// The text has a line that does not belong in a lock, or it does not name the image below.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        let (mut base, mut base_id, mut asked, mut spoken, mut packages) =
            (None, String::new(), vec![], vec![], vec![]);
        for (at, line) in text.lines().enumerate() {
            let wrong = |why: String| LockError::Line { line: at + 1, why };
            let line = line.trim();
            let Some(remark) = line.strip_prefix('#') else {
                if !line.is_empty() {
                    packages.push(package(line).map_err(wrong)?);
                }
                continue;
            };
            match remark.trim().split_once(": ") {
                Some(("base", image)) => base = Some(image_name(image).map_err(wrong)?.to_owned()),
                Some(("base-id", id)) => base_id = image_name(id).map_err(wrong)?.to_owned(),
                Some(("asked", text)) => {
                    asked.push(
                        Requirement::new(text).map_err(|error: RequirementError| wrong(error.to_string()))?,
                    );
                }
                Some(("languages", names)) => spoken = languages(names.split(' ')).map_err(wrong)?,
                _ => {}
            }
        }
        Ok(Self { base: base.ok_or(LockError::NoBase)?, base_id, asked, languages: spoken, packages })
    }
}

impl fmt::Display for ImageLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# Written by belljar image build; belljar image build --locked NAME installs the same again."
        )?;
        writeln!(f, "# base: {}\n# base-id: {}", self.base, self.base_id)?;
        for asked in &self.asked {
            writeln!(f, "# asked: {asked}")?;
        }
        if !self.languages.is_empty() {
            let names: Vec<&str> = self.languages.iter().map(|language| language.as_str()).collect();
            writeln!(f, "# languages: {}", names.join(" "))?;
        }
        self.packages.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// A reference to an image, which goes into requests and files as it is.
///
/// # Errors
/// What is wrong with it.
fn image_name(text: &str) -> Result<&str, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '@');
    if text.is_empty() || text.len() > IMAGE_BYTES_MAX || !text.chars().all(is_plain) {
        return Err(format!("{:?} is no name of an image", belljar_base::text::inert_excerpt(text, 60)));
    }
    Ok(text)
}

fn package(line: &str) -> Result<String, String> {
    let wrong =
        || format!("{:?} is not NAME==VERSION --hash=sha256:…", belljar_base::text::inert_excerpt(line, 80));
    let (pinned, hash) = line.trim().split_once(" --hash=sha256:").ok_or_else(wrong)?;
    let is_hash = hash.len() == SHA256_DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let requirement = Requirement::new(pinned).map_err(|_| wrong())?;
    let version = pinned.split_once("==").map(|(_, version)| version).unwrap_or_default();
    if !is_hash
        || version.is_empty()
        || version.contains([',', '*'])
        || !pinned.starts_with(requirement.name())
    {
        return Err(wrong());
    }
    Ok(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> ImageLock {
        ImageLock {
            base: "localhost/belljar-sandbox:latest".into(),
            base_id: "sha256:abc".into(),
            asked: vec![Requirement::new("rich>=13").unwrap()],
            languages: languages(["c", "ruby"]).unwrap(),
            packages: vec![format!("rich==13.7.1 --hash=sha256:{}", "a1".repeat(32))],
        }
    }

    #[test]
    fn a_lock_comes_back_from_its_text() {
        assert_eq!(ImageLock::parse(&lock().to_string()), Ok(lock()));
        let bare = ImageLock { asked: vec![], languages: vec![], packages: vec![], ..lock() };
        assert_eq!(ImageLock::parse(&bare.to_string()), Ok(bare));
    }

    #[test]
    fn a_line_that_pip_would_read_otherwise_is_refused_with_its_number() {
        let good = lock().to_string();
        for bad in [
            "--index-url https://x",
            "rich==1",
            "rich --hash=sha256:a1",
            "rich==* --hash=sha256:a1",
            "https://x/rich.whl --hash=sha256:a1",
            "# asked: --pre",
            "# base: a b",
            "# languages: cobol",
        ] {
            let bad = bad.replace("sha256:a1", &format!("sha256:{}", "a1".repeat(32)));
            let lines = good.lines().count();
            let found = ImageLock::parse(&format!("{good}{bad}\n")).unwrap_err();
            assert!(matches!(found, LockError::Line { line, .. } if line == lines + 1), "{bad}: {found}");
        }
        assert_eq!(ImageLock::parse(""), Err(LockError::NoBase));
        assert!(ImageLock::packages_of("rich\n").is_err());
    }
}
