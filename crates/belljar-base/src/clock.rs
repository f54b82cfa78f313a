//! The time of day, for people, files and other processes.
//!
//! The user can set that clock, so nothing is measured with it: durations and deadlines use `Instant`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

/// The time of day.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place where that clock is read")]
pub fn now() -> DateTime<Utc> {
    SystemTime::now().into()
}

/// Whole seconds since 1970.
#[must_use]
pub fn unix_seconds() -> u64 {
    SystemTime::from(now()).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The time of day in RFC 3339, in UTC and with milliseconds. Such texts sort by time.
#[must_use]
pub fn timestamp() -> String {
    text_of(now())
}

/// The same form of the time that was this long ago; `None` if no year has it.
#[must_use]
pub fn timestamp_before(ago: Duration) -> Option<String> {
    now().checked_sub_signed(TimeDelta::from_std(ago).ok()?).map(text_of)
}

/// The same form of the time that is this far ahead; `None` if no year has it.
#[must_use]
pub fn timestamp_after(ahead: Duration) -> Option<String> {
    now().checked_add_signed(TimeDelta::from_std(ahead).ok()?).map(text_of)
}

/// The time until a date as HTTP headers have it, in whole seconds, and none if it has passed; `None`: it is no date.
#[must_use]
pub fn time_until(date: &str) -> Option<Duration> {
    // The day of the week says nothing more, and may be wrong.
    let date = date.split_once(',').map_or(date, |(_, date)| date).trim();
    let seconds = (DateTime::parse_from_rfc2822(date).ok()?.to_utc() - now()).num_seconds() + 1;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

fn text_of(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}
