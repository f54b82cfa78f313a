//! Tests of the encoder: numbers computed elsewhere, and folders that are no models.

use std::path::Path;

use serde_json::json;

use super::tiny;
use super::{Encoder, install};

#[path = "../../tests/search/model.rs"]
mod model;

/// What is done to the tiny model's folder.
type Change = Box<dyn Fn(&Path)>;

/// The tiny model, changed by `change`.
fn loaded(change: impl Fn(&Path)) -> Result<Encoder, String> {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path());
    change(folder.path());
    Encoder::load(folder.path())
        .map_err(|error| error.to_string().replace(&folder.path().display().to_string(), "DIR"))
}

fn refused(change: impl Fn(&Path)) -> String {
    loaded(change).unwrap_err()
}

fn with_config(key: &str, value: serde_json::Value) -> impl Fn(&Path) {
    let mut config = tiny::config();
    config[key] = value;
    move |folder| std::fs::write(folder.join("config.json"), config.to_string()).unwrap()
}

fn with_file(name: &'static str, content: impl AsRef<[u8]>) -> impl Fn(&Path) {
    let content = content.as_ref().to_vec();
    move |folder| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &content).unwrap();
    }
}

/// The first and last four numbers as float64 arithmetic in numpy gives them, from the same weights and the token numbers of
/// the Python package tokenizers 0.22: embeddings, six layers with the exact GELU, mean, length 1.
#[test]
fn sentences_have_the_vectors_that_another_implementation_computes() {
    let encoder = Encoder::load(&model::installed()).unwrap();
    assert_eq!(encoder.dimensions(), 384);
    assert_eq!(&encoder.model()[..12], "53aa51172d14");
    for (sentence, first, last) in [
        (
            "email the summary to a colleague",
            [0.024787, 0.097622, 0.019984, 0.019106],
            [-0.0228, 0.159093, -0.060335, 0.001627],
        ),
        (
            "Send a Gmail message",
            [0.001268, -0.021657, 0.087299, 0.007707],
            [0.01952, 0.10487, -0.026973, -0.0379],
        ),
        (
            "Überprüfe die Größe — 日本語 naïve café",
            [0.018494, 0.035688, 0.036909, -0.038767],
            [0.023171, 0.044243, 0.00935, -0.045809],
        ),
        (
            // Cut after 128 tokens.
            &"word ".repeat(300),
            [0.012999, -0.064217, -0.028709, 0.015799],
            [0.002573, -0.04006, 0.060495, 0.017695],
        ),
    ] {
        let vector = encoder.encode(sentence).unwrap();
        let near = |found: &[f32], wanted: [f32; 4]| {
            found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 2e-5)
        };
        assert!(near(&vector[..4], first) && near(&vector[380..], last), "{sentence}: {vector:?}");
        assert_eq!(vector, encoder.encode(sentence).unwrap());
    }
}

#[test]
fn what_means_the_same_is_nearer_than_what_does_not() {
    let encoder = Encoder::load(&model::installed()).unwrap();
    let vector = |text: &str| encoder.encode(text).unwrap();
    let query = vector("email the summary to a colleague");
    let nearness =
        |text: &str| -> f32 { vector(text).iter().zip(&query).map(|(one, other)| one * other).sum() };
    let meant =
        nearness("google workspace: send gmail message. Sends an email using the user's Gmail account.");
    for other in ["github: list issues. List issues in a repository.", "filesystem: read file. Reads a file."]
    {
        assert!(meant > nearness(other) + 0.2, "{other}");
    }
}

#[test]
fn a_small_model_encodes_with_either_tokenizer_pooling_and_precision() {
    let mean = loaded(|_| {}).unwrap();
    let vector = mean.encode("Send mails.").unwrap();
    assert_eq!(vector.len(), 4);
    assert!((vector.iter().map(|number| number * number).sum::<f32>() - 1.0).abs() < 1e-5);
    assert_eq!(vector, mean.encode("send MAILS .").unwrap());
    let cls = loaded(with_file(
        "1_Pooling/config.json",
        r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#,
    ));
    assert_ne!(cls.unwrap().encode("Send mails.").unwrap(), vector);
    let prefixed: Vec<_> =
        tiny::tensors().into_iter().map(|(name, shape)| (format!("bert.{name}"), shape)).collect();
    let prefixed = loaded(with_file("model.safetensors", tiny::weights(&prefixed))).unwrap();
    assert_eq!(prefixed.encode("Send mails.").unwrap(), vector);
    // Nothing, and more than the model has positions for.
    assert_eq!((mean.encode("").unwrap().len(), mean.encode(&"mail ".repeat(9_999)).unwrap().len()), (4, 4));
}

