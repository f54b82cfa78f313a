//! Parses JSON and keeps the position of every value and every repeated key, so that a problem can point at its line.
//!
//! It is for configuration files only: small, read once. Like the editors and clients that write such files, it accepts
//! comments and a comma after the last item, and nothing else that RFC 8259 does not.

/// A value and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::config) struct Spanned {
    /// The byte at which it begins.
    pub(in crate::config) at: usize,
    pub(in crate::config) node: Node,
}

/// The kind and content of a value.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::config) enum Node {
    Null,
    Bool(bool),
    Number(f64),
    /// A date. Only TOML has dates.
    Date,
    String(String),
    Array(Vec<Spanned>),
    Object(Vec<Member>),
}

/// One member of an object, in the file's order; keys may repeat.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::config) struct Member {
    pub(in crate::config) key: String,
    /// The byte at which the key begins.
    pub(in crate::config) key_at: usize,
    pub(in crate::config) value: Spanned,
}

/// The reason for which a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::config) struct JsonError {
    pub(in crate::config) at: usize,
    pub(in crate::config) message: String,
    pub(in crate::config) hint: &'static str,
}

impl Node {
    /// The kind of the value, in words.
    pub(in crate::config) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Date => "a date",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

impl Spanned {
    /// The value in a canonical form: values with the same meaning give the same text. It may contain secrets.
    pub(in crate::config) fn written(&self) -> String {
        match &self.node {
            Node::Null => "null".to_owned(),
            Node::Bool(value) => value.to_string(),
            Node::Number(value) => value.to_string(),
            Node::Date => "date".to_owned(),
            Node::String(text) => format!("{text:?}"),
            Node::Array(items) => {
                let items: Vec<String> = items.iter().map(Self::written).collect();
                format!("[{}]", items.join(","))
            }
            Node::Object(members) => {
                let member = |member: &Member| format!("{:?}:{}", member.key, member.value.written());
                let members: Vec<String> = members.iter().map(member).collect();
                format!("{{{}}}", members.join(","))
            }
        }
    }
}

/// Reads a whole text. `depth_max` bounds the nesting and with it the stack.
pub(in crate::config) fn parse(text: &str, depth_max: usize) -> Result<Spanned, JsonError> {
    let mut reader = Reader { text, at: 0, depth_left: depth_max, depth_max };
    reader.skip_blanks()?;
    let value = reader.value()?;
    reader.skip_blanks()?;
    if reader.at < text.len() {
        return Err(reader.defect("more text after the end of the JSON value", ""));
    }
    Ok(value)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth_left: usize,
    depth_max: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn defect(&self, message: impl Into<String>, hint: &'static str) -> JsonError {
        JsonError { at: self.at, message: message.into(), hint }
    }

    fn skip_blanks(&mut self) -> Result<(), JsonError> {
        loop {
            let rest = &self.text[self.at..];
            let comment_bytes = match rest.as_bytes() {
                [b' ' | b'\t' | b'\n' | b'\r', ..] => Some(1),
                [b'/', b'/', ..] => Some(rest.find('\n').unwrap_or(rest.len())),
                [b'/', b'*', ..] => rest.find("*/").map(|end| end + 2),
                [b'#', ..] => return Err(self.defect("a '#', which begins no comment in JSON", "write //")),
                _ => return Ok(()),
            };
            let no_end = || self.defect("a comment without its end", "write */ behind it");
            self.at += comment_bytes.ok_or_else(no_end)?;
        }
    }

    fn value(&mut self) -> Result<Spanned, JsonError> {
        let at = self.at;
        let node = match self.peek() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::array)?,
            Some(b'"') => Node::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'a'..=b'z' | b'A'..=b'Z') => self.word()?,
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Spanned { at, node })
    }

    fn unexpected(&self, wanted: &str) -> JsonError {
        match self.text[self.at..].chars().next() {
            None => {
                self.defect(format!("the file ends where {wanted} should be"), "it may have been cut off")
            }
            Some('\'') => self.defect("a single quote, which JSON does not have", "use \"double quotes\""),
            Some(found) => self.defect(format!("{found:?} where {wanted} should be"), ""),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Node, JsonError>) -> Result<Node, JsonError> {
        self.depth_left = match self.depth_left.checked_sub(1) {
            Some(left) => left,
            None => {
                return Err(self.defect(format!("nesting deeper than {} levels", self.depth_max), ""));
            }
        };
        self.at += 1;
        self.skip_blanks()?;
        let node = read(self)?;
        self.depth_left += 1;
        Ok(node)
    }

    fn object(&mut self) -> Result<Node, JsonError> {
        let mut members = Vec::new();
        if self.closes(b'}') {
            return Ok(Node::Object(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let key_at = self.at;
            let key = self.string()?;
            self.skip_blanks()?;
            if self.peek() != Some(b':') {
                return Err(self.unexpected("':'"));
            }
            self.at += 1;
            self.skip_blanks()?;
            let value = self.value()?;
            members.push(Member { key, key_at, value });
            if self.ends_item(b'}')? {
                return Ok(Node::Object(members));
            }
        }
    }

    fn array(&mut self) -> Result<Node, JsonError> {
        let mut items = Vec::new();
        if self.closes(b']') {
            return Ok(Node::Array(items));
        }
        loop {
            items.push(self.value()?);
            if self.ends_item(b']')? {
                return Ok(Node::Array(items));
            }
        }
    }

    fn closes(&mut self, end: u8) -> bool {
        let closes = self.peek() == Some(end);
        if closes {
            self.at += 1;
        }
        closes
    }

    /// Steps over the separator after an item, and returns whether it was the end of the array or object.
    fn ends_item(&mut self, end: u8) -> Result<bool, JsonError> {
        self.skip_blanks()?;
        if self.closes(end) {
            return Ok(true);
        }
        if self.peek() != Some(b',') {
            return Err(self.unexpected(if end == b'}' { "',' or '}'" } else { "',' or ']'" }));
        }
        self.at += 1;
        self.skip_blanks()?;
        Ok(self.closes(end))
    }

    fn number(&mut self) -> Result<Node, JsonError> {
        let start = self.at;
        while let Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        match serde_json::from_str::<serde_json::Number>(&self.text[start..self.at]) {
            // A number that no float can hold becomes infinite, which every bound refuses.
            Ok(number) => Ok(Node::Number(number.as_f64().unwrap_or(f64::INFINITY))),
            Err(_) => {
                self.at = start;
                Err(self.defect("a malformed number", ""))
            }
        }
    }

    fn word(&mut self) -> Result<Node, JsonError> {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len())];
        let node = match word {
            "null" => Node::Null,
            "true" => Node::Bool(true),
            "false" => Node::Bool(false),
            _ => return Err(self.unexpected("a value")),
        };
        self.at += word.len();
        Ok(node)
    }

    /// Finds the closing quote and leaves escapes and Unicode to serde_json.
    fn string(&mut self) -> Result<String, JsonError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            match bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(0..=0x1f) => {
                    return Err(self.defect(
                        "a control character or line break inside a string",
                        "write it as an escape, or close the string",
                    ));
                }
                Some(_) => self.at += 1,
                None => {
                    self.at = start;
                    return Err(
                        self.defect("a string without its closing quote", "the file may have been cut off")
                    );
                }
            }
        }
        self.at += 1;
        serde_json::from_str(&self.text[start..self.at]).map_err(|_| JsonError {
            at: start,
            message: "a string with a broken escape".to_owned(),
            hint: "write a backslash as \\\\",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn defect(text: &str) -> (usize, String) {
        let defect = parse(text, 4).unwrap_err();
        (defect.at, defect.message)
    }

    #[test]
    fn every_way_of_being_no_json_is_named_at_its_place() {
        assert_eq!(defect(""), (0, "the file ends where a value should be".into()));
        assert_eq!(defect("[1,,]"), (3, "',' where a value should be".into()));
        assert_eq!(defect("[,]"), (1, "',' where a value should be".into()));
        assert_eq!(defect("[1 /* x ]"), (3, "a comment without its end".into()));
        assert_eq!(defect("[1 /x ]"), (3, "'/' where ',' or ']' should be".into()));
        assert_eq!(defect("[1 # x\n]"), (3, "a '#', which begins no comment in JSON".into()));
        assert_eq!(defect("{'a': 1}"), (1, "a single quote, which JSON does not have".into()));
        assert_eq!(defect("[\"a\nb\"]"), (3, "a control character or line break inside a string".into()));
        assert_eq!(defect("[\"a"), (1, "a string without its closing quote".into()));
        assert_eq!(defect("[\"\\"), (1, "a string without its closing quote".into()));
        assert_eq!(defect("[\"\\ud800\"]"), (1, "a string with a broken escape".into()));
        assert_eq!(defect("[[[[[1]]]]]"), (4, "nesting deeper than 4 levels".into()));
        assert_eq!(defect("[01]"), (1, "a malformed number".into()));
        assert_eq!(defect("{} x"), (3, "more text after the end of the JSON value".into()));
        assert_eq!(defect("{\"a\" 1}"), (5, "'1' where ':' should be".into()));
        assert_eq!(defect("[nul]"), (1, "'n' where a value should be".into()));
    }

    #[test]
    fn comments_and_last_commas_change_no_value_and_no_place() {
        let text = "// of mine\n{/* \"a\": 0 */ \"a\" /**/ : [1 /* one */, 2,], // last, }\r\n \"b\": \"// no */\",\n} //";
        let root = parse(text, 4).unwrap();
        assert_eq!(root.written(), r#"{"a":[1,2],"b":"// no */"}"#);
        let Node::Object(members) = root.node else { panic!("no object") };
        assert_eq!(members[1].key_at, text.find("\"b\"").unwrap());
    }

    #[test]
    fn repeated_keys_are_kept() {
        let Node::Object(members) = parse("{\"a\":1,\"a\":2}", 4).unwrap().node else { panic!("no object") };
        assert_eq!(
            members.iter().map(|m| (m.key.as_str(), m.key_at)).collect::<Vec<_>>(),
            [("a", 1), ("a", 7)]
        );
    }

    #[test]
    fn a_value_is_written_alike_wherever_it_stands() {
        let written = |text: &str| parse(text, 4).unwrap().written();
        assert_eq!(
            written("{\"a\": [1, null,\n true], \"b\": \"x\\n\"}"),
            r#"{"a":[1,null,true],"b":"x\n"}"#
        );
        assert_eq!(written("[ 1.50 ]"), written("[1.5]"));
        assert_ne!(written("[\"1\"]"), written("[1]"));
    }

    proptest! {
        #[test]
        fn it_accepts_what_serde_json_accepts_and_last_commas(text in "[\\[\\]{}\",:0-9eE.+ntfl\\\\u \\-]{0,24}") {
            let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            let has_last_comma = text.split(',').skip(1).any(|rest| rest.trim_start().starts_with([']', '}']));
            prop_assert!(parse(&text, 100).is_ok() == is_json || has_last_comma && !is_json);
        }
    }
}
