//! The file with the login at one server. It belongs to this user only, is replaced as a whole, and is for one address
//! only.
//!
//! This module sends no requests, and does not know whether a server still accepts a login.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_base::clock;
use belljar_base::digest;
use belljar_base::names::ServerName;
use belljar_base::own_file;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::service_login::LoginSettings;

/// Largest file, in bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// The longest server name that is part of a file name, in bytes; a longer one is replaced by its hash.
const NAME_BYTES_MAX: usize = 100;
/// The longest wait for another process's lock, and the pause between attempts.
const LOCK: (Duration, Duration) = (Duration::from_secs(30), Duration::from_millis(20));

/// The file of the login of one server. It need not exist.
#[derive(Clone, PartialEq, Eq)]
pub struct LoginFile {
    dir: PathBuf,
    name: String,
    url: Url,
}

/// The state of a login, as far as it is known without a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginState {
    /// There is no login.
    None,
    /// The stored login was made for another address, and is not used.
    OfAnotherAddress,
    /// The file of the login cannot be read, for this reason.
    Unreadable(String),
    /// There is a login.
    LoggedIn {
        /// The time until its token ends, if that is known.
        ends_in: Option<Duration>,
        /// Whether the token can be renewed without the user.
        renews: bool,
        /// Whether the token is bound to a key (DPoP).
        is_bound: bool,
    },
}

/// The fingerprint of a login file, which differs when the file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoginFingerprint(u64, i64, i64, u64);

/// A stored login. It holds secrets, so it has no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Login {
    /// The address of the server.
    pub(super) server: Url,
    /// The issuer and the client of the token.
    pub(super) grant: Grant,
    /// The token that is sent with each request.
    pub(super) access_token: String,
    /// The token that is exchanged for the next access token.
    pub(super) refresh_token: Option<String>,
    /// The end of the access token, in seconds since 1970.
    pub(super) ends: Option<u64>,
    /// The time from which the access token is renewed, in seconds since 1970.
    pub(super) renew_from: Option<u64>,
    /// The key that the token is bound to (DPoP); `None` for bearer tokens.
    pub(super) dpop_key: Option<String>,
    /// The identity of the login without a user, from [`ServiceLogin::identity`]; `None` for a login of the user.
    ///
    /// [`ServiceLogin::identity`]: crate::service_login::ServiceLogin::identity
    pub(super) service: Option<String>,
}

/// The issuer, the client and the resource of a token. It holds a secret, so it has no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Grant {
    /// The issuer identifier of the authorization server.
    pub(super) issuer: Option<String>,
    pub(super) token_endpoint: Url,
    pub(super) revocation_endpoint: Option<Url>,
    /// The identifier of the resource that the token is for (RFC 8707).
    pub(super) resource: Option<String>,
    /// The scopes of the token, if they are known.
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    pub(super) client: ClientRegistration,
}

/// The registration of belljar as a client of the authorization server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ClientRegistration {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    /// The part of a request that carries the secret.
    pub(super) secret_in: SecretIn,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SecretIn {
    Header,
    Body,
}

/// The reason for which a stored login cannot be used.
pub(super) enum LoginFileError {
    OfAnotherAddress,
    Unreadable(io::Error),
}

impl LoginFile {
    /// The file in this folder for the login at the server with this address.
    #[must_use]
    pub fn new(dir: PathBuf, server: &ServerName, url: Url) -> Self {
        Self { dir, name: file_name(server.as_str()), url }
    }

    /// The state of the stored login. A login that was made with other settings counts as none.
    #[must_use]
    pub fn state(&self, settings: &LoginSettings) -> LoginState {
        match self.read() {
            Ok(Some(login)) if login.is_of(settings) => LoginState::LoggedIn {
                ends_in: login
                    .ends
                    .map(|ends| Duration::from_secs(ends.saturating_sub(clock::unix_seconds()))),
                renews: login.is_renewable(),
                is_bound: login.dpop_key.is_some(),
            },
            Ok(_) => LoginState::None,
            Err(LoginFileError::OfAnotherAddress) => LoginState::OfAnotherAddress,
            Err(LoginFileError::Unreadable(error)) => LoginState::Unreadable(error.to_string()),
        }
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn read(&self) -> Result<Option<Login>, LoginFileError> {
        match self.kept() {
            Ok(Some(login)) if login.server != self.url => Err(LoginFileError::OfAnotherAddress),
            Ok(login) => Ok(login),
            Err(error) => Err(LoginFileError::Unreadable(error)),
        }
    }

    /// The stored login, even if it was made for another address.
    pub(super) fn kept(&self) -> io::Result<Option<Login>> {
        let bytes = own_file::unless_missing(own_file::read(&self.path(), FILE_BYTES_MAX))?;
        // serde's message would quote the file.
        let misshapen = |_| io::Error::other("it is no login as belljar writes it");
        bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(misshapen)).transpose()
    }

    pub(super) fn write(&self, login: &Login) -> io::Result<()> {
        own_file::write(&self.dir, &self.name, &serde_json::to_vec(login)?)
    }

