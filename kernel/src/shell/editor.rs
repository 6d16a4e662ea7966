//! Editing one line on a serial terminal.
//!
//! The editor is a state machine: a [`Key`] goes in, the bytes that bring the
//! terminal up to date come out, and now and then a finished line. It asks the
//! terminal nothing and waits for nothing, which is why it exists: `noline`
//! reads no byte before the terminal has answered where its cursor is, so a
//! script on a pipe hangs, and an answer without numbers (`ESC [ R`) panics
//! it; `embedded-cli` completes only names known when it was compiled.
//!
//! Every character counts as one column, and a line longer than the terminal
//! is wide is shown correctly only while it is typed at its end.

use super::history::History;
use super::keys::Key;
use super::output::Output;
use alloc::string::String;
use alloc::vec::Vec;

/// Longest line in characters. What is typed beyond it makes the whole line
/// invalid: running its beginning would be worse.
pub const LIMIT: usize = 1000;

/// Rings the terminal's bell.
const BELL: &str = "\x07";

/// What ended a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Enter, with this text.
    Line(String),
    /// Enter, on a line longer than [`LIMIT`].
    TooLong,
    /// Ctrl-C.
    Interrupt,
}

/// What could stand where the cursor is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Characters before the cursor that belong to the word.
    pub typed: usize,
    /// The words it could become, each beginning with what is typed.
    pub candidates: Vec<String>,
}

/// A line being edited, and the lines before it.
#[derive(Debug)]
pub struct Editor {
    prompt: &'static str,
    line: Vec<char>,
    cursor: usize,
    overflow: bool,
    history: History,
}

impl Editor {
    /// An empty line. Nothing is printed before [`Editor::start`].
    #[must_use]
    pub fn new(prompt: &'static str) -> Self {
        Self {
            prompt,
            line: Vec::new(),
            cursor: 0,
            overflow: false,
            history: History::default(),
        }
    }

    /// Begins a new line with the prompt.
    pub fn start(&mut self, out: &mut dyn Output) {
        self.line.clear();
        self.cursor = 0;
        self.overflow = false;
        self.history.reset();
        out.put(self.prompt);
    }

    /// Takes a key. `complete` is asked when the key is Tab, with the text
    /// before the cursor. After an event the line stays as it is until
    /// [`Editor::start`].
    pub fn key(
        &mut self,
        key: Key,
        complete: &dyn Fn(&str) -> Completion,
        out: &mut dyn Output,
    ) -> Option<Event> {
        let moved = match key {
            Key::Char(c) => return self.insert_typed(c, out),
            Key::Enter => return Some(self.finish(out)),
            Key::Interrupt => {
                out.put("^C\n");
                return Some(Event::Interrupt);
            }
            Key::Tab => self.complete(complete, out),
            Key::Backspace => {
                self.cursor > 0 && {
                    self.cursor -= 1;
                    self.delete(self.cursor..self.cursor + 1)
                }
            }
            Key::Delete => self.delete(self.cursor..self.cursor + 1),
            Key::Left => self.move_to(self.cursor.checked_sub(1)),
            Key::Right => self.move_to(Some(self.cursor + 1)),
            Key::Home => self.move_to(Some(0)),
            Key::End => self.move_to(Some(self.line.len())),
            Key::KillToEnd => self.delete(self.cursor..self.line.len()),
            Key::KillLine => self.delete(0..self.line.len()),
            Key::KillWord => self.delete(self.word_start()..self.cursor),
            Key::Up => {
                let current: String = self.line.iter().collect();
                let older = self.history.older(&current).map(characters);
                self.replace(older)
            }
            Key::Down => {
                let newer = self.history.newer().map(characters);
                self.replace(newer)
            }
            Key::ClearScreen => {
                out.put("\x1b[H\x1b[2J");
                true
            }
            Key::Unknown => false,
        };
        if moved {
            self.draw(out);
        } else {
            out.put(BELL);
        }
        None
    }

