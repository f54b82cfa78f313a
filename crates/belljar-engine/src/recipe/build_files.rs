//! The files that an image or a virtual environment is built from, in memory.

use std::io::{self, Read};

use super::language::Language;
use super::requirement::Requirement;

/// The files of the archive beside the embedded ones.
#[derive(Debug, Clone)]
pub struct BuildFiles {
    /// Whether the data-science set is installed, which an image of ours has already.
    pub default_set: bool,
    /// What is installed beside that.
    pub packages: Packages,
    /// Certificates that pip is to trust, for this build only.
    pub certificates: Option<Vec<u8>>,
}

/// Packages beside the data-science set.
#[derive(Debug, Clone)]
pub enum Packages {
    /// Of the newest versions that go together.
    Asked(Vec<Requirement>),
    /// Exactly these lines of a lock.
    Locked(Vec<String>),
}

/// A file by its name, and its text.
type Embedded = (&'static str, &'static str);

const CONTAINERFILE: Embedded = ("Containerfile", include_str!("../../Containerfile"));
const LOCK_PACKAGES: Embedded = ("lock-packages.py", include_str!("../../sandbox-image/lock-packages.py"));
const OF_IMAGE: [Embedded; 5] = [
    ("install-packages.sh", include_str!("../../sandbox-image/install-packages.sh")),
    ("install-languages.sh", include_str!("../../sandbox-image/install-languages.sh")),
    ("keep-one-copy.py", include_str!("../../sandbox-image/keep-one-copy.py")),
    ("finish-image.sh", include_str!("../../sandbox-image/finish-image.sh")),
    LOCK_PACKAGES,
];
const OF_ENVIRONMENT: [Embedded; 2] =
    [("make-environment.sh", include_str!("../../sandbox-image/make-environment.sh")), LOCK_PACKAGES];
const DEFAULT_SET: Embedded = ("requirements.lock", include_str!("../../sandbox-image/requirements.lock"));
/// The folder of an archive in which the recipe has all files but its own.
const FOLDER: &str = "sandbox-image";

impl BuildFiles {
    /// The recipe's file in the archive.
    pub const RECIPE: &str = CONTAINERFILE.0;
    /// Where an image keeps the lock of what was asked for.
    pub const LOCK: &str = "/usr/local/share/belljar/with.lock";
    /// The script that makes a virtual environment.
    pub const SCRIPT: &str = OF_ENVIRONMENT[0].0;
    /// Where a virtual environment keeps the lock of what was asked for.
    pub const ENVIRONMENT_LOCK: &str = "share/belljar/with.lock";

    /// The archive of an image.
    ///
    /// # Errors
    /// None that writing to memory does not have.
    pub fn archive(&self) -> io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        add(&mut archive, CONTAINERFILE.0, CONTAINERFILE.1.as_bytes())?;
        for (name, bytes) in self.with(&OF_IMAGE) {
            add(&mut archive, &format!("{FOLDER}/{name}"), &bytes)?;
        }
        archive.into_inner()
    }

    /// The files of a virtual environment, by their names.
    #[must_use]
    pub fn of_environment(&self) -> Vec<(&'static str, Vec<u8>)> {
        self.with(&OF_ENVIRONMENT)
    }

    fn with(&self, embedded: &[Embedded]) -> Vec<(&'static str, Vec<u8>)> {
        let embedded = embedded.iter().copied().chain(self.default_set.then_some(DEFAULT_SET));
        let mut files: Vec<_> = embedded.map(|(name, text)| (name, text.as_bytes().to_vec())).collect();
        let (name, lines): (_, Vec<String>) = match &self.packages {
            Packages::Asked(asked) => ("with.txt", asked.iter().map(|one| format!("{one}\n")).collect()),
            Packages::Locked(lines) => ("with.lock", lines.iter().map(|line| format!("{line}\n")).collect()),
        };
        files.push((name, lines.concat().into_bytes()));
        files.extend(self.certificates.clone().map(|certificates| ("ca-bundle.pem", certificates)));
        files
    }
}

