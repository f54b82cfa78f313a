//! Why a folder is no model that can be used, or why a sentence has no vector.

use std::path::PathBuf;

/// See each case.
#[derive(Debug, thiserror::Error)]
pub enum EncoderError {
    /// A file is not there, or cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is larger than any that is read.
    #[error("{} is larger than {bytes_max} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound.
        bytes_max: u64,
    },
    /// A file is not what its name says, or contradicts another one.
    #[error("{file} cannot be used: {reason}")]
    Malformed {
        /// The file's name.
        file: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A folder or archive has no model in it.
    #[error(
        "{} holds no model: wanted is a folder, or a wheel or zip archive with one, that has config.json, tokenizer.json \
         (or vocab.txt) and model.safetensors", path.display()
    )]
    NoModel {
        /// Where one was looked for.
        path: PathBuf,
    },
    /// A file is no archive, or a damaged one.
    #[error("{} is no archive that can be used: {reason}", path.display())]
    Archive {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The model could not be put in its place.
    #[error("{} cannot be written: {source}", path.display())]
    Unwritten {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The model is sound, but of a kind that is not computed here.
    #[error("{what}; models of the kind BertModel with mean or CLS pooling are supported")]
    Unsupported {
        /// What it is.
        what: String,
    },
    /// The computation gave nothing.
    #[error("a sentence could not be encoded: {reason}")]
    Computation {
        /// Why.
        reason: String,
    },
    /// This program has no encoder in it.
    #[error("this belljar was built without the feature `semantic`")]
    NotBuilt,
}
