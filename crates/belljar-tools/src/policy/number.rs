//! Decimal numbers of any size, compared by their value.
//!
//! It computes nothing: a number consists of its digits and the position of its decimal point.

use std::borrow::Cow;

use belljar_base::text;

/// The largest number of digits of a number that is written without an exponent.
const PLAIN_DIGITS_MAX: i64 = 400;
/// The largest number of bits of a hexadecimal, octal or binary number that is converted: those of so many digits.
const BITS_MAX: usize = 1_330;
/// The exponent of a number that is too long to be converted.
const ENDLESS: i64 = 999_999_999;
/// The digits of one part of a number that is converted, and the number after its largest value.
const PART_DIGITS: usize = 9;
const PART_END: u64 = 1_000_000_000;
/// The largest number of digits of an exponent, without leading zeros. A larger exponent is replaced by the largest one
/// with that many digits, which already makes a number 0 or infinite as a double.
const EXPONENT_DIGITS_MAX: usize = 9;

/// The number `digits` × 10^`exponent`, without zeros at either end of the digits; zero has no digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads a text that some server may read as a number: numbers of JSON, Python and JavaScript, such as `+042`,
    /// `4_2`, `.5`, `0x2a` and digits of other scripts. `None`: it is no number.
    pub(super) fn read(text: &str) -> Option<Self> {
        let text = with_ascii_digits(text::folded(text));
        let (is_negative, text) = match text.strip_prefix(['-', '−']) {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(&text)),
        };
        for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
            if let Some(digits) = text.strip_prefix(prefix) {
                let digits = digits.replace('_', "");
                let significant = digits.trim_start_matches('0');
                if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
                    return None;
                }
                let bits = significant.len() * usize::try_from(radix.ilog2()).ok()?;
                return match bits > BITS_MAX {
                    true => Self::of(is_negative, "1", ENDLESS),
                    false => Self::of(is_negative, &decimal(significant, radix), 0),
                };
            }
        }
        let (mantissa, exponent) = match text.split_once('e') {
            Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
            // JavaScript's big integers end in n.
            None => (text.strip_suffix('n').unwrap_or(text), 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let whole = digits(whole)?;
        let fraction = digits(fraction)?;
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let places = i64::try_from(fraction.len()).ok()?;
        Self::of(is_negative, &(whole + &fraction), exponent - places)
    }

    fn of(is_negative: bool, digits: &str, exponent: i64) -> Option<Self> {
        let significant = digits.trim_end_matches('0');
        let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
        let significant = significant.trim_start_matches('0');
        let is_zero = significant.is_empty();
        Some(Self {
            is_negative: is_negative && !is_zero,
            digits: significant.to_owned(),
            exponent: if is_zero { 0 } else { exponent + zeros },
        })
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Whether some server may read it as 0: it is 0, or its double is.
    pub(super) fn may_be_zero(&self) -> bool {
        self.is_zero() || self.double() == Some(0.0)
    }

    /// Whether some server may read both as one number: they are equal, or they are equal as doubles, which many
    /// servers use, or one is too long to be converted and the other one has more digits than those that are.
    pub(super) fn may_equal(&self, other: &Self) -> bool {
        let is_in_doubt = |one: &Self, other: &Self| one.is_endless() && other.is_long();
        self == other
            || self.double().is_some_and(|double| other.double() == Some(double))
            || (self.is_negative == other.is_negative
                && (is_in_doubt(self, other) || is_in_doubt(other, self)))
    }

    /// Whether it stands for a number that is too long to be converted.
    fn is_endless(&self) -> bool {
        self.exponent >= ENDLESS
    }

    fn is_long(&self) -> bool {
        i64::try_from(self.digits.len()).is_ok_and(|count| count + self.exponent >= PLAIN_DIGITS_MAX)
    }

    /// The number written without an exponent; `None`: that is too long.
    pub(super) fn plain(&self) -> Option<String> {
        let count = i64::try_from(self.digits.len()).ok()?;
        if count + self.exponent.abs() > PLAIN_DIGITS_MAX {
            return None;
        }
        let sign = if self.is_negative { "-" } else { "" };
        let point = count + self.exponent;
        Some(if self.is_zero() {
            "0".to_owned()
        } else if self.exponent >= 0 {
            let zeros = usize::try_from(self.exponent).ok()?;
            format!("{sign}{}{}", self.digits, "0".repeat(zeros))
        } else if point > 0 {
            let (whole, fraction) = self.digits.split_at(usize::try_from(point).ok()?);
            format!("{sign}{whole}.{fraction}")
        } else {
            format!("{sign}0.{}{}", "0".repeat(usize::try_from(-point).ok()?), self.digits)
        })
    }

    fn double(&self) -> Option<f64> {
        let sign = if self.is_negative { "-" } else { "" };
        let digits = if self.is_zero() { "0" } else { &self.digits };
        let double: f64 = format!("{sign}{digits}e{}", self.exponent).parse().ok()?;
        double.is_finite().then_some(double)
    }
}

/// The text with decimal digits of every script replaced by ASCII digits, as Python does first.
pub(super) fn with_ascii_digits(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.is_ascii() {
        return text;
    }
    let in_ascii = |one| text::decimal_digit(one).map_or(one, |digit| char::from(b'0' + digit));
    Cow::Owned(text.chars().map(in_ascii).collect())
}

/// The decimal digits of the text. Python allows underscores between them.
fn digits(text: &str) -> Option<String> {
    let shown = text.chars().filter(|character| *character != '_');
    shown.map(|character| character.is_ascii_digit().then_some(character)).collect()
}

fn read_exponent(text: &str) -> Option<i64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits(text)?;
    let significant = match digits.trim_start_matches('0') {
        "" if digits.is_empty() => return None,
        "" => "0",
        long if long.len() > EXPONENT_DIGITS_MAX => &"9".repeat(EXPONENT_DIGITS_MAX),
        significant => significant,
    };
    Some(sign * significant.parse::<i64>().ok()?)
}