#[test]
fn what_is_no_bert_is_refused_by_what_it_is() {
    let supported = "; models of the kind BertModel with mean or CLS pooling are supported";
    for (change, what) in [
        (with_config("model_type", json!("mpnet\u{1b}")), "the model is of the kind 'mpnet\\x1b'"),
        (
            with_config("position_embedding_type", json!("relative_key")),
            "the model's positions are 'relative_key'",
        ),
    ] {
        assert_eq!(refused(change), format!("{what}{supported}"));
    }
    for (file, content, what) in [
        (
            "modules.json",
            r#"[{"type": "x.Transformer"}, {"type": "x.Dense"}]"#,
            "the model has a step 'x.Dense'",
        ),
        (
            "1_Pooling/config.json",
            r#"{"pooling_mode_max_tokens": true}"#,
            "the model pools by maximum or by the root of the length",
        ),
        (
            "1_Pooling/config.json",
            r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}"#,
            "the model pools in several ways or in none",
        ),
    ] {
        assert_eq!(refused(with_file(file, content)), format!("{what}{supported}"));
    }
}

#[test]
fn files_that_lie_or_are_damaged_are_refused_by_name() {
    let good = tiny::weights(&tiny::tensors());
    let mut narrow = tiny::tensors();
    narrow[0].1 = vec![11, 4];
    let lying = |header: &str| with_file("model.safetensors", tiny::file(header, &[0; 16]));
    let cases: Vec<(Change, &str)> = vec![
        (Box::new(with_file("config.json", "{")), "config.json cannot be used: EOF while parsing"),
        (Box::new(with_config("num_attention_heads", json!(3))), "config.json cannot be used: its sizes are"),
        (
            Box::new(with_config("hidden_size", json!(1_u64 << 40))),
            "config.json cannot be used: its sizes are",
        ),
        (
            Box::new(with_config("num_hidden_layers", json!(2))),
            "it has no tensor of numbers encoder.layer.1.",
        ),
        (
            Box::new(with_config("vocab_size", json!(13))),
            "has the shape [12, 4], where config.json asks for [13, 4]",
        ),
        (Box::new(with_file("model.safetensors", tiny::weights(&narrow))), "has the shape [11, 4], where"),
        (
            Box::new(with_file("model.safetensors", good[..good.len() - 1].to_vec())),
            "model.safetensors cannot be used: its tensors have",
        ),
        (Box::new(with_file("model.safetensors", "")), "DIR/model.safetensors cannot be read"),
        (Box::new(with_file("model.safetensors", [255; 64])), "its header is longer than the file"),
        (Box::new(lying("[]")), "model.safetensors cannot be used: its header"),
        (
            Box::new(lying(r#"{"a": {"dtype": "F32", "shape": [4], "data_offsets": [8, 24]}}"#)),
            "its header: invalid offset for tensor `a`",
        ),
        (
            Box::new(lying(
                r#"{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 18446744073709551615]}}"#,
            )),
            "its header: invalid shape, data type, or offset",
        ),
        (
            Box::new(lying(
                r#"{"a": {"dtype": "F32", "shape": [9223372036854775807, 8], "data_offsets": [0, 16]}}"#,
            )),
            "its header: overflow computing buffer size",
        ),
        (Box::new(with_file("tokenizer.json", "{}")), "tokenizer.json cannot be used"),
        (Box::new(with_file("vocab.txt", "[UNK]\n[SEP]\n")), "vocab.txt cannot be used: it has no [CLS]"),
        (
            Box::new(|folder: &Path| std::fs::remove_file(folder.join("vocab.txt")).unwrap()),
            "neither it nor vocab.txt is there",
        ),
        (
            Box::new(|folder: &Path| std::fs::remove_file(folder.join("config.json")).unwrap()),
            "DIR/config.json cannot be read",
        ),
        (
            Box::new(|folder: &Path| std::fs::remove_file(folder.join("model.safetensors")).unwrap()),
            "DIR/model.safetensors cannot be read",
        ),
    ];
    for (change, wanted) in cases {
        let said = refused(change);
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}

#[test]
fn a_token_beyond_the_vocabulary_or_numbers_that_are_none_give_an_error_and_no_vector() {
    let longer = format!("{}giraffe\n", tiny::VOCABULARY);
    let encoder = loaded(with_file("vocab.txt", longer)).unwrap();
    assert_eq!(
        encoder.encode("giraffe").unwrap_err().to_string(),
        "a sentence could not be encoded: its token 12 is not among the model's"
    );
    let mut infinite = tiny::weights(&tiny::tensors());
    let end = infinite.len();
    infinite[end - 4..].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let error = loaded(with_file("model.safetensors", infinite)).unwrap().encode("mail").unwrap_err();
    assert!(
        error.to_string().starts_with("a sentence could not be encoded: its vector has the length"),
        "{error}"
    );
}

#[test]
fn installing_replaces_a_model_as_a_whole_or_leaves_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let (from, place) = (dir.path().join("from"), dir.path().join("data/model"));
    tiny::write(&from);
    assert_eq!(install(&from, &place).unwrap().dimensions(), 4);
    std::fs::write(from.join("config.json"), "{").unwrap();
    assert!(install(&from, &place).unwrap_err().to_string().starts_with("config.json cannot be used"));
    assert_eq!(Encoder::load(&place).unwrap().dimensions(), 4);
    std::fs::write(from.join("config.json"), tiny::config().to_string()).unwrap();
    install(&from, &place).unwrap();
    let left: Vec<_> = std::fs::read_dir(dir.path().join("data")).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing but the model is left: {left:?}");
}
