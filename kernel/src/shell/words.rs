//! A line, split into words.
//!
//! Blanks separate words. Single quotes keep everything between them; double
//! quotes too, except that a backslash in front of `"` or `\` stands for that
//! byte. A word that begins with an unquoted `#` and all after it is a
//! comment. An unquoted `&` at the end sends the command to the background.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::iter::Peekable;
use core::str::Chars;

/// A line understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Command and arguments; none for an empty line or a comment.
    pub words: Vec<String>,
    /// The line ended with `&`.
    pub background: bool,
}

/// Why a line was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxError {
    /// A quote was opened and not closed.
    UnmatchedQuote(char),
    /// An `&` that does not end the line, or has no command before it.
    StrayAmpersand,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnmatchedQuote(quote) => write!(f, "unmatched {quote}"),
            Self::StrayAmpersand => f.write_str("& stands only at the end of a command"),
        }
    }
}

/// Splits `line` into words.
pub fn parse(line: &str) -> Result<Parsed, SyntaxError> {
    let mut parsed = Parsed::default();
    let mut chars = line.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
        match chars.peek() {
            None | Some('#') => return Ok(parsed),
            Some(_) if parsed.background => return Err(SyntaxError::StrayAmpersand),
            Some('&') => {
                if parsed.words.is_empty() {
                    return Err(SyntaxError::StrayAmpersand);
                }
                parsed.background = true;
                chars.next();
            }
            Some(_) => parsed.words.push(word(&mut chars)?),
        }
    }
}

/// Takes one word; it may be quoted in parts, and be empty when quoted.
fn word(chars: &mut Peekable<Chars<'_>>) -> Result<String, SyntaxError> {
    let mut word = String::new();
    while let Some(c) = chars.next_if(|c| !c.is_ascii_whitespace() && *c != '&') {
        match c {
            '\'' | '"' => quoted(c, chars, &mut word)?,
            _ => word.push(c),
        }
    }
    Ok(word)
}

/// Takes what stands between quotes, and the closing quote.
fn quoted(
    quote: char,
    chars: &mut Peekable<Chars<'_>>,
    word: &mut String,
) -> Result<(), SyntaxError> {
    while let Some(c) = chars.next() {
        match c {
            _ if c == quote => return Ok(()),
            '\\' if quote == '"' => match chars.next_if(|next| matches!(next, '"' | '\\')) {
                Some(escaped) => word.push(escaped),
                None => word.push('\\'),
            },
            _ => word.push(c),
        }
    }
    Err(SyntaxError::UnmatchedQuote(quote))
}

#[cfg(test)]
mod tests {
    use super::{SyntaxError, parse};

    #[test]
    fn blanks_separate_and_quotes_join() {
        for (line, words) in [
            ("", &[][..]),
            (" \t ", &[]),
            ("# all of this", &[]),
            ("a b  c", &["a", "b", "c"]),
            ("a#b #c", &["a#b"]),
            ("'a b' \"c d\"", &["a b", "c d"]),
            ("'#' \"&\"", &["#", "&"]),
            ("x='a b'y", &["x=a by"]),
            ("''", &[""]),
            (r#""a\"b\\c\d""#, &[r#"a"b\c\d"#]),
            (r"'a\'", &[r"a\"]),
            ("n\u{e4}me \u{fffd}", &["n\u{e4}me", "\u{fffd}"]),
        ] {
            let parsed = parse(line).expect(line);
            assert_eq!(parsed.words, words, "splitting {line:?}");
            assert!(!parsed.background, "no & outside quotes in {line:?}");
        }
    }

    #[test]
    fn an_ampersand_at_the_end_means_the_background() {
        for line in ["spin 1 &", "spin 1&", "spin 1 & # comment"] {
            let parsed = parse(line).expect(line);
            assert_eq!(parsed.words, ["spin", "1"], "splitting {line:?}");
            assert!(parsed.background, "{line:?} asks for the background");
        }
    }

    #[test]
    fn a_line_that_makes_no_sense_is_refused() {
        for (line, error) in [
            ("a 'b", SyntaxError::UnmatchedQuote('\'')),
            ("\"a\\\"", SyntaxError::UnmatchedQuote('"')),
            ("&", SyntaxError::StrayAmpersand),
            ("a & b", SyntaxError::StrayAmpersand),
            ("a &&", SyntaxError::StrayAmpersand),
        ] {
            assert_eq!(parse(line), Err(error), "splitting {line:?}");
        }
    }
}
