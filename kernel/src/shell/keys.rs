//! Keys, out of the bytes of a serial line.
//!
//! A terminal sends text as UTF-8, control keys as control bytes and the other
//! keys as escape sequences: `ESC [`, parameters, a final byte (ECMA-48), or
//! `ESC O` and a byte. The decoder takes one byte at a time and never waits: an
//! escape sequence it does not know ends at its final byte and is dropped, and
//! bytes that are not UTF-8 become U+FFFD, so that a damaged command is seen
//! to be damaged instead of being run without the damage.

/// What was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character of text.
    Char(char),
    /// End of the line.
    Enter,
    /// Asks for completion.
    Tab,
    /// Deletes before the cursor.
    Backspace,
    /// Deletes at the cursor.
    Delete,
    /// Cursor left.
    Left,
    /// Cursor right.
    Right,
    /// Cursor to the start of the line.
    Home,
    /// Cursor to the end of the line.
    End,
    /// An older line.
    Up,
    /// A newer line.
    Down,
    /// Deletes from the cursor to the end (Ctrl-K).
    KillToEnd,
    /// Deletes the whole line (Ctrl-U).
    KillLine,
    /// Deletes the word before the cursor (Ctrl-W).
    KillWord,
    /// Clears the screen (Ctrl-L).
    ClearScreen,
    /// Gives the line up (Ctrl-C).
    Interrupt,
    /// A key without a meaning.
    Unknown,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Ground,
    /// Behind a carriage return: a line feed now belongs to it.
    Return,
    /// Inside a character of `length` bytes of which `have` are there.
    Utf8 {
        bytes: [u8; 4],
        have: usize,
        length: usize,
    },
    /// Behind ESC.
    Escape,
    /// Behind `ESC O`.
    SingleShift,
    /// Behind `ESC [`: the first parameter, and whether it is complete.
    Control { parameter: u32, complete: bool },
}

/// Turns bytes into keys.
#[derive(Debug, Default)]
pub struct Decoder(State);

impl Decoder {
    /// Takes one byte and hands the keys it completes to `press`: none, one,
    /// or two where the byte also shows that a character before it is broken.
    pub fn byte(&mut self, byte: u8, mut press: impl FnMut(Key)) {
        let state = core::mem::take(&mut self.0);
        match state {
            State::Return if byte == b'\n' => {}
            State::Ground | State::Return => self.ground(byte, press),
            State::Utf8 {
                mut bytes,
                have,
                length,
            } => {
                if byte & 0xc0 != 0x80 {
                    press(Key::Char(char::REPLACEMENT_CHARACTER));
                    return self.ground(byte, press);
                }
                if let Some(place) = bytes.get_mut(have) {
                    *place = byte;
                }
                let have = have + 1;
                if have < length {
                    self.0 = State::Utf8 {
                        bytes,
                        have,
                        length,
                    };
                    return;
                }
                press(Key::Char(character(bytes.get(..length).unwrap_or(&[]))));
            }
            State::Escape => match byte {
                b'[' => {
                    self.0 = State::Control {
                        parameter: 0,
                        complete: false,
                    };
                }
                b'O' => self.0 = State::SingleShift,
                0x1b => self.0 = State::Escape,
                _ => press(Key::Unknown),
            },
            State::SingleShift => press(cursor_key(byte)),
            State::Control {
                parameter,
                complete,
            } => match byte {
                b'0'..=b'9' if !complete => {
                    self.0 = State::Control {
                        parameter: parameter
                            .saturating_mul(10)
                            .saturating_add(u32::from(byte - b'0')),
                        complete,
                    };
                }
                // Further parameters (modifiers) and intermediate bytes.
                0x20..=0x3f => {
                    self.0 = State::Control {
                        parameter,
                        complete: true,
                    };
                }
                b'~' => press(match parameter {
                    1 | 7 => Key::Home,
                    3 => Key::Delete,
                    4 | 8 => Key::End,
                    _ => Key::Unknown,
                }),
                0x40..=0x7e => press(cursor_key(byte)),
                // A control byte or worse: the sequence was cut off.
                _ => self.ground(byte, press),
            },
        }
    }

    /// A byte outside any sequence.
    fn ground(&mut self, byte: u8, mut press: impl FnMut(Key)) {
        let length = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            0x80.. => return press(Key::Char(char::REPLACEMENT_CHARACTER)),
            0x1b => {
                self.0 = State::Escape;
                return;
            }
            b'\r' => {
                self.0 = State::Return;
                return press(Key::Enter);
            }
            _ => return press(plain(byte)),
        };
        self.0 = State::Utf8 {
            bytes: [byte, 0, 0, 0],
            have: 1,
            length,
        };
    }
}

