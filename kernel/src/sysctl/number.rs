//! Integers as sysctl(8) and the loader read them.
//!
//! The base is told by the prefix, as `strtol` does with base 0: `0x` for
//! hexadecimal, a leading `0` for octal, decimal otherwise; a sign may stand in
//! front. Unlike `strtol` nothing may stand around the number, and a number
//! too large for its type is never wrapped into it.

/// Reads `text` as an integer.
///
/// `None` when it is not one from the first byte to the last. A magnitude
/// beyond `i128` saturates, so that every later range check refuses it.
#[must_use]
pub fn parse_integer(text: &str) -> Option<i128> {
    let (negative, magnitude) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let hexadecimal = magnitude
        .strip_prefix("0x")
        .or_else(|| magnitude.strip_prefix("0X"));
    let (digits, radix) = match hexadecimal {
        Some(digits) => (digits, 16),
        None if magnitude.starts_with('0') => (magnitude, 8),
        None => (magnitude, 10),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: i128 = 0;
    for digit in digits.chars() {
        let digit = i128::from(digit.to_digit(radix)?);
        value = value
            .saturating_mul(i128::from(radix))
            .saturating_add(digit);
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::parse_integer;

    #[test]
    fn the_prefix_tells_the_base() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("42", 42),
            ("+42", 42),
            ("-42", -42),
            ("0x10", 16),
            ("0XfF", 255),
            ("-0x1", -1),
            ("010", 8),
            ("18446744073709551615", (1 << 64) - 1),
        ] {
            assert_eq!(parse_integer(text), Some(value), "reading {text:?}");
        }
    }

    #[test]
    fn what_is_not_a_number_from_end_to_end_is_refused() {
        for text in [
            "", "-", "+", "--1", "+-1", "0x", "0x-1", "08", "1 ", " 1", "1k", "abc", "1.0",
            "\u{661}", "1\0",
        ] {
            assert_eq!(parse_integer(text), None, "reading {text:?}");
        }
    }

    #[test]
    fn an_endless_number_saturates() {
        let digits = "9".repeat(1000);
        assert_eq!(
            parse_integer(&digits),
            Some(i128::MAX),
            "a thousand nines must not wrap"
        );
    }
}
