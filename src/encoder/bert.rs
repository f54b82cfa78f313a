//! The layers of BERT: from the numbers of a sentence's tokens to a vector for each.
//!
//! One sentence at a time: its vectors depend on nothing else, nothing is padded, and memory stays small.

use candle_core::{Device, Result, Tensor};
use candle_nn::ops::{layer_norm, softmax_last_dim};

use super::error::EncoderError;
use super::folder::{Activation, ModelConfig};
use super::weights::Weights;

/// A model.
pub(super) struct Bert {
    words: Tensor,
    /// For each position, what every token there has added: of the position, and of the first and only sentence.
    positions: Tensor,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attended: Linear,
    attended_norm: LayerNorm,
    wide: Linear,
    narrow: Linear,
    norm: LayerNorm,
    heads: usize,
    activation: Activation,
}

/// A product with a matrix, and a vector added.
struct Linear {
    weight: Tensor,
    bias: Tensor,
}

/// The normalisation of a layer.
struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    epsilon: f32,
}

impl Bert {
    /// Takes the tensors that it needs; each has to have the shape that the configuration says.
    pub(super) fn new(
        config: &ModelConfig,
        weights: &mut Weights,
    ) -> std::result::Result<Self, EncoderError> {
        let hidden = config.hidden_size;
        let words = weights.take("embeddings.word_embeddings.weight", &[config.vocab_size, hidden])?;
        let positions = weights
            .take("embeddings.position_embeddings.weight", &[config.max_position_embeddings, hidden])?;
        let kinds =
            weights.take("embeddings.token_type_embeddings.weight", &[config.type_vocab_size, hidden])?;
        let positions = kinds.get(0).and_then(|first| positions.broadcast_add(&first)).map_err(failed)?;
        let norm = LayerNorm::new("embeddings.LayerNorm", config, weights)?;
        let layers = (0..config.num_hidden_layers).map(|number| Layer::new(number, config, weights));
        Ok(Self { words, positions, norm, layers: layers.collect::<std::result::Result<_, _>>()? })
    }

    /// A row for each token. There must be at most as many as positions, each below the size of the vocabulary.
    pub(super) fn rows(&self, tokens: &[u32]) -> std::result::Result<Tensor, EncoderError> {
        self.forward(tokens).map_err(failed)
    }

    fn forward(&self, tokens: &[u32]) -> Result<Tensor> {
        let count = tokens.len();
        let words = self.words.index_select(&Tensor::from_slice(tokens, count, &Device::Cpu)?, 0)?;
        let embedded = self.norm.forward(&(words + self.positions.narrow(0, 0, count)?)?)?;
        self.layers.iter().try_fold(embedded, |rows, layer| layer.forward(&rows))
    }
}

impl Layer {
    fn new(
        number: usize,
        config: &ModelConfig,
        weights: &mut Weights,
    ) -> std::result::Result<Self, EncoderError> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let name = |part: &str| format!("encoder.layer.{number}.{part}");
        let mut linear = |part: &str, out, from| Linear::new(&name(part), [out, from], weights);
        let query = linear("attention.self.query", hidden, hidden)?;
        let key = linear("attention.self.key", hidden, hidden)?;
        let value = linear("attention.self.value", hidden, hidden)?;
        let attended = linear("attention.output.dense", hidden, hidden)?;
        let into_wide = linear("intermediate.dense", wide, hidden)?;
        let narrow = linear("output.dense", hidden, wide)?;
        Ok(Self {
            query,
            key,
            value,
            attended,
            attended_norm: LayerNorm::new(&name("attention.output.LayerNorm"), config, weights)?,
            wide: into_wide,
            narrow,
            norm: LayerNorm::new(&name("output.LayerNorm"), config, weights)?,
            heads: config.num_attention_heads,
            activation: config.hidden_act,
        })
    }

    fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        let attended = self.attended.forward(&self.attention(rows)?)?;
        let rows = self.attended_norm.forward(&(attended + rows)?)?;
        let wide = self.wide.forward(&rows)?;
        let wide = match self.activation {
            Activation::Gelu => wide.gelu_erf(),
            Activation::GeluNew => wide.gelu(),
            Activation::Relu => wide.relu(),
        };
        self.norm.forward(&(self.narrow.forward(&wide?)? + rows)?)
    }

    /// What each token takes of the others.
    fn attention(&self, rows: &Tensor) -> Result<Tensor> {
        let (count, hidden) = rows.dims2()?;
        let size = hidden / self.heads;
        let by_head = |rows: Tensor| rows.reshape((count, self.heads, size))?.transpose(0, 1)?.contiguous();
        let query = by_head((self.query.forward(rows)? / (size as f64).sqrt())?)?;
        let key = by_head(self.key.forward(rows)?)?;
        let value = by_head(self.value.forward(rows)?)?;
        let shares = softmax_last_dim(&query.matmul(&key.t()?)?)?;
        shares.matmul(&value)?.transpose(0, 1)?.contiguous()?.reshape((count, hidden))
    }
}

impl Linear {
    fn new(
        name: &str,
        [out, from]: [usize; 2],
        weights: &mut Weights,
    ) -> std::result::Result<Self, EncoderError> {
        let weight = weights.take(&format!("{name}.weight"), &[out, from])?;
        let bias = weights.take(&format!("{name}.bias"), &[out])?;
        // Laid out as the product reads it: for a short sentence, turning it each time takes longer than the product.
        let weight = weight.t().and_then(|weight| weight.contiguous()).map_err(failed)?;
        Ok(Self { weight, bias })
    }

    fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        rows.matmul(&self.weight)?.broadcast_add(&self.bias)
    }
}

impl LayerNorm {
    fn new(
        name: &str,
        config: &ModelConfig,
        weights: &mut Weights,
    ) -> std::result::Result<Self, EncoderError> {
        let weight = weights.take(&format!("{name}.weight"), &[config.hidden_size])?;
        let bias = weights.take(&format!("{name}.bias"), &[config.hidden_size])?;
        Ok(Self { weight, bias, epsilon: config.layer_norm_eps as f32 })
    }

    fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        layer_norm(rows, &self.weight, &self.bias, self.epsilon)
    }
}

pub(super) fn failed(error: candle_core::Error) -> EncoderError {
    EncoderError::Computation { reason: error.to_string() }
}
