//! Reads `model.safetensors`: a header that says where each tensor lies, and their bytes one behind the other.
//!
//! The crate `safetensors` checks the header. The tensors are read one by one, so that the file as a whole is never in
//! memory beside them, and nothing is mapped that another process could change.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use sha2::{Digest, Sha256};

use super::error::EncoderError;
use super::folder::malformed;
use crate::digest;

pub(super) const WEIGHTS: &str = "model.safetensors";
/// Larger than the largest BERT in 32 bits.
pub(super) const WEIGHTS_BYTES_MAX: u64 = 2 << 30;
const HEADER_BYTES_MAX: u64 = 4 << 20;
/// Before the names of tensors in files that hold a model for a task.
const PREFIX: &str = "bert.";

/// The tensors of a model in 32 bits, by name.
pub(super) struct Weights {
    tensors: HashMap<String, Tensor>,
    /// SHA-256 of the file.
    pub(super) hash: String,
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
        let mut reader = HashingReader { reader: BufReader::new(file), hash: Sha256::new() };
        let header_bytes = u64::from_le_bytes(reader.array().map_err(unreadable)?);
        let data_bytes = bytes.checked_sub(8).and_then(|rest| rest.checked_sub(header_bytes));
        let (true, Some(data_bytes)) = (header_bytes <= HEADER_BYTES_MAX, data_bytes) else {
            return Err(malformed(WEIGHTS, "its header is longer than the file, or than any header"));
        };
        let header = reader.bytes(header_bytes).map_err(unreadable)?;
        let metadata: Metadata = serde_json::from_slice(&header)
            .map_err(|error| malformed(WEIGHTS, format!("its header: {error}")))?;
        let listed_bytes = metadata.data_len() as u64;
        if listed_bytes != data_bytes {
            let reason = format!("its tensors have {listed_bytes} bytes, and it has {data_bytes} for them");
            return Err(malformed(WEIGHTS, reason));
        }
        let mut entries: Vec<(String, &TensorInfo)> = metadata.tensors().into_iter().collect();
        entries.sort_by_key(|(_, info)| info.data_offsets);
        let mut tensors = HashMap::new();
        for (name, info) in entries {
            let (start, end) = info.data_offsets;
            let content = reader.bytes((end - start) as u64).map_err(unreadable)?;
            if let Some(tensor) = tensor(info, &content)? {
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

/// Nothing for tensors that hold no weights, as the numbers of positions.
fn tensor(info: &TensorInfo, content: &[u8]) -> Result<Option<Tensor>, EncoderError> {
    let dtype = match info.dtype {
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        _ => return Ok(None),
    };
    let tensor = Tensor::from_raw_buffer(content, dtype, &info.shape, &Device::Cpu);
    let tensor = tensor.and_then(|tensor| tensor.to_dtype(DType::F32));
    tensor.map(Some).map_err(|error| malformed(WEIGHTS, error.to_string()))
}

/// A reader that hashes everything that is read through it.
struct HashingReader {
    reader: BufReader<File>,
    hash: Sha256,
}

impl HashingReader {
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
