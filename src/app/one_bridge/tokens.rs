//! The tokens by which clients come in over HTTP: a file for each, named after the token's digest, so that the token itself is
//! stored nowhere.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belljar_base::names::{OWNER_NAME_RULE, is_owner_name};
use belljar_base::{clock, digest, own_file};
use nix::fcntl::{Flock, FlockArg};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

/// What every token begins with, so that scanners for leaked secrets can find it.
const PREFIX: &str = "belljar_";
/// What the names of owners begin with whom an OAuth issuer names. No token has such a name.
pub(super) const OAUTH_PREFIX: &str = "oauth-";
/// The random bytes of a token.
const BYTES: usize = 32;
/// The largest file of a token, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// The largest number of tokens.
const TOKENS_MAX: usize = 1_000;

/// The tokens of this user.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    dir: PathBuf,
}

/// What a token allows, and whom it names. A subject of an OAuth issuer has one that is stored nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Token {
    /// The name of the owner of its sessions.
    pub(crate) name: String,
    /// When it was made, in RFC 3339. For a subject of an OAuth issuer it is a digest, which stays the same.
    pub(crate) created: String,
    /// When it ends to be valid; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<String>,
    /// The profile of the policy for its sessions; `None`: the user's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<String>,
    /// The servers for its sessions; `None`: those of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) servers: Option<Vec<String>>,
    /// Whether it reads `/metrics`, and nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) metrics: bool,
}

/// The reason why a token does not let anybody in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    /// The request has no bearer token.
    #[error("the request has no bearer token")]
    Missing,
    /// No such token was made, or it was removed.
    #[error("the token is unknown")]
    Unknown,
    /// The tokens cannot be read now.
    #[error("the tokens of belljar cannot be read now")]
    Unreadable,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
}

/// The reason why no token is added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddError {
    /// The name cannot name folders.
    #[error("a name {OWNER_NAME_RULE}")]
    Name,
    /// The name could be the one of an OAuth owner.
    #[error("a name that begins with {OAUTH_PREFIX} is one of an owner whom an OAuth issuer names")]
    OAuthName,
    /// A blank list would mean all servers.
    #[error("--servers has a blank name")]
    Servers,
    /// Another token has the name.
    #[error("there is a token {0:?} already; `belljar token rm {0}` removes it")]
    Exists(String),
    /// Enough is enough.
    #[error("there are {TOKENS_MAX} tokens already; `belljar token rm NAME` removes one")]
    TooMany,
    /// The folder of tokens cannot be read or written.
    #[error("the folder of tokens cannot be used: {0}")]
    Io(#[from] io::Error),
}

impl Token {
    fn is_over(&self) -> bool {
        self.expires.as_ref().is_some_and(|expires| *expires <= clock::timestamp())
    }
}

impl Tokens {
    /// The tokens in belljar's state folder.
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { dir: state_dir.join("tokens") }
    }

    /// Adds a token, and returns its text, which cannot be had again.
    ///
    /// # Errors
    /// The name cannot be used, or the folder.
    pub(crate) fn add(&self, token: &Token) -> Result<String, AddError> {
        if !is_owner_name(&token.name) {
            return Err(AddError::Name);
        }
        if token.name.starts_with(OAUTH_PREFIX) {
            return Err(AddError::OAuthName);
        }
        if token.servers.as_ref().is_some_and(|names| names.iter().any(|name| name.trim().is_empty())) {
            return Err(AddError::Servers);
        }
        // Two at once do not add the same name.
        let _turn = self.turn()?;
        let all = self.all()?;
        if all.iter().any(|(_, other)| other.name == token.name) {
            return Err(AddError::Exists(token.name.clone()));
        }
        if all.len() >= TOKENS_MAX {
            return Err(AddError::TooMany);
        }
        let mut bytes = [0; BYTES];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| io::Error::other("the system gives no random bytes"))?;
        let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
        let json = serde_json::to_vec(token).map_err(io::Error::other)?;
        own_file::create(&self.dir, &file_of(&text), &json)?;
        Ok(text)
    }

    /// All tokens, by name, with their files.
    ///
    /// # Errors
    /// The folder or a file of it cannot be read.
    pub(crate) fn all(&self) -> io::Result<Vec<(PathBuf, Token)>> {
        let files = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            files => files?,
        };
        let mut all = Vec::new();
        for file in files {
            let path = file?.path();
            if path.extension().is_some_and(|ending| ending == "json") {
                let token = read(&path)?;
                all.push((path, token));
            }
        }
        all.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        Ok(all)
    }

    /// The tokens that let somebody in now.
    ///
    /// # Errors
    /// As of [`Self::all`].
    pub(super) fn valid(&self) -> io::Result<Vec<Token>> {
        Ok(self.all()?.into_iter().map(|(_, token)| token).filter(|token| !token.is_over()).collect())
    }

    /// Removes the token with this name. Its sessions end. Returns whether there was one.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub(crate) fn remove(&self, name: &str) -> io::Result<bool> {
        let found = self.all()?.into_iter().find(|(_, token)| token.name == name);
        let Some((path, _)) = found else { return Ok(false) };
        std::fs::remove_file(path)?;
        Ok(true)
    }

    fn turn(&self) -> io::Result<Flock<File>> {
        own_file::make_folder(&self.dir)?;
        let file = own_file::open(&self.dir.join("lock"), File::options().append(true).create(true))?;
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error.into())
    }

    /// The token of a request with this `Authorization` header.
    ///
    /// # Errors
    /// The reason why the request is refused.
    pub(crate) fn of_request(&self, authorization: Option<&str>) -> Result<Token, TokenError> {
        let text = bearer(authorization).ok_or(TokenError::Missing)?;
        // A digest of 256 random bits tells nobody anything, so comparing it takes no care about time.
        let token = read(&self.dir.join(file_of(text))).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => TokenError::Unknown,
            _ => TokenError::Unreadable,
        })?;
        if token.is_over() { Err(TokenError::Expired) } else { Ok(token) }
    }
}

