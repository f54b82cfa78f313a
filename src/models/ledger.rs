//! What a run and its session have asked of models, and whether they may ask more.
//!
//! Tokens are reserved before a request and counted after it, so that requests under way at once cannot pass a budget
//! together.

use std::time::Duration;

/// The bounds on requests to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Requests of one run.
    pub requests_per_run: u64,
    /// Requests of one session.
    pub requests_per_session: u64,
    /// Tokens of one run, sent and received.
    pub tokens_per_run: u64,
    /// The same of one session.
    pub tokens_per_session: u64,
    /// The longest time of one request, including retries.
    pub time: Duration,
    /// The largest number of simultaneous requests; at least 1.
    pub at_once: usize,
}

/// A budget that does not cover a request.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// Of requests.
    #[error("model.{key}: {max} requests are all that a {what} may make")]
    Requests {
        /// The setting.
        key: &'static str,
        /// Its value.
        max: u64,
        /// Run or session.
        what: &'static str,
    },
    /// Of tokens.
    #[error(
        "model.{key}: {used} of {max} tokens are used or under way in this {what}, and this request may take {wanted}"
    )]
    Tokens {
        /// The setting.
        key: &'static str,
        /// Its value.
        max: u64,
        /// How many of them are used.
        used: u64,
        /// How many it may take.
        wanted: u64,
        /// Run or session.
        what: &'static str,
    },
}

/// The use of the model in one session.
#[derive(Debug, Default)]
pub struct Ledger {
    session: RunBudget,
}

/// The use of the model by one run and its jobs.
#[derive(Debug, Default)]
pub struct RunBudget {
    requests: u64,
    tokens: u64,
}

/// The tokens that a request in progress may use. [`Ledger::settle`] takes it back.
#[derive(Debug)]
#[must_use]
pub struct TokenReservation {
    tokens: u64,
}

impl Ledger {
    /// Counts a request of this run that is about to be made, which may take so many tokens.
    ///
    /// # Errors
    /// The budget that does not cover it; then nothing is counted.
    pub fn reserve(
        &mut self,
        bounds: &Bounds,
        run: &mut RunBudget,
        tokens: u64,
    ) -> Result<TokenReservation, BudgetError> {
        let budgets = [
            (
                &*run,
                "run",
                ("requests_per_run", bounds.requests_per_run),
                ("tokens_per_run", bounds.tokens_per_run),
            ),
            (
                &self.session,
                "session",
                ("requests_per_session", bounds.requests_per_session),
                ("tokens_per_session", bounds.tokens_per_session),
            ),
        ];
        for (used, what, requests, of_tokens) in budgets {
            if used.requests >= requests.1 {
                return Err(BudgetError::Requests { key: requests.0, max: requests.1, what });
            }
            if used.tokens.saturating_add(tokens) > of_tokens.1 {
                let (key, max) = of_tokens;
                return Err(BudgetError::Tokens { key, max, used: used.tokens, wanted: tokens, what });
            }
        }
        for used in [run, &mut self.session] {
            used.requests += 1;
            used.tokens += tokens;
        }
        Ok(TokenReservation { tokens })
    }

    /// The request of this run is over, and has taken so many tokens.
    pub fn settle(&mut self, run: &mut RunBudget, reservation: TokenReservation, taken: u64) {
        for used in [run, &mut self.session] {
            used.tokens = (used.tokens - reservation.tokens).saturating_add(taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        requests_per_run: 3,
        requests_per_session: 5,
        tokens_per_run: 100,
        tokens_per_session: 150,
        time: Duration::from_secs(1),
        at_once: 1,
    };

    fn said(result: Result<TokenReservation, BudgetError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn requests_of_a_run_and_of_a_session_are_counted() {
        let mut ledger = Ledger::default();
        for made in [3, 2] {
            let mut run = RunBudget::default();
            for _ in 0..made {
                let reservation = ledger.reserve(&BOUNDS, &mut run, 1).unwrap();
                ledger.settle(&mut run, reservation, 1);
            }
            let (key, max, what) = if made == 3 { ("run", 3, "run") } else { ("session", 5, "session") };
            assert_eq!(
                said(ledger.reserve(&BOUNDS, &mut run, 1)),
                format!("model.requests_per_{key}: {max} requests are all that a {what} may make")
            );
        }
    }

    #[test]
    fn tokens_under_way_count_and_what_was_not_taken_is_given_back() {
        let (mut ledger, mut run) = (Ledger::default(), RunBudget::default());
        let first = ledger.reserve(&BOUNDS, &mut run, 60).unwrap();
        assert_eq!(
            said(ledger.reserve(&BOUNDS, &mut run, 41)),
            "model.tokens_per_run: 60 of 100 tokens are used or under way in this run, and this request may take 41"
        );
        ledger.settle(&mut run, first, 10);
        let second = ledger.reserve(&BOUNDS, &mut run, 90).unwrap();
        // More than it was to take, by the endpoint's word, which may be anything.
        ledger.settle(&mut run, second, u64::MAX);
        assert!(said(ledger.reserve(&BOUNDS, &mut run, 1)).starts_with("model.tokens_per_run"));
        let next = said(ledger.reserve(&BOUNDS, &mut RunBudget::default(), 1));
        assert!(next.starts_with("model.tokens_per_session"), "{next}");
    }
}
