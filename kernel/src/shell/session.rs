//! The shell at a terminal.

use super::commands::Outcome;
use super::complete::complete;
use super::editor::{Editor, Event, LIMIT};
use super::keys::Decoder;
use super::machine::Machine;
use super::output::Output;
use super::{NAME, execute};

/// What asks for a command.
const PROMPT: &str = "timehands> ";

/// A person typing at the shell, byte by byte.
#[derive(Debug)]
pub struct Session {
    decoder: Decoder,
    editor: Editor,
}

impl Session {
    /// Prints the first prompt.
    #[must_use]
    pub fn new(out: &mut dyn Output) -> Self {
        let mut editor = Editor::new(PROMPT);
        editor.start(out);
        Self {
            decoder: Decoder::default(),
            editor,
        }
    }

    /// Takes one byte from the terminal. When it ends a line, the line is run
    /// before this returns. `false` once the machine is to be powered off.
    #[must_use]
    pub fn byte(&mut self, byte: u8, machine: &dyn Machine, out: &mut dyn Output) -> bool {
        let editor = &mut self.editor;
        let mut going_on = true;
        self.decoder.byte(byte, |key| {
            let offer = |before: &str| complete(machine, before);
            let Some(event) = editor.key(key, &offer, out) else {
                return;
            };
            match event {
                Event::Line(line) => {
                    going_on &= execute(&line, machine, out) != Outcome::PowerOff;
                }
                Event::TooLong => {
                    writeln!(out, "{NAME}: a line has at most {LIMIT} characters");
                }
                Event::Interrupt => {}
            }
            if going_on {
                editor.start(out);
            }
        });
        going_on
    }
}