/// An ASCII byte, control bytes as Emacs and every shell bind them.
fn plain(byte: u8) -> Key {
    const fn ctrl(letter: u8) -> u8 {
        letter & 0x1f
    }
    const A: u8 = ctrl(b'A');
    const B: u8 = ctrl(b'B');
    const C: u8 = ctrl(b'C');
    const D: u8 = ctrl(b'D');
    const E: u8 = ctrl(b'E');
    const F: u8 = ctrl(b'F');
    const H: u8 = ctrl(b'H');
    const K: u8 = ctrl(b'K');
    const L: u8 = ctrl(b'L');
    const N: u8 = ctrl(b'N');
    const P: u8 = ctrl(b'P');
    const U: u8 = ctrl(b'U');
    const W: u8 = ctrl(b'W');
    match byte {
        b' '..=b'~' => Key::Char(char::from(byte)),
        b'\n' => Key::Enter,
        b'\t' => Key::Tab,
        H | 0x7f => Key::Backspace,
        A => Key::Home,
        B => Key::Left,
        C => Key::Interrupt,
        D => Key::Delete,
        E => Key::End,
        F => Key::Right,
        K => Key::KillToEnd,
        L => Key::ClearScreen,
        N => Key::Down,
        P => Key::Up,
        U => Key::KillLine,
        W => Key::KillWord,
        _ => Key::Unknown,
    }
}

/// The final byte of a cursor key's sequence.
fn cursor_key(byte: u8) -> Key {
    match byte {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'F' => Key::End,
        b'H' => Key::Home,
        _ => Key::Unknown,
    }
}

/// The character of a complete sequence; overlong forms and surrogates are
/// not characters.
fn character(bytes: &[u8]) -> char {
    let text = str::from_utf8(bytes).unwrap_or("");
    text.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::{Decoder, Key};
    use alloc::vec;
    use alloc::vec::Vec;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut decoder = Decoder::default();
        let mut keys = Vec::new();
        for byte in bytes {
            decoder.byte(*byte, |key| keys.push(key));
        }
        keys
    }

    const BROKEN: Key = Key::Char(char::REPLACEMENT_CHARACTER);

    #[test]
    fn text_is_utf8() {
        assert_eq!(
            keys("a\u{e9}\u{20ac}\u{1f552}".as_bytes()),
            ['a', '\u{e9}', '\u{20ac}', '\u{1f552}'].map(Key::Char),
            "one to four bytes a character"
        );
    }

    #[test]
    fn what_is_not_utf8_is_seen_as_damage() {
        assert_eq!(keys(b"\xffa"), [BROKEN, Key::Char('a')], "no such byte");
        assert_eq!(keys(b"\xc3a"), [BROKEN, Key::Char('a')], "cut off by text");
        assert_eq!(
            keys(b"\xe2\x82\r"),
            [BROKEN, Key::Enter],
            "cut off by Enter"
        );
        assert_eq!(keys(b"\xe0\x80\x80"), [BROKEN], "overlong form");
        assert_eq!(keys(b"\xed\xa0\x80"), [BROKEN], "a surrogate");
        assert_eq!(
            keys(b"\xc3\xc3\xa9"),
            [BROKEN, Key::Char('\u{e9}')],
            "twice begun"
        );
    }

    #[test]
    fn a_line_ends_once() {
        let enter = Key::Enter;
        assert_eq!(keys(b"\r"), [enter], "carriage return");
        assert_eq!(keys(b"\n"), [enter], "line feed");
        assert_eq!(keys(b"\r\n"), [enter], "both");
        assert_eq!(keys(b"\r\r\n\n"), [enter, enter, enter], "three ends");
    }

    #[test]
    fn escape_sequences_are_keys() {
        for (bytes, key) in [
            (&b"\x1b[A"[..], Key::Up),
            (b"\x1b[B", Key::Down),
            (b"\x1b[C", Key::Right),
            (b"\x1b[D", Key::Left),
            (b"\x1b[H", Key::Home),
            (b"\x1b[F", Key::End),
            (b"\x1bOA", Key::Up),
            (b"\x1bOH", Key::Home),
            (b"\x1b[1~", Key::Home),
            (b"\x1b[3~", Key::Delete),
            (b"\x1b[4~", Key::End),
            (b"\x1b[1;5C", Key::Right),
            (b"\x1b[99999999999999999999~", Key::Unknown),
            (b"\x1b[R", Key::Unknown),
            (b"\x1bx", Key::Unknown),
        ] {
            assert_eq!(keys(bytes), vec![key], "decoding {}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_sequence_cut_off_by_a_line_end_does_not_swallow_it() {
        assert_eq!(keys(b"\x1b[1\r"), [Key::Enter], "Enter must get through");
    }
}
