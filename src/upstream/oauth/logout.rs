//! Ends a login: here, and at the authorization server where that can be told.

use std::io;

use super::discovery::ServerMetadata;
use super::grant::revoked;
use super::http_policy::HttpPolicy;
use super::service::authentication;
use crate::upstream::LoginSpec;

/// What became of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedOut {
    /// There was none.
    NoLogin,
    /// It is gone, and its tokens are good for nothing.
    Revoked,
    /// It is gone, but the authorization server was not told; why.
    OnlyHere(String),
}

/// Removes the login, whatever address it is for, and revokes its tokens.
///
/// # Errors
/// When the file cannot be removed.
pub async fn log_out(LoginSpec { file, settings }: &LoginSpec) -> io::Result<LoggedOut> {
    let _lock = file.lock().await?;
    let kept = file.kept();
    if !file.remove()? {
        return Ok(LoggedOut::NoLogin);
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
    Ok(told.map_or_else(LoggedOut::OnlyHere, |()| LoggedOut::Revoked))
}
