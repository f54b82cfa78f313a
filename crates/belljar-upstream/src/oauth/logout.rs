//! Ends a login: removes it here, and revokes it at the authorization server if that can be reached.

use std::io;

use super::discovery::ServerMetadata;
use super::grant::revoked;
use super::http_policy::HttpPolicy;
use super::service::authentication;
use crate::LoginSpec;

/// The outcome of a logout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogoutOutcome {
    /// There was no login.
    NoLogin,
    /// The login is removed, and its tokens are revoked.
    Revoked,
    /// The login is removed here, but the authorization server could not be notified for this reason.
    OnlyHere(String),
}

/// Removes the login, even one that was made for another address, and revokes its tokens.
///
/// # Errors
/// The file cannot be removed.
pub async fn log_out(LoginSpec { file, settings }: &LoginSpec) -> io::Result<LogoutOutcome> {
    let _lock = file.lock().await?;
    let kept = file.kept();
    if !file.remove()? {
        return Ok(LogoutOutcome::NoLogin);
    }
    let told = match kept {
        Ok(Some(login)) => {
            let issuer = login.grant.issuer.clone().unwrap_or_default();
            let metadata = ServerMetadata::unread(issuer);
            let client = || match &settings.service {
                Some(service) if login.service.is_some() => {
                    authentication(service.client.as_ref(), &metadata)
                }
                _ => Ok(login.grant.client.authentication()),
            };
            revoked(&HttpPolicy::of(&login.server), &login, client).await
        }
        Ok(None) => Ok(()),
        Err(error) => Err(format!("the kept login cannot be read: {error}")),
    };
    Ok(told.map_or_else(LogoutOutcome::OnlyHere, |()| LogoutOutcome::Revoked))
}
