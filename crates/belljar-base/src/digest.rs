//! SHA-256 as hexadecimal digits, and the text of JSON that it is taken of.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The digest of bytes: 64 digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// JSON as text that depends neither on the order of keys nor on how a number is written, which servers change between
/// answers.
#[must_use]
pub fn canonical(mut value: Value) -> String {
    value.sort_all_objects();
    as_doubles(&mut value);
    value.to_string()
}

/// Writes each number that is no integer of 64 bits as its double. The recursion is bounded by the depth of what is read.
fn as_doubles(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_i64().is_none() && number.as_u64().is_none() => {
            if let Some(double) = number.as_f64().and_then(serde_json::Number::from_f64) {
                *number = double;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(as_doubles),
        Value::Object(fields) => fields.values_mut().for_each(as_doubles),
        _ => {}
    }
}

/// Bytes as two digits each.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    // With each call of a tool: quicker than what formats.
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_as_others_write_them() {
        // FIPS 180-4's example, as sha256sum prints it.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
        assert_eq!(hex(&[0, 9, 0xaf, 0xff]), "0009afff");
    }

    #[test]
    fn the_order_of_keys_does_not_count_and_that_of_items_does() {
        let [one, other] =
            [r#"{"b": [{"y": 1, "x": 2}, 3], "a": 4}"#, r#"{"a": 4, "b": [{"x": 2, "y": 1}, 3]}"#];
        let text = |json: &str| canonical(serde_json::from_str(json).unwrap());
        assert_eq!((text(one), text(other)), (text(other), r#"{"a":4,"b":[{"x":2,"y":1},3]}"#.into()));
        assert_ne!(text("[1,2]"), text("[2,1]"));
        assert_eq!((text("[1e2,1.50]"), text("[100.00,15e-1]")), (text("[100.0,1.5]"), "[100.0,1.5]".into()));
    }
}