    /// A typed character. It and what it pushes to the right is all that has
    /// to be sent; at the end of the line, the usual case, just it.
    fn insert_typed(&mut self, c: char, out: &mut dyn Output) -> Option<Event> {
        if self.line.len() >= LIMIT {
            self.overflow = true;
            out.put(BELL);
            return None;
        }
        self.line.insert(self.cursor, c);
        put(self.line.iter().skip(self.cursor), out);
        self.cursor += 1;
        self.put_cursor_back(out);
        None
    }

    fn finish(&mut self, out: &mut dyn Output) -> Event {
        out.put("\n");
        if self.overflow {
            return Event::TooLong;
        }
        let line: String = self.line.iter().collect();
        self.history.add(&line);
        Event::Line(line)
    }

    /// Moves the cursor, `false` where there is no such place.
    fn move_to(&mut self, place: Option<usize>) -> bool {
        match place {
            Some(place) if place <= self.line.len() => {
                self.cursor = place;
                true
            }
            _ => false,
        }
    }

    /// Deletes a range around or at the cursor and leaves the cursor at its
    /// start; `false` where it reaches beyond the line or is empty.
    fn delete(&mut self, range: core::ops::Range<usize>) -> bool {
        if range.is_empty() || range.end > self.line.len() {
            return false;
        }
        self.cursor = range.start;
        self.line.drain(range);
        true
    }

    /// Where the word before the cursor begins.
    fn word_start(&self) -> usize {
        let before = self.line.iter().take(self.cursor);
        let blank = |c: &&char| c.is_ascii_whitespace();
        let rest = before.rev().skip_while(blank).skip_while(|c| !blank(c));
        rest.count()
    }

    fn replace(&mut self, line: Option<Vec<char>>) -> bool {
        let Some(line) = line else {
            return false;
        };
        self.cursor = line.len();
        self.line = line;
        true
    }

    /// Extends the word before the cursor as far as all candidates agree; when
    /// that is not at all, lists them.
    fn complete(&mut self, complete: &dyn Fn(&str) -> Completion, out: &mut dyn Output) -> bool {
        let before: String = self.line.iter().take(self.cursor).collect();
        let completion = complete(&before);
        let Some(first) = completion.candidates.first() else {
            return false;
        };
        let mut common: Vec<char> = first.chars().collect();
        for candidate in &completion.candidates {
            let agreed = common.iter().zip(candidate.chars());
            let agreed = agreed.take_while(|(a, b)| **a == *b).count();
            common.truncate(agreed);
        }
        // A whole name is followed by a blank; an inner node, by its children.
        if completion.candidates.len() == 1 && !first.ends_with('.') {
            common.push(' ');
        }
        let added = common.get(completion.typed..).unwrap_or(&[]);
        if self.line.len() + added.len() > LIMIT {
            return false;
        }
        if added.is_empty() {
            out.put("\n");
            for candidate in &completion.candidates {
                writeln!(out, "{candidate}");
            }
        }
        self.line
            .splice(self.cursor..self.cursor, added.iter().copied());
        self.cursor += added.len();
        true
    }

    /// Draws the line anew.
    fn draw(&self, out: &mut dyn Output) {
        write!(out, "\r{}", self.prompt);
        put(&self.line, out);
        out.put("\x1b[K");
        self.put_cursor_back(out);
    }

    /// Moves the terminal's cursor from the end of the line to where ours is.
    fn put_cursor_back(&self, out: &mut dyn Output) {
        match self.line.len() - self.cursor {
            0 => {}
            columns => write!(out, "\x1b[{columns}D"),
        }
    }
}

fn put<'a>(characters: impl IntoIterator<Item = &'a char>, out: &mut dyn Output) {
    for c in characters {
        out.put(c.encode_utf8(&mut [0; 4]));
    }
}

fn characters(text: &str) -> Vec<char> {
    text.chars().collect()
}

#[cfg(test)]
#[path = "editor_tests.rs"]
mod tests;
