//! The cache of tools' vectors, which later bridges use: one file for each configuration of a server. A file has the
//! vectors of one model, each with the hash of the text that it was computed from.
//!
//! It encodes nothing, and stores no text: only hashes of texts.

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::catalog_cache::CacheKey;
use crate::cache_dir::CacheDir;
use crate::limits::Limits;

/// The beginning of each file, with the version of the format.
const MAGIC: &[u8] = b"belljar vectors 1\n";
const EXTENSION: &str = "vectors";
const HASH_BYTES: usize = 32;

/// SHA-256 of a text.
pub(super) type TextHash = [u8; HASH_BYTES];

/// The folder of the cached vectors.
#[derive(Debug)]
pub(super) struct VectorCache(CacheDir);

/// The vectors that one model has made, by the hash of the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CachedVectors {
    /// SHA-256 of the model's weights, in hexadecimal digits.
    pub(in crate::broker) model: String,
    /// The number of components of each vector.
    pub(super) dimensions: usize,
    pub(super) by_text: HashMap<TextHash, Vec<f32>>,
}

impl VectorCache {
    pub(in crate::broker) fn new(dir: PathBuf, limits: &Limits) -> Self {
        Self(CacheDir {
            dir,
            entry_bytes_max: limits.vectors_entry_bytes_max,
            entries_max: limits.vectors_entries_max,
            bytes_max: limits.vectors_bytes_max,
        })
    }

    /// The cached vectors for this configuration and model; empty if there is no file, or if it cannot be trusted or
    /// read, which is logged.
    pub(in crate::broker) fn read(&self, key: &CacheKey, model: &str, dimensions: usize) -> CachedVectors {
        let nothing = CachedVectors { model: model.to_owned(), dimensions, by_text: HashMap::new() };
        match self.0.read(&file(key)) {
            Ok(content) => match CachedVectors::of_bytes(&content) {
                // Vectors of another model are computed again, and this file is replaced.
                Some(kept) if (kept.model.as_str(), kept.dimensions) == (model, dimensions) => kept,
                Some(_) => nothing,
                None => {
                    tracing::warn!(path = %self.0.path(&file(key)).display(), "kept vectors are damaged, and made again");
                    nothing
                }
            },
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::warn!(%error, path = %self.0.path(&file(key)).display(), "kept vectors are ignored");
                }
                nothing
            }
        }
    }

    /// Writes vectors in place of earlier ones.
    ///
    /// # Errors
    /// There are too many vectors, or the folder cannot be written.
    pub(in crate::broker) fn write(
        &self,
        key: &CacheKey,
        kept: &CachedVectors,
        current: &[CacheKey],
    ) -> std::io::Result<()> {
        let content = kept.to_bytes();
        if content.len() > self.0.entry_bytes_max {
            return Err(std::io::Error::other("they are too many"));
        }
        let current: BTreeSet<String> = current.iter().map(file).collect();
        self.0.write(&file(key), &content, &current)
    }
}

impl CachedVectors {
    /// The file's content: the magic, the model, the dimensions, each text's hash and numbers sorted by hash, and the
    /// SHA-256 of all that.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.model.len() as u32).to_le_bytes());
        bytes.extend(self.model.as_bytes());
        bytes.extend((self.dimensions as u32).to_le_bytes());
        let mut sorted: Vec<(&TextHash, &Vec<f32>)> = self.by_text.iter().collect();
        sorted.sort_by_key(|(hash, _)| *hash);
        for (hash, vector) in sorted {
            bytes.extend(hash);
            bytes.extend(vector.iter().flat_map(|number| number.to_le_bytes()));
        }
        let sum = Sha256::digest(&bytes);
        bytes.extend(sum);
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (content, sum) = bytes.split_at_checked(bytes.len().checked_sub(HASH_BYTES)?)?;
        if Sha256::digest(content).as_slice() != sum {
            return None;
        }
        let rest = content.strip_prefix(MAGIC)?;
        let (model_bytes, rest) = rest.split_first_chunk::<4>()?;
        let (model, rest) = rest.split_at_checked(u32::from_le_bytes(*model_bytes) as usize)?;
        let (dimensions, rest) = rest.split_first_chunk::<4>()?;
        let dimensions = u32::from_le_bytes(*dimensions) as usize;
        let entry_bytes = dimensions.checked_mul(4)?.checked_add(HASH_BYTES)?;
        if !rest.len().is_multiple_of(entry_bytes) {
            return None;
        }
        let entry = |entry: &[u8]| {
            let (hash, numbers) = entry.split_first_chunk::<HASH_BYTES>()?;
            let (numbers, _) = numbers.as_chunks::<4>();
            Some((*hash, numbers.iter().map(|number| f32::from_le_bytes(*number)).collect()))
        };
        let by_text = rest.chunks_exact(entry_bytes).map(entry).collect::<Option<_>>()?;
        Some(Self { model: String::from_utf8(model.to_vec()).ok()?, dimensions, by_text })
    }
}

