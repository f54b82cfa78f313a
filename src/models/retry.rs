//! Whether and when a request is made again that was not answered; no input or output.

use std::time::Duration;

/// Requests for one answer.
pub(super) const TIMES_MAX: u32 = 4;
/// Before the second one; twice as long before each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest that an endpoint may ask for.
const WANTED_MAX: Duration = Duration::from_secs(60);

/// How long to wait until the next one, after so many; `None`: there is none. `left` is all the time that there is.
pub(super) fn pause(times: u32, wanted: Option<Duration>, left: Duration) -> Option<Duration> {
    if times >= TIMES_MAX || wanted.is_some_and(|wanted| wanted > WANTED_MAX) {
        return None;
    }
    let usual = FIRST_PAUSE * 2u32.pow(times.saturating_sub(1));
    let pause = wanted.map_or(usual, |wanted| wanted.max(usual));
    (pause < left).then_some(pause)
}

/// Whether an answer of this status may be another one next time.
pub(super) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504 | 529)
}

/// How long a Retry-After asks for. A date is not read: then it goes on as without.
pub(super) fn wanted(retry_after: &str) -> Option<Duration> {
    let seconds: f64 = retry_after.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1_000);

    #[test]
    fn pauses_double_and_are_never_shorter_than_asked_for_nor_longer_than_the_time() {
        let seconds = |times, wanted: Option<u64>, left| {
            pause(times, wanted.map(Duration::from_secs), left).map(|pause| pause.as_secs_f64())
        };
        assert_eq!(
            [1, 2, 3, 4].map(|times| seconds(times, None, LONG)),
            [Some(0.5), Some(1.0), Some(2.0), None]
        );
        assert_eq!(
            [0, 7, 60, 61].map(|wanted| seconds(1, Some(wanted), LONG)),
            [Some(0.5), Some(7.0), Some(60.0), None]
        );
        assert_eq!(seconds(1, Some(7), Duration::from_secs(7)), None);
        assert_eq!(seconds(1, None, Duration::from_millis(400)), None);
    }

    #[test]
    fn what_asks_for_a_pause_is_read_and_nonsense_is_none() {
        assert_eq!(wanted(" 2 "), Some(Duration::from_secs(2)));
        for nonsense in ["", "-1", "nan", "inf", "1e300", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(wanted(nonsense), None, "{nonsense}");
        }
        assert!([429, 503].into_iter().all(is_passing));
        assert!(![200, 302, 400, 401, 404, 501].into_iter().any(is_passing));
    }
}