/// The decimal digits of these digits of another radix.
fn decimal(digits: &str, radix: u32) -> String {
    // The last part comes first.
    let mut parts: Vec<u64> = Vec::new();
    for digit in digits.chars().filter_map(|digit| digit.to_digit(radix)) {
        let mut carried = u64::from(digit);
        for part in &mut parts {
            carried += *part * u64::from(radix);
            (*part, carried) = (carried % PART_END, carried / PART_END);
        }
        if carried > 0 {
            parts.push(carried);
        }
    }
    parts.iter().rev().map(|part| format!("{part:0PART_DIGITS$}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Decimal {
        Decimal::read(text).unwrap_or_else(|| panic!("{text} is a number"))
    }

    #[test]
    fn zero_is_zero_whatever_its_exponent() {
        for text in ["0e10000000000", "0.00e-99999999999", "-0e5"] {
            assert!(read(text).is_zero(), "{text}");
        }
        assert!(Decimal::read("0ex").is_none() && Decimal::read("0e").is_none());
    }

    #[test]
    fn numbers_of_other_radixes_equal_those_of_as_many_digits_and_longer_ones_are_in_doubt() {
        // 10^399 has 1,326 bits.
        let power = decimal(&format!("1{}", "0".repeat(399)), 10);
        assert_eq!(power.trim_start_matches('0').len(), 400);
        let hexadecimal = format!("0x{}", hexadecimal_power_of_ten(399));
        assert!(
            read(&hexadecimal).may_equal(&read("1e399")) && !read(&hexadecimal).may_equal(&read("1e398"))
        );
        assert!(read(&hexadecimal).plain().is_some());
        let longer = read(&format!("0x{}", hexadecimal_power_of_ten(410)));
        assert!(longer.may_equal(&read("1e410")) && read("1e999").may_equal(&longer));
        assert!(!longer.may_equal(&read("-1e410")) && !longer.may_equal(&read("1e390")));
    }

    fn hexadecimal_power_of_ten(exponent: usize) -> String {
        // The last digit comes first.
        let mut digits = vec![1_u32];
        for _ in 0..exponent {
            let mut carried = 0;
            for digit in &mut digits {
                carried += *digit * 10;
                (*digit, carried) = (carried % 16, carried / 16);
            }
            if carried > 0 {
                digits.push(carried);
            }
        }
        digits.iter().rev().map(|digit| format!("{digit:x}")).collect()
    }

    #[test]
    fn numbers_of_other_radixes_are_read_as_far_as_a_pattern_can_name_them() {
        let power = format!("0b{:b}", 10_u128.pow(30));
        assert!(read(&power).may_equal(&read("1e30")));
        let ones = |prefix: &str, count: usize| read(&format!("{prefix}{}", "1".repeat(count)));
        // 300 binary ones are 75 hexadecimal fs.
        assert!(ones("0b", 300) == read(&format!("0x{}", "f".repeat(75))));
        for endless in [ones("0x", 333), ones("0o", 444), ones("0b", 1_331), ones("0x", 100_000)] {
            assert!(!endless.may_be_zero() && endless.plain().is_none(), "{endless:?}");
        }
        assert!(Decimal::read("0x").is_none() && Decimal::read("0b12").is_none());
    }

    #[test]
    fn equal_numbers_are_equal_in_every_spelling() {
        for (number, spellings) in [
            (
                "42",
                &[
                    "42.0",
                    "4.2e1",
                    "420E-1",
                    "+42",
                    "042",
                    " 42\n",
                    "4_2",
                    "42.",
                    "0x2a",
                    "0x٢a",
                    "٠x2a",
                    "0b101010",
                    "٤٢",
                    "４２",
                    "42n",
                    "0.0042e0004",
                ][..],
            ),
            ("0", &["-0", "0.000", "0e99", "-0e-9", "00", ".0"]),
            ("9007199254740993", &["9007199254740993.0", "9.007199254740993e15", "9007199254740993000e-3"]),
            ("-0.1", &["-.1", "-1e-1", "-0.10", "−0.1"]),
        ] {
            for spelling in spellings {
                assert_eq!(read(spelling), read(number), "{spelling}");
            }
        }
        assert_ne!(read("42"), read("-42"));
        assert_ne!(read("9007199254740993"), read("9007199254740992"));
        assert_ne!(read("0.1"), read("0.1000000000000000000000000001"));
    }

    #[test]
    fn what_is_no_number_is_not_read_as_one() {
        for text in ["", "x", "4 2", "1.2.3", "e5", "1e", "0x", "0xg", "--1", "nan", "inf", "."] {
            assert_eq!(Decimal::read(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_that_are_one_double_may_be_equal() {
        assert!(read("9007199254740993").may_equal(&read("9007199254740992")));
        assert!(!read("9007199254740993").may_equal(&read("9007199254740990")));
        assert!(!read("1e400").may_equal(&read("1e401")), "both are infinite");
        assert!(read("1e400").may_equal(&read("10e399")));
        assert!(read("1e-99999999999").may_equal(&read("0")) && read("1e-99999999999").may_be_zero());
        assert!(!read("1e99999999999").may_be_zero() && !read("1e-300").may_be_zero());
    }

    #[test]
    fn a_number_is_written_out_unless_that_is_too_long() {
        for (text, plain) in
            [("4.2e1", "42"), ("42e3", "42000"), ("-5e-3", "-0.005"), ("12.50", "12.5"), ("-0", "0")]
        {
            assert_eq!(read(text).plain().as_deref(), Some(plain), "{text}");
        }
        assert_eq!(read("1e999999999").plain(), None);
        assert_eq!(read("1e-999999999").plain(), None);
    }
}
