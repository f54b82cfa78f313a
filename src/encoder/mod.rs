//! Sentences as vectors: reads a folder with a BERT-style model and computes on the CPU. It knows no tools and keeps
//! nothing.

#[cfg(not(feature = "semantic"))]
mod absent;
#[cfg(feature = "semantic")]
mod bert;
mod error;
#[cfg(feature = "semantic")]
mod folder;
#[cfg(feature = "semantic")]
mod install;
#[cfg(feature = "semantic")]
mod sentence;
#[cfg(feature = "semantic")]
mod tokens;
#[cfg(feature = "semantic")]
mod weights;

#[cfg(not(feature = "semantic"))]
pub use absent::{Encoder, install};
pub use error::EncoderError;
#[cfg(feature = "semantic")]
pub use install::install;
#[cfg(feature = "semantic")]
pub use sentence::Encoder;

#[cfg(all(test, feature = "semantic"))]
#[path = "encoder_tests.rs"]
mod tests;
#[cfg(all(test, feature = "semantic"))]
#[path = "tiny_tests.rs"]
pub(crate) mod tiny;
