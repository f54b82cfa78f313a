//! A sentence as the numbers of its tokens, by `tokenizer.json`, or by `vocab.txt` where there is none.

use std::path::Path;

use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::{Tokenizer, TruncationParams};

use super::error::EncoderError;
use super::folder::{malformed, read};

pub(super) const TOKENIZER: &str = "tokenizer.json";
pub(super) const VOCABULARY: &str = "vocab.txt";

const TOKENIZER_BYTES_MAX: u64 = 64 << 20;
/// Characters of a text that are looked at: more than so many tokens ever have.
const CHARS_MAX: usize = 4_000;
/// Most tokens that a tokenizer may put around a sentence.
const SPECIAL_MAX: usize = 8;

/// Cuts sentences into tokens.
pub(super) struct Tokens {
    tokenizer: Tokenizer,
    vocabulary_size: usize,
}

impl Tokens {
    /// Reads the vocabulary. Sentences are cut after `tokens_max` tokens, whose numbers are below `vocabulary_size`.
    pub(super) fn read(
        folder: &Path,
        vocabulary_size: usize,
        tokens_max: usize,
    ) -> Result<Self, EncoderError> {
        let refused = |error: tokenizers::Error| malformed(TOKENIZER, error.to_string());
        let mut tokenizer = match read(folder, TOKENIZER, TOKENIZER_BYTES_MAX)? {
            Some(content) => Tokenizer::from_bytes(content).map_err(refused)?,
            None => of_vocabulary(folder)?,
        };
        tokenizer.with_padding(None).with_truncation(None).map_err(refused)?;
        let around = tokenizer.encode("", true).map_err(refused)?.get_ids().len();
        if around > SPECIAL_MAX.min(tokens_max / 2) {
            return Err(malformed(TOKENIZER, format!("it puts {around} tokens around each sentence")));
        }
        let truncation = TruncationParams { max_length: tokens_max, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(truncation)).map_err(refused)?;
        Ok(Self { tokenizer, vocabulary_size })
    }

    /// The numbers of a text's tokens, with those that stand around every sentence.
    pub(super) fn of(&self, text: &str) -> Result<Vec<u32>, EncoderError> {
        let text: String = text.chars().take(CHARS_MAX).collect();
        let failed = |reason: String| EncoderError::Computation { reason };
        let encoding = self.tokenizer.encode_fast(text, true).map_err(|error| failed(error.to_string()))?;
        let ids = encoding.get_ids();
        match ids.iter().find(|id| **id as usize >= self.vocabulary_size) {
            Some(id) => Err(failed(format!("its token {id} is not among the model's"))),
            None => Ok(ids.to_vec()),
        }
    }
}

/// The tokenizer that BERT was published with: one token a line, words in lower case.
fn of_vocabulary(folder: &Path) -> Result<Tokenizer, EncoderError> {
    let content = read(folder, VOCABULARY, TOKENIZER_BYTES_MAX)?
        .ok_or_else(|| malformed(TOKENIZER, "neither it nor vocab.txt is there"))?;
    let refused = |error: tokenizers::Error| malformed(VOCABULARY, error.to_string());
    let vocabulary = WordPiece::read_bytes(&content).map_err(refused)?;
    let special = |token: &str| match vocabulary.get(token) {
        Some(number) => Ok((token.to_owned(), *number)),
        None => Err(malformed(VOCABULARY, format!("it has no {token}"))),
    };
    let around = BertProcessing::new(special("[SEP]")?, special("[CLS]")?);
    special("[UNK]")?;
    let words = WordPiece::builder().vocab(vocabulary).build().map_err(refused)?;
    let mut tokenizer = Tokenizer::new(words);
    tokenizer
        .with_normalizer(Some(BertNormalizer::default()))
        .map_err(refused)?
        .with_pre_tokenizer(Some(BertPreTokenizer))
        .with_post_processor(Some(around));
    Ok(tokenizer)
}
