//! The encoder: a sentence in, a vector of length 1 out; sentences that mean much the same have vectors that point the
//! same way.

use std::fmt;
use std::path::Path;

use candle_core::Tensor;
use rayon::ThreadPool;

use super::bert::{Bert, failed};
use super::error::EncoderError;
use super::folder::{ModelConfig, Pooling};
use super::tokens::Tokens;
use super::weights::Weights;

/// Tokens of a sentence that count: what comes later is rarely about the matter, and time grows with them.
const TOKENS_MAX: usize = 128;

/// A sentence encoder, from a folder with a model. It holds the weights in memory in 32 bits.
pub struct Encoder {
    bert: Bert,
    tokens: Tokens,
    pooling: Pooling,
    dimensions: usize,
    model: String,
    /// One thread: the computing library takes every core of the machine otherwise.
    thread: ThreadPool,
}

impl Encoder {
    /// Reads the model: half a second for one of 90 MB that the system has in memory.
    ///
    /// # Errors
    /// [`EncoderError`] when the folder holds no model of a kind that is supported.
    pub fn load(folder: &Path) -> Result<Self, EncoderError> {
        let config = ModelConfig::read(folder)?;
        let pooling = Pooling::read(folder)?;
        let tokens_max = TOKENS_MAX.min(config.max_position_embeddings);
        let tokens = Tokens::read(folder, config.vocab_size, tokens_max)?;
        let mut weights = Weights::read(folder)?;
        let bert = Bert::new(&config, &mut weights)?;
        let thread = rayon::ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "encoder".into());
        let thread =
            thread.build().map_err(|error| EncoderError::Computation { reason: error.to_string() })?;
        Ok(Self { bert, tokens, pooling, dimensions: config.hidden_size, model: weights.hash, thread })
    }

    /// Which model it is: SHA-256 of its weights.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The numbers of a vector.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The vector of a text, of length 1. The same text has the same vector, whatever else is encoded.
    ///
    /// # Errors
    /// [`EncoderError::Computation`] when the model gives nothing that is a vector.
    pub fn encode(&self, text: &str) -> Result<Vec<f32>, EncoderError> {
        let tokens = self.tokens.of(text)?;
        self.thread.install(|| {
            let rows = self.bert.rows(&tokens)?;
            let pooled = match self.pooling {
                Pooling::Mean => rows.mean(0),
                Pooling::Cls => rows.get(0),
            };
            unit(&pooled.map_err(failed)?)
        })
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("model", &self.model).field("dimensions", &self.dimensions).finish()
    }
}

/// Brought to length 1.
fn unit(vector: &Tensor) -> Result<Vec<f32>, EncoderError> {
    let mut vector: Vec<f32> = vector.to_vec1().map_err(failed)?;
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    if !length.is_normal() {
        return Err(EncoderError::Computation { reason: format!("its vector has the length {length}") });
    }
    vector.iter_mut().for_each(|number| *number /= length);
    Ok(vector)
}