    /// Removes the file. Returns whether there was one.
    pub(super) fn remove(&self) -> io::Result<bool> {
        own_file::remove(&self.path())
    }

    pub(super) fn fingerprint(&self) -> Option<LoginFingerprint> {
        let about = fs::symlink_metadata(self.path()).ok()?;
        Some(LoginFingerprint(about.ino(), about.mtime(), about.mtime_nsec(), about.len()))
    }

    /// Locks the login, so that no other process renews or replaces it until the lock is dropped.
    pub(super) async fn lock(&self) -> io::Result<Flock<File>> {
        own_file::make_folder(&self.dir)?;
        let lock = self.path().with_extension("lock");
        let mut file = own_file::open(&lock, File::options().append(true).create(true))?;
        let (longest, pause) = LOCK;
        let until = tokio::time::Instant::now() + longest;
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((back, Errno::EWOULDBLOCK)) if tokio::time::Instant::now() < until => file = back,
                Err((_, error)) => return Err(error.into()),
            }
            tokio::time::sleep(pause).await;
        }
    }

    fn path(&self) -> PathBuf {
        Path::new(&self.dir).join(&self.name)
    }
}

impl Login {
    /// Whether the token has to be renewed, and can be.
    pub(super) fn is_due(&self) -> bool {
        self.is_renewable() && self.renew_from.is_some_and(|from| clock::unix_seconds() >= from)
    }

    fn is_renewable(&self) -> bool {
        self.refresh_token.is_some() || self.service.is_some()
    }

    /// Whether the login fits the present settings of the server's entry.
    pub(super) fn is_of(&self, settings: &LoginSettings) -> bool {
        let is_same = self.service == settings.service.as_ref().map(|service| service.identity());
        is_same && (self.dpop_key.is_some() || !settings.requires_dpop)
    }

    /// The secrets that must not appear in any text.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        let client = self.grant.client.secret.as_deref();
        let tokens = std::iter::once(self.access_token.as_str()).chain(self.refresh_token.as_deref());
        tokens.chain(client).chain(self.dpop_key.as_deref())
    }
}

fn file_name(server: &str) -> String {
    let is_plain = server.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_plain && server.len() <= NAME_BYTES_MAX && !server.starts_with('.') {
        return format!("{server}.json");
    }
    format!("={}.json", digest::sha256(server.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(dir: &Path, url: &str) -> LoginFile {
        LoginFile::new(dir.join("oauth"), &ServerName::new("far").unwrap(), url.parse().unwrap())
    }

    fn state(file: &LoginFile) -> LoginState {
        file.state(&LoginSettings::default())
    }

    fn login(url: &str) -> Login {
        let kept = serde_json::json!({"server": url, "access_token": "t0ken", "refresh_token": "refresh",
            "grant": {"token_endpoint": url, "client": {"id": "x", "secret": "s3cret", "secret_in": "header"}}});
        serde_json::from_value(kept).unwrap()
    }

    #[test]
    fn names_that_are_no_plain_file_names_stand_as_their_hash() {
        assert_eq!(file_name("my-server_1.x"), "my-server_1.x.json");
        for name in ["../x", "a b", ".hidden", "\u{e9}", "a/b", &"x".repeat(101)] {
            let file = file_name(name);
            assert!(file.len() == 70 && file.starts_with('='), "{file}");
        }
        assert_ne!(file_name("a/b"), file_name("a b"));
    }

    #[test]
    fn a_login_counts_for_its_own_address_only_and_only_from_a_file_of_the_user_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (here, there) =
            (place(dir.path(), "https://a.test/mcp"), place(dir.path(), "https://a.test/other"));
        assert_eq!(state(&here), LoginState::None);
        here.write(&login("https://a.test/mcp")).unwrap();
        assert_eq!(state(&here), LoginState::LoggedIn { ends_in: None, renews: true, is_bound: false });
        assert_eq!(state(&there), LoginState::OfAnotherAddress);
        let path = dir.path().join("oauth/far.json");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(state(&here), LoginState::Unreadable(why) if why.contains("mode 0600")));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, r#"{"access_token": "t0ken"}"#).unwrap();
        assert_eq!(state(&here), LoginState::Unreadable("it is no login as belljar writes it".into()));
        assert!(here.remove().unwrap() && !here.remove().unwrap());
        assert_eq!(state(&here), LoginState::None);
    }

    #[tokio::test]
    async fn one_at_a_time_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let file = place(dir.path(), "https://a.test/");
        let held = file.lock().await.unwrap();
        let (other, order) = (file.clone(), std::sync::Arc::new(parking_lot::Mutex::new(vec![])));
        let noted = std::sync::Arc::clone(&order);
        let waiting = tokio::spawn(async move {
            let _lock = other.lock().await.unwrap();
            noted.lock().push("second");
        });
        tokio::time::sleep(LOCK.1 * 5).await;
        order.lock().push("first");
        drop(held);
        waiting.await.unwrap();
        assert_eq!(*order.lock(), ["first", "second"]);
        let folder = dir.path().join("oauth");
        fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(file.lock().await.is_err(), "others could hold it for ever");
    }
}
