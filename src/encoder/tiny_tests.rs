//! For tests: the folder of a model so small that it is made in no time, of numbers that mean nothing.

use std::path::Path;

use serde_json::{Value, json};

/// Its vocabulary, one token a line.
pub(crate) const VOCABULARY: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nsend\nmail\nbuy\nlist\n##s\n:\n.\na\n";
const HIDDEN: usize = 4;
const WIDE: usize = 8;

pub(crate) fn config() -> Value {
    json!({
        "model_type": "bert", "vocab_size": 12, "hidden_size": HIDDEN, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": WIDE, "max_position_embeddings": 16,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu"
    })
}

/// The names and shapes of its tensors.
pub(crate) fn tensors() -> Vec<(String, Vec<usize>)> {
    let layer = "encoder.layer.0.";
    let mut tensors: Vec<(String, Vec<usize>)> = vec![
        ("embeddings.word_embeddings.weight".into(), vec![12, HIDDEN]),
        ("embeddings.position_embeddings.weight".into(), vec![16, HIDDEN]),
        ("embeddings.token_type_embeddings.weight".into(), vec![2, HIDDEN]),
    ];
    for (part, out, from) in [
        ("attention.self.query", HIDDEN, HIDDEN),
        ("attention.self.key", HIDDEN, HIDDEN),
        ("attention.self.value", HIDDEN, HIDDEN),
        ("attention.output.dense", HIDDEN, HIDDEN),
        ("intermediate.dense", WIDE, HIDDEN),
        ("output.dense", HIDDEN, WIDE),
    ] {
        tensors.push((format!("{layer}{part}.weight"), vec![out, from]));
        tensors.push((format!("{layer}{part}.bias"), vec![out]));
    }
    for norm in ["embeddings.", "encoder.layer.0.attention.output.", "encoder.layer.0.output."] {
        tensors.push((format!("{norm}LayerNorm.weight"), vec![HIDDEN]));
        tensors.push((format!("{norm}LayerNorm.bias"), vec![HIDDEN]));
    }
    tensors
}

/// A file of weights with these tensors in 32 bits.
pub(crate) fn weights(tensors: &[(String, Vec<usize>)]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in tensors {
        let start = data.len();
        for number in 0..shape.iter().product::<usize>() {
            // Different everywhere, and the same each time.
            let number = ((start + 7 * number) as f32 * 0.37).sin();
            data.extend(number.to_le_bytes());
        }
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name.clone(), entry);
    }
    file(&Value::Object(header).to_string(), &data)
}

/// A file of weights with this header and these bytes behind it.
pub(crate) fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

/// Writes the whole model.
pub(crate) fn write(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("config.json"), config().to_string()).unwrap();
    std::fs::write(folder.join("vocab.txt"), VOCABULARY).unwrap();
    std::fs::write(folder.join("model.safetensors"), weights(&tensors())).unwrap();
}
