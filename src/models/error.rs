//! Why a model has not answered.

use std::time::Duration;

/// Each names what it is about as "the model's endpoint", which is known to whoever reads it; no text in it holds the key.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// It cannot be asked as it is set.
    #[error("the model's endpoint cannot be used: {reason}")]
    Unusable {
        /// Why.
        reason: String,
    },
    /// Nobody listens there; nothing was sent.
    #[error("the model's endpoint {origin} cannot be reached: {reason}")]
    NotReached {
        /// Scheme, host and port.
        origin: String,
        /// Why.
        reason: String,
    },
    /// It wants another key, or none was sent.
    #[error("the model's endpoint {origin} refuses the key: HTTP {status}{said}")]
    NotAllowed {
        /// Scheme, host and port.
        origin: String,
        /// Of HTTP.
        status: u16,
        /// `: ` and its words, harmless to show; or nothing.
        said: String,
    },
    /// It does not answer this request, nor would it a second time.
    #[error("the model's endpoint {origin} refuses the request: HTTP {status}{said}")]
    Refused {
        /// Scheme, host and port.
        origin: String,
        /// Of HTTP.
        status: u16,
        /// As above.
        said: String,
    },
    /// It asks to be left alone, or fails, each time.
    #[error("the model's endpoint {origin} did not answer, asked {times}: HTTP {status}{said}")]
    Busy {
        /// Scheme, host and port.
        origin: String,
        /// Of HTTP, the last time.
        status: u16,
        /// As above.
        said: String,
        /// How often, in words.
        times: String,
        /// How long it wants to be left alone, where it says so.
        wants: Option<Duration>,
    },
    /// The connection was lost before the whole answer was there.
    #[error("the model's endpoint {origin} gave no whole answer: {reason}")]
    Broken {
        /// Scheme, host and port.
        origin: String,
        /// Why.
        reason: String,
    },
    /// Its answer is not one that this interface defines.
    #[error("the model's endpoint {origin} cannot be understood: {reason}")]
    Nonsense {
        /// Scheme, host and port.
        origin: String,
        /// Why.
        reason: String,
    },
    /// Its answer is too large.
    #[error("the model's endpoint {origin} answers with more than {bytes_max} bytes")]
    TooLarge {
        /// Scheme, host and port.
        origin: String,
        /// How large one may be.
        bytes_max: usize,
    },
}
