//! What the small files of a model's folder say: which model it is, and how its tokens become one vector.
//!
//! It reads no weights and no vocabulary.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::EncoderError;

pub(super) const CONFIG: &str = "config.json";
pub(super) const MODULES: &str = "modules.json";
pub(super) const POOLING: &str = "1_Pooling/config.json";

/// Largest of the small files.
const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// Larger sizes than any published BERT has: what a damaged file asks for is not computed.
const SIZE_MAX: usize = 1 << 20;
const LAYERS_MAX: usize = 64;

/// The sizes of a model, by the names of `config.json`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ModelConfig {
    pub(super) model_type: Option<String>,
    pub(super) vocab_size: usize,
    pub(super) hidden_size: usize,
    pub(super) num_hidden_layers: usize,
    pub(super) num_attention_heads: usize,
    pub(super) intermediate_size: usize,
    pub(super) max_position_embeddings: usize,
    pub(super) type_vocab_size: usize,
    pub(super) layer_norm_eps: f64,
    pub(super) hidden_act: Activation,
    position_embedding_type: Option<String>,
}

/// The function between the two halves of a feed-forward layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Activation {
    Gelu,
    #[serde(alias = "gelu_pytorch_tanh")]
    GeluNew,
    Relu,
}

/// The method by which the vectors of a sentence's tokens become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Their mean.
    Mean,
    /// That of the first token.
    Cls,
}

#[derive(Deserialize)]
#[serde(default)]
struct PoolingConfig {
    pooling_mode_cls_token: bool,
    pooling_mode_mean_tokens: bool,
    pooling_mode_max_tokens: bool,
    pooling_mode_mean_sqrt_len_tokens: bool,
}

/// One step of a sentence encoder, as `modules.json` lists them.
#[derive(Deserialize)]
struct Module {
    r#type: String,
}

impl ModelConfig {
    /// Reads `config.json`, and refuses what is no BERT or cannot be one.
    pub(super) fn read(folder: &Path) -> Result<Self, EncoderError> {
        let config: Self = json(folder, CONFIG)?.ok_or_else(|| EncoderError::Unreadable {
            path: folder.join(CONFIG),
            source: std::io::ErrorKind::NotFound.into(),
        })?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), EncoderError> {
        let kind = self.model_type.as_deref().unwrap_or("bert");
        if kind != "bert" {
            return Err(unsupported(format!("the model is of the kind {}", shown(kind))));
        }
        let positions = self.position_embedding_type.as_deref().unwrap_or("absolute");
        if positions != "absolute" {
            return Err(unsupported(format!("the model's positions are {}", shown(positions))));
        }
        let sizes = [
            self.vocab_size,
            self.hidden_size,
            self.num_attention_heads,
            self.intermediate_size,
            self.max_position_embeddings,
            self.type_vocab_size,
        ];
        let is_sane = sizes.iter().all(|size| (1..=SIZE_MAX).contains(size))
            && (1..=LAYERS_MAX).contains(&self.num_hidden_layers)
            && self.hidden_size.is_multiple_of(self.num_attention_heads)
            && (0.0..0.1).contains(&self.layer_norm_eps);
        if is_sane { Ok(()) } else { Err(malformed(CONFIG, "its sizes are those of no model")) }
    }
}

impl Pooling {
    /// Reads `1_Pooling/config.json` (the mean where there is none), and refuses further steps that `modules.json` lists.
    pub(super) fn read(folder: &Path) -> Result<Self, EncoderError> {
        let modules: Vec<Module> = json(folder, MODULES)?.unwrap_or_default();
        let is_known = |module: &&Module| {
            ["Transformer", "Pooling", "Normalize"].iter().any(|known| module.r#type.ends_with(known))
        };
        if let Some(unknown) = modules.iter().find(|module| !is_known(module)) {
            return Err(unsupported(format!("the model has a step {}", shown(&unknown.r#type))));
        }
        let config: PoolingConfig = json(folder, POOLING)?.unwrap_or_default();
        match config {
            PoolingConfig { pooling_mode_max_tokens: true, .. }
            | PoolingConfig { pooling_mode_mean_sqrt_len_tokens: true, .. } => {
                Err(unsupported("the model pools by maximum or by the root of the length".into()))
            }
            PoolingConfig { pooling_mode_mean_tokens: true, pooling_mode_cls_token: false, .. } => {
                Ok(Self::Mean)
            }
            PoolingConfig { pooling_mode_mean_tokens: false, pooling_mode_cls_token: true, .. } => {
                Ok(Self::Cls)
            }
            _ => Err(unsupported("the model pools in several ways or in none".into())),
        }
    }
}

impl Default for PoolingConfig {
    fn default() -> Self {
        Self {
            pooling_mode_cls_token: false,
            pooling_mode_mean_tokens: true,
            pooling_mode_max_tokens: false,
            pooling_mode_mean_sqrt_len_tokens: false,
        }
    }
}

/// A file's content; nothing when the folder has no such file.
pub(super) fn read(folder: &Path, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, EncoderError> {
    let path = folder.join(name);
    let mut content = Vec::new();
    match File::open(&path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut content)) {
        Ok(bytes) if bytes as u64 > bytes_max => Err(EncoderError::TooLarge { path, bytes_max }),
        Ok(_) => Ok(Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(EncoderError::Unreadable { path, source }),
    }
}

fn json<T: DeserializeOwned>(folder: &Path, name: &'static str) -> Result<Option<T>, EncoderError> {
    let parse = |content: Vec<u8>| {
        serde_json::from_slice(&content).map_err(|error| malformed(name, error.to_string()))
    };
    read(folder, name, CONFIG_BYTES_MAX)?.map(parse).transpose()
}

pub(super) fn malformed(file: &'static str, reason: impl Into<String>) -> EncoderError {
    EncoderError::Malformed { file, reason: crate::text::inert_excerpt(&reason.into(), 200) }
}

fn unsupported(what: String) -> EncoderError {
    EncoderError::Unsupported { what }
}

fn shown(word: &str) -> String {
    format!("'{}'", crate::text::inert_excerpt(word, 60))
}