/// The token in an `Authorization` header; `None`: there is no bearer token.
fn bearer(authorization: Option<&str>) -> Option<&str> {
    let (scheme, text) = authorization?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| text.trim())
}

/// The token in an `Authorization` header that belljar has not made; `None`: there is no such token.
pub(super) fn of_others(authorization: Option<&str>) -> Option<&str> {
    bearer(authorization).filter(|text| !text.is_empty() && !text.starts_with(PREFIX))
}

/// The end of a token's time.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn expiry(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is no time; write a number with m, h or d behind it, as in 90d");
    let (at, unit) = text.char_indices().next_back().ok_or_else(wrong)?;
    let unit_s = match unit {
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number = text[..at].parse::<u64>().ok().filter(|number| *number > 0);
    let ahead = number.and_then(|number| number.checked_mul(unit_s)).map(Duration::from_secs);
    // Years of five digits would not sort by time.
    ahead
        .and_then(clock::timestamp_after)
        .filter(|time| time.starts_with(|first: char| first.is_ascii_digit()))
        .ok_or_else(wrong)
}

fn file_of(text: &str) -> String {
    format!("{}.json", digest::sha256(text.as_bytes()))
}

fn read(path: &Path) -> io::Result<Token> {
    let bytes = own_file::read(path, FILE_BYTES_MAX)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| io::Error::other(format!("{} is no token: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str) -> Token {
        Token {
            name: name.into(),
            created: clock::timestamp(),
            expires: None,
            policy: None,
            servers: None,
            metrics: false,
        }
    }

    #[test]
    fn a_token_counts_until_it_is_removed_and_is_stored_nowhere() {
        let state = tempfile::tempdir().unwrap();
        let tokens = Tokens::new(state.path());
        let text = tokens.add(&token("laptop")).unwrap();
        assert!(text.starts_with("belljar_") && text.len() == 8 + 43, "{text}");
        assert!(matches!(tokens.add(&token("laptop")), Err(AddError::Exists(_))));
        let other = tokens.add(&token("other")).unwrap();
        let of = |header: &str| tokens.of_request(Some(header)).map(|token| token.name);
        assert_eq!(of(&format!("Bearer {text}")), Ok("laptop".into()));
        assert_eq!(of(&format!("bearer {other}")), Ok("other".into()));
        assert_eq!(tokens.of_request(None), Err(TokenError::Missing));
        for (header, why) in [
            (format!("Basic {text}"), TokenError::Missing),
            (text.clone(), TokenError::Missing),
            (format!("Bearer {}", &text[..text.len() - 1]), TokenError::Unknown),
            ("Bearer ../../x".into(), TokenError::Unknown),
            ("Bearer ".into(), TokenError::Unknown),
        ] {
            assert_eq!(of(&header), Err(why), "{header}");
        }
        for (file, _) in tokens.all().unwrap() {
            let stored = std::fs::read_to_string(&file).unwrap() + &file.display().to_string();
            assert!(!stored.contains(&text) && !stored.contains(&text[8..]), "{stored}");
        }
        assert!(tokens.remove("laptop").unwrap() && !tokens.remove("laptop").unwrap());
        assert_eq!(of(&format!("Bearer {text}")), Err(TokenError::Unknown));
        assert_eq!(of(&format!("Bearer {other}")), Ok("other".into()));
    }

    #[test]
    fn a_token_ends_at_its_time() {
        let state = tempfile::tempdir().unwrap();
        let tokens = Tokens::new(state.path());
        let over = Token { expires: Some("2020-01-01T00:00:00.000Z".into()), ..token("over") };
        let lasting = Token { expires: Some(expiry("90d").unwrap()), ..token("lasting") };
        let (over, lasting) = (tokens.add(&over).unwrap(), tokens.add(&lasting).unwrap());
        assert_eq!(tokens.of_request(Some(&format!("Bearer {over}"))), Err(TokenError::Expired));
        assert!(tokens.of_request(Some(&format!("Bearer {lasting}"))).is_ok());
        for wrong in ["", "d", "0d", "90", "-1d", "90 d", "9999999999999999d", "1y", "é"] {
            assert!(expiry(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_name_can_name_folders() {
        let state = tempfile::tempdir().unwrap();
        for wrong in ["", "..", "A", "a/b", "-a", ".a", "a b", "é", &"a".repeat(41)] {
            assert!(matches!(Tokens::new(state.path()).add(&token(wrong)), Err(AddError::Name)), "{wrong:?}");
        }
    }
}
