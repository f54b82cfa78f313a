//! Times as journals have them: RFC 3339 in UTC, which sorts as text.

use chrono::{SecondsFormat, TimeDelta, Utc};

/// Now.
#[must_use]
pub fn now() -> String {
    Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// So many days before now; nothing where there is no such time.
#[must_use]
pub fn days_ago(days: u32) -> Option<String> {
    let then = Utc::now().checked_sub_signed(TimeDelta::try_days(days.into())?)?;
    Some(then.to_rfc3339_opts(SecondsFormat::Millis, true))
}
