//! The leaves of the tree: what a name stands for.

use super::number::parse_integer;
use super::system::{Errno, System};
use super::value::Value;
use alloc::string::String;

/// Reads a value; [`Errno::Unsupported`] where this machine has none.
pub(super) type Read = fn(&dyn System) -> Result<Value, Errno>;

/// Writes text to a field of the counter of a name.
pub(super) type WriteField = fn(&dyn System, &str, &str) -> Result<(), Errno>;

/// How a node is written: the type that the text must have, and what is done
/// with the value. The function is called only with a value of that type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Write {
    /// `int` within bounds.
    Within {
        /// Least and largest value.
        bounds: (i32, i32),
        /// Takes the value.
        set: fn(&dyn System, i32) -> Result<(), Errno>,
    },
    /// `unsigned int`.
    U32(fn(&dyn System, u32) -> Result<(), Errno>),
    /// `uint64_t`.
    U64(fn(&dyn System, u64) -> Result<(), Errno>),
    /// A string of at most `limit` bytes.
    Text {
        /// Size of FreeBSD's buffer less the terminating NUL.
        limit: usize,
        /// Takes the string.
        set: fn(&dyn System, &str) -> Result<(), Errno>,
    },
}

impl Write {
    /// Converts `text` and writes it. Text of the wrong form or out of the
    /// type's range is [`Errno::Invalid`]; the system is not touched then.
    pub(super) fn apply(self, system: &dyn System, text: &str) -> Result<(), Errno> {
        match self {
            Self::Within { bounds, set } => {
                let value = integer(text)?;
                if !(bounds.0..=bounds.1).contains(&value) {
                    return Err(Errno::Invalid);
                }
                set(system, value)
            }
            Self::U32(set) => set(system, integer(text)?),
            Self::U64(set) => set(system, integer(text)?),
            Self::Text { limit, set } => {
                if text.len() > limit {
                    return Err(Errno::Invalid);
                }
                set(system, text)
            }
        }
    }
}

/// A number that fits its type.
fn integer<T: TryFrom<i128>>(text: &str) -> Result<T, Errno> {
    let value = parse_integer(text).ok_or(Errno::Invalid)?;
    T::try_from(value).map_err(|_| Errno::Invalid)
}

/// A leaf that exists on every machine.
#[derive(Debug)]
pub(super) struct Node {
    /// All of its name.
    pub(super) name: &'static str,
    /// One line for `sysctl -d`.
    pub(super) description: &'static str,
    /// Where the value comes from.
    pub(super) read: Read,
    /// `None`: read only.
    pub(super) write: Option<Write>,
}

/// One field of the registered counters, a leaf of `kern.timecounter.tc.NAME`.
#[derive(Debug)]
pub(super) struct Field {
    /// Last part of the name.
    pub(super) name: &'static str,
    /// The one counter that has it; `None`: all of them.
    pub(super) only: Option<&'static str>,
    /// One line for `sysctl -d`.
    pub(super) description: &'static str,
    /// Reads the field of the counter of that name.
    pub(super) read: fn(&dyn System, &str) -> Result<Value, Errno>,
    /// `None`: read only.
    pub(super) write: Option<WriteField>,
}

/// What stands behind an [`Oid`].
#[derive(Debug)]
pub(super) enum Source {
    /// A leaf of the fixed part.
    Fixed(&'static Node),
    /// A field of the counter of that name.
    Counter(String, &'static Field),
}

/// Why a write did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The node cannot be written at all.
    ReadOnly,
    /// It can, but not with this value.
    Refused(Errno),
}

/// A leaf as found in the tree.
#[derive(Debug)]
pub struct Oid {
    pub(super) name: String,
    pub(super) source: Source,
}

impl Oid {
    /// All of its name, `kern.timecounter.hardware`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line that says what it is.
    #[must_use]
    pub fn description(&self) -> &'static str {
        match &self.source {
            Source::Fixed(node) => node.description,
            Source::Counter(_, field) => field.description,
        }
    }

    /// Whether it can be written.
    #[must_use]
    pub fn writable(&self) -> bool {
        match &self.source {
            Source::Fixed(node) => node.write.is_some(),
            Source::Counter(_, field) => field.write.is_some(),
        }
    }

    /// Its value now.
    pub fn read(&self, system: &dyn System) -> Result<Value, Errno> {
        match &self.source {
            Source::Fixed(node) => (node.read)(system),
            Source::Counter(counter, field) => (field.read)(system, counter),
        }
    }

    /// Writes the value that `text` stands for. On an error nothing has
    /// changed.
    pub fn write(&self, system: &dyn System, text: &str) -> Result<(), WriteError> {
        match &self.source {
            Source::Fixed(node) => {
                let write = node.write.ok_or(WriteError::ReadOnly)?;
                write.apply(system, text)
            }
            Source::Counter(counter, field) => {
                let write = field.write.ok_or(WriteError::ReadOnly)?;
                write(system, counter, text)
            }
        }
        .map_err(WriteError::Refused)
    }
}
