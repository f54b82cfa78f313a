//! JSON-RPC messages as lines, carried between rmcp and a peer.
//!
//! Nothing is lost in silence: what cannot be read is answered or reported to whoever waits for it. It decides nothing
//! about what messages mean; the modules on both sides say how their bodies are read.

mod envelope;
mod lines;
mod outline;
mod repair;
mod requests;
mod transport;

pub use envelope::{Envelope, LineError, answer_with_id, answered_error, answered_id, is_message, message};
pub use lines::{ENDLESS_TIMES, Incoming, Line, LineSink};
pub use repair::repaired;
pub use transport::{LineTransport, Messages, OnUnreadable, WITHDRAWING};
