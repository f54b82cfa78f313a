//! The meaning of a pattern without wildcards: its text, and a number, a boolean or null if the text is one.

use belljar_base::text;
use serde_json::Value;

use super::number::Decimal;

const TRUE: [&str; 5] = ["true", "t", "yes", "y", "on"];
const FALSE: [&str; 5] = ["false", "f", "no", "n", "off"];
const NOTHING: [&str; 4] = ["null", "none", "nil", "undefined"];

/// The values that a pattern without wildcards means in addition to its text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LiteralMeaning {
    number: Option<Decimal>,
    truth: Option<bool>,
    is_nothing: bool,
}

impl LiteralMeaning {
    /// The values that a server could convert the text to.
    pub(super) fn of(text: &str) -> Self {
        let drawn = text::drawn(text);
        let (word, number) = (text::folded(&drawn), Decimal::read(&drawn));
        let is = |words: &[&str]| words.contains(&&*word);
        let is_nothing = is(&NOTHING);
        let truth = match &number {
            Some(number) if number.is_zero() => Some(false),
            Some(number) if number.plain().as_deref() == Some("1") => Some(true),
            _ if is(&TRUE) => Some(true),
            _ if is(&FALSE) => Some(false),
            _ => None,
        };
        Self { number, truth, is_nothing }
    }

    /// Whether an absent argument may mean this.
    pub(super) fn is_nothing(&self) -> bool {
        self.is_nothing || (self.truth == Some(false) && self.number.is_none())
    }

    /// Whether some server may read the value as this.
    pub(super) fn names(&self, value: &Value) -> bool {
        let is_empty = value.is_null() || value.as_str().is_some_and(text::says_nothing);
        let drawn = value.as_str().map(text::drawn);
        let text = drawn.as_deref().map(text::folded);
        let is = |words: &[&str]| text.as_ref().is_some_and(|text| words.contains(&&**text));
        if self.is_nothing && (is_empty || is(&NOTHING)) {
            return true;
        }
        let number = number(value);
        if let (Some(named), Some(number)) = (&self.number, &number) {
            return named.may_equal(number);
        }
        let Some(truth) = self.truth else { return false };
        match (value, &number) {
            (Value::Bool(value), _) => *value == truth,
            (_, Some(number)) if truth => !number.is_zero(),
            (_, Some(number)) => number.may_be_zero(),
            _ if is(&TRUE) => truth,
            _ if is_empty || is(&FALSE) || is(&NOTHING) => !truth,
            _ => false,
        }
    }
}

/// The number that a value is, or that its text contains.
pub(super) fn number(value: &Value) -> Option<Decimal> {
    match value {
        Value::Number(number) => Decimal::read(&number.to_string()),
        Value::String(text) => Decimal::read(&text::drawn(text)),
        _ => None,
    }
}