/// The hash by which a text's vector is found.
pub(super) fn text_hash(text: &str) -> TextHash {
    Sha256::digest(text.as_bytes()).into()
}

fn file(key: &CacheKey) -> String {
    format!("{}.{EXTENSION}", key.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::catalog_cache::tests::key;
    use super::*;

    fn kept() -> CachedVectors {
        let by_text = [("send", vec![0.6, 0.8]), ("buy", vec![1.0, -0.0])];
        let by_text = by_text.map(|(text, vector)| (text_hash(text), vector)).into();
        CachedVectors { model: "53aa".into(), dimensions: 2, by_text }
    }

    #[test]
    fn what_was_written_is_read_for_the_same_model_and_configuration_only() {
        let dir = tempfile::tempdir().unwrap();
        let cache = VectorCache::new(dir.path().join("vectors"), &Limits::default());
        cache.write(&key("a"), &kept(), &[key("a")]).unwrap();
        assert_eq!(cache.read(&key("a"), "53aa", 2), kept());
        let nothing = CachedVectors { by_text: HashMap::new(), ..kept() };
        assert_eq!(cache.read(&key("b"), "53aa", 2), nothing);
        assert_eq!(
            cache.read(&key("a"), "other", 2),
            CachedVectors { model: "other".into(), ..nothing.clone() }
        );
        assert_eq!(cache.read(&key("a"), "53aa", 3), CachedVectors { dimensions: 3, ..nothing });
    }

    /// Every changed byte and every truncation is noticed.
    #[test]
    fn damaged_files_are_seen() {
        let bytes = kept().to_bytes();
        assert_eq!(CachedVectors::of_bytes(&bytes), Some(kept()));
        for at in 0..bytes.len() {
            assert_eq!(CachedVectors::of_bytes(&bytes[..at]), None, "cut at {at}");
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(CachedVectors::of_bytes(&changed), None, "changed at {at}");
        }
    }

    /// A forged file can have a valid checksum, so lengths are checked as well.
    #[test]
    fn lengths_that_lie_are_refused() {
        let with_sum = |content: &[u8]| {
            let mut bytes = content.to_vec();
            bytes.extend(Sha256::digest(content));
            bytes
        };
        let bytes = kept().to_bytes();
        let content = &bytes[..bytes.len() - HASH_BYTES];
        assert_eq!(CachedVectors::of_bytes(&with_sum(content)), Some(kept()));
        for at in [MAGIC.len(), MAGIC.len() + 4 + 4] {
            let mut lying = content.to_vec();
            lying[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            assert_eq!(CachedVectors::of_bytes(&with_sum(&lying)), None, "{at}");
        }
        assert_eq!(CachedVectors::of_bytes(&with_sum(MAGIC)), None);
    }

    #[test]
    fn more_than_a_file_may_have_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits { vectors_entry_bytes_max: 100, ..Limits::default() };
        let cache = VectorCache::new(dir.path().join("vectors"), &limits);
        assert_eq!(cache.write(&key("a"), &kept(), &[]).unwrap_err().to_string(), "they are too many");
        assert!(!dir.path().join("vectors").exists());
    }
}
