//! Reads `model.safetensors`: a header that says where each tensor lies, and their bytes one behind the other.
//!
//! Nothing in it is believed before it is checked against the file's size, and one tensor is in memory beside those that
//! are done: the file as a whole never is.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::error::EncoderError;
use super::folder::malformed;
use crate::digest;

pub(super) const WEIGHTS: &str = "model.safetensors";
/// Larger than the largest BERT in 32 bits.
pub(super) const WEIGHTS_BYTES_MAX: u64 = 2 << 30;
const HEADER_BYTES_MAX: u64 = 4 << 20;
/// What the header has beside tensors.
const METADATA: &str = "__metadata__";
/// Before the names of tensors in files that hold a model for a task.
const PREFIX: &str = "bert.";

/// The tensors of a model in 32 bits, by name.
pub(super) struct Weights {
    tensors: HashMap<String, Tensor>,
    /// SHA-256 of the file.
    pub(super) hash: String,
}

/// Where a tensor lies.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl Weights {
    pub(super) fn read(folder: &Path) -> Result<Self, EncoderError> {
        let path = folder.join(WEIGHTS);
        let unreadable = |source| EncoderError::Unreadable { path: path.clone(), source };
        let file = File::open(&path).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        if bytes > WEIGHTS_BYTES_MAX {
            return Err(EncoderError::TooLarge { path, bytes_max: WEIGHTS_BYTES_MAX });
        }
        let mut reader = Hashed { reader: BufReader::new(file), hash: Sha256::new() };
        let header_bytes = u64::from_le_bytes(reader.array().map_err(unreadable)?);
        let data_bytes = bytes.checked_sub(8).and_then(|rest| rest.checked_sub(header_bytes));
        let (true, Some(data_bytes)) = (header_bytes <= HEADER_BYTES_MAX, data_bytes) else {
            return Err(malformed(WEIGHTS, "its header is longer than the file, or than any header"));
        };
        let header = reader.bytes(header_bytes).map_err(unreadable)?;
        let entries = entries(&header, data_bytes)?;
        let mut tensors = HashMap::new();
        for (name, entry) in entries {
            let content = reader.bytes(entry.bytes()).map_err(unreadable)?;
            if let Some(tensor) = tensor(&entry, &content)? {
                tensors.insert(name.strip_prefix(PREFIX).unwrap_or(&name).to_owned(), tensor);
            }
        }
        let hash = digest::hex(&reader.hash.finalize());
        Ok(Self { tensors, hash })
    }

    /// Takes a tensor of this shape out.
    pub(super) fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, EncoderError> {
        let tensor = self
            .tensors
            .remove(name)
            .ok_or_else(|| malformed(WEIGHTS, format!("it has no tensor of numbers {name}")))?;
        if tensor.dims() == shape {
            Ok(tensor)
        } else {
            let found = tensor.dims();
            Err(malformed(
                WEIGHTS,
                format!("{name} has the shape {found:?}, where config.json asks for {shape:?}"),
            ))
        }
    }
}

/// The tensors in the order in which they lie in the file, which they fill without gaps.
fn entries(header: &[u8], data_bytes: u64) -> Result<Vec<(String, Entry)>, EncoderError> {
    let parsed: Map<String, Value> =
        serde_json::from_slice(header).map_err(|error| malformed(WEIGHTS, format!("its header: {error}")))?;
    let mut entries = Vec::new();
    for (name, value) in parsed.into_iter().filter(|(name, _)| name != METADATA) {
        let entry: Entry = serde_json::from_value(value)
            .map_err(|error| malformed(WEIGHTS, format!("its header, {name}: {error}")))?;
        entries.push((name, entry));
    }
    entries.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut end = 0;
    for (name, entry) in &entries {
        if entry.data_offsets.0 != end || entry.data_offsets.1 < end {
            return Err(malformed(WEIGHTS, format!("{name} does not begin where the tensor before it ends")));
        }
        end = entry.data_offsets.1;
    }
    if end == data_bytes {
        Ok(entries)
    } else {
        Err(malformed(WEIGHTS, format!("its tensors have {end} bytes, and it has {data_bytes} for them")))
    }
}

/// Nothing for tensors that hold no weights, as the numbers of positions.
fn tensor(entry: &Entry, content: &[u8]) -> Result<Option<Tensor>, EncoderError> {
    let (dtype, size) = match entry.dtype.as_str() {
        "F32" => (DType::F32, 4),
        "F16" => (DType::F16, 2),
        "BF16" => (DType::BF16, 2),
        _ => return Ok(None),
    };
    let elements = entry.shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
    if elements.and_then(|elements| elements.checked_mul(size)) != Some(content.len()) {
        return Err(malformed(WEIGHTS, "a tensor's shape does not fit its bytes"));
    }
    let tensor = Tensor::from_raw_buffer(content, dtype, &entry.shape, &Device::Cpu);
    let tensor = tensor.and_then(|tensor| tensor.to_dtype(DType::F32));
    tensor.map(Some).map_err(|error| malformed(WEIGHTS, error.to_string()))
}

impl Entry {
    fn bytes(&self) -> u64 {
        self.data_offsets.1 - self.data_offsets.0
    }
}

/// A file of which everything that is read is hashed.
struct Hashed {
    reader: BufReader<File>,
    hash: Sha256,
}

impl Hashed {
    fn array<const N: usize>(&mut self) -> std::io::Result<[u8; N]> {
        let mut array = [0; N];
        self.reader.read_exact(&mut array)?;
        self.hash.update(array);
        Ok(array)
    }

    /// So many bytes, which the file was seen to have.
    fn bytes(&mut self, count: u64) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; count as usize];
        self.reader.read_exact(&mut bytes)?;
        self.hash.update(&bytes);
        Ok(bytes)
    }
}
