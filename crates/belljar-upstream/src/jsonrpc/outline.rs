//! Finds a message's id in text that is no valid JSON, or too long to be kept.

/// Longest id that is recognised, in bytes of its JSON text.
const ID_BYTES_MAX: usize = 256;

/// Follows braces and strings only, so that what is wrong inside the message does not matter; takes the text in pieces
/// and keeps no more of it than an id.
#[derive(Debug, Default)]
pub(super) struct Outline {
    depth: u64,
    in_string: bool,
    escaped: bool,
    /// The key or value of the outer object that is being read; of a nested one its bracket only.
    token: Vec<u8>,
    /// What the last key of the outer object was.
    key_is_id: bool,
    /// Behind the colon.
    in_value: bool,
    id: Option<Vec<u8>>,
    /// The text is no object.
    hopeless: bool,
}

impl Outline {
    pub(super) fn push(&mut self, text: &[u8]) {
        for &byte in text {
            if self.hopeless {
                return;
            }
            self.take(byte);
        }
    }

    /// The id as JSON text: a number or a string.
    pub(super) fn id(&self) -> Option<String> {
        let text = std::str::from_utf8(self.id.as_deref()?).ok()?;
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        (value.is_number() || value.is_string()).then(|| text.trim_end().to_owned())
    }

    fn take(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'{' | b'[' => {
                self.hopeless = self.depth == 0 && byte == b'[';
                self.keep(byte);
                self.depth += 1;
            }
            b'}' | b']' => {
                self.end_value_at(1);
                self.depth = self.depth.saturating_sub(1);
            }
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b':' if self.depth == 1 && !self.in_value => {
                self.key_is_id = self.token.trim_ascii_end() == br#""id""#;
                self.token.clear();
                self.in_value = true;
            }
            b',' => self.end_value_at(1),
            // Within a value it is kept, or two numbers would become the id of somebody else.
            byte if byte.is_ascii_whitespace() => {
                if !self.token.is_empty() {
                    self.keep(byte);
                }
            }
            _ if self.depth == 0 => self.hopeless = true,
            byte => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < ID_BYTES_MAX {
            self.token.push(byte);
        }
    }

    fn end_value_at(&mut self, depth: u64) {
        if self.depth == depth {
            let token = std::mem::take(&mut self.token);
            if self.key_is_id && self.in_value {
                self.id = Some(token);
            }
            self.in_value = false;
            self.key_is_id = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(text: &[u8]) -> Option<String> {
        let mut outline = Outline::default();
        outline.push(text);
        outline.id()
    }

    #[test]
    fn only_the_outer_object_s_id_counts() {
        assert_eq!(id(br#"{"params":{"id":1},"id":2}"#).as_deref(), Some("2"));
        assert_eq!(id(br#"{"params":{"id":1}}"#), None);
        assert_eq!(id(br#"{"a":"\"id\":5,{","id":"x\"y","b":nan}"#).as_deref(), Some(r#""x\"y""#));
        assert_eq!(id(br#"{"id":{"id":3}}"#), None);
        assert_eq!(id(br#"{"id":null}"#), None);
        assert_eq!(id(br#"{ "id" : 7 , "method": }"#).as_deref(), Some("7"));
        assert_eq!(id(br#"{"id":2 0,"method":"ping"}"#), None);
        assert_eq!(id(br#"{"id":{"id":3} 5,"method":"ping"}"#), None);
        // What has been cut off may still hold it.
        assert_eq!(id(br#"{"id":4,"params":{"code":"aaaa"#).as_deref(), Some("4"));
        assert_eq!(id(format!(r#"{{"id":"{}"}}"#, "x".repeat(300)).as_bytes()), None);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(at in 0_usize..40, number in any::<u32>()) {
            let text = format!(r#"{{"method":"a{{","params":[1,"]"],"id":{number}}}"#);
            let at = at.min(text.len());
            let mut outline = Outline::default();
            outline.push(&text.as_bytes()[..at]);
            outline.push(&text.as_bytes()[at..]);
            prop_assert_eq!(outline.id(), Some(number.to_string()));
        }

        #[test]
        fn any_garbage_is_survived(garbage in proptest::collection::vec(any::<u8>(), 0..200)) {
            id(&garbage);
        }
    }
}
