//! What stands in the encoder's place in a program that was built without it: nothing that could be loaded.

use std::convert::Infallible;
use std::path::Path;

use super::error::EncoderError;

/// An encoder that nobody can have.
#[derive(Debug)]
pub struct Encoder(Infallible);

impl Encoder {
    /// Refuses.
    ///
    /// # Errors
    /// [`EncoderError::NotBuilt`], always.
    pub fn load(_folder: &Path) -> Result<Self, EncoderError> {
        Err(EncoderError::NotBuilt)
    }

    /// See the encoder of the same name.
    #[must_use]
    pub fn model(&self) -> &str {
        match self.0 {}
    }

    /// See the encoder of the same name.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        match self.0 {}
    }

    /// See the encoder of the same name.
    ///
    /// # Errors
    /// None: nobody has one.
    pub fn encode(&self, _text: &str) -> Result<Vec<f32>, EncoderError> {
        match self.0 {}
    }
}

/// Refuses.
///
/// # Errors
/// [`EncoderError::NotBuilt`], always.
pub fn install(_from: &Path, _place: &Path) -> Result<Encoder, EncoderError> {
    Err(EncoderError::NotBuilt)
}