/// The languages as the recipe takes them.
#[must_use]
pub fn language_words(languages: &[Language]) -> String {
    languages.iter().map(|language| language.as_str()).collect::<Vec<_>>().join(" ")
}

/// The one file of an archive, of at most so many bytes.
///
/// # Errors
/// When it holds no plain file, or a larger one.
pub fn file_of_archive(archive: &[u8], bytes_max: usize) -> io::Result<Vec<u8>> {
    for entry in tar::Archive::new(archive).entries()? {
        let entry = entry?;
        if entry.header().entry_type().is_file() {
            let mut bytes = Vec::new();
            entry.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
            if bytes.len() > bytes_max {
                return Err(io::Error::other(format!("its file is larger than {bytes_max} bytes")));
            }
            return Ok(bytes);
        }
    }
    Err(io::Error::other("there is no file in the archive"))
}

fn add(archive: &mut tar::Builder<Vec<u8>>, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, name, bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn contents(files: &BuildFiles) -> BTreeMap<String, Vec<u8>> {
        let archive = files.archive().unwrap();
        let mut found = BTreeMap::new();
        for entry in tar::Archive::new(&archive[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = vec![];
            entry.read_to_end(&mut bytes).unwrap();
            found.insert(entry.path().unwrap().display().to_string(), bytes);
        }
        found
    }

    #[test]
    fn the_archive_has_what_is_asked_for_and_no_more() {
        let asked = vec![Requirement::new("rich>=13").unwrap(), Requirement::new("tqdm").unwrap()];
        let files = BuildFiles {
            default_set: false,
            packages: Packages::Asked(asked),
            certificates: Some(b"pem".to_vec()),
        };
        let found = contents(&files);
        assert_eq!(found["sandbox-image/with.txt"], b"rich>=13\ntqdm\n");
        assert_eq!(found["sandbox-image/ca-bundle.pem"], b"pem");
        assert!(found[BuildFiles::RECIPE].starts_with(b"# The sandbox image"));
        assert_eq!(found.len(), 1 + OF_IMAGE.len() + 2);
        let files = BuildFiles {
            default_set: true,
            packages: Packages::Locked(vec!["a==1".into()]),
            certificates: None,
        };
        let found = contents(&files);
        assert_eq!(found["sandbox-image/with.lock"], b"a==1\n");
        assert!(found["sandbox-image/requirements.lock"].windows(7).any(|part| part == b"numpy=="));
        assert_eq!(found.len(), 1 + OF_IMAGE.len() + 2);
        let names: Vec<_> = files.of_environment().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["make-environment.sh", "lock-packages.py", "requirements.lock", "with.lock"]);
    }

    #[test]
    fn the_data_science_set_has_no_client_of_the_network() {
        let names: Vec<&str> =
            DEFAULT_SET.1.lines().filter_map(|line| line.split_once("==")).map(|(name, _)| name).collect();
        for wanted in [
            "numpy",
            "pandas",
            "scipy",
            "scikit-learn",
            "matplotlib",
            "seaborn",
            "pyarrow",
            "polars",
            "openpyxl",
        ] {
            assert!(names.contains(&wanted), "{wanted}");
        }
        assert!(names.len() > 20 && !names.contains(&"requests") && !names.contains(&"urllib3"), "{names:?}");
    }

    #[test]
    fn one_file_comes_out_of_an_archive_within_its_bound() {
        let mut archive = tar::Builder::new(vec![]);
        add(&mut archive, "with.lock", b"12345").unwrap();
        let archive = archive.into_inner().unwrap();
        assert_eq!(file_of_archive(&archive, 5).unwrap(), b"12345");
        assert_eq!(file_of_archive(&archive, 4).unwrap_err().to_string(), "its file is larger than 4 bytes");
        assert!(file_of_archive(&[], 5).is_err());
    }
}
