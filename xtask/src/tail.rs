//! What a serial port has written to its file, read as it grows.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// A growing file, read as it grows.
pub(crate) struct Tail {
    file: File,
    /// All that has been read and counts.
    pub(crate) bytes: Vec<u8>,
    /// The byte to look for, before and up to which nothing counts.
    mark: Option<u8>,
}

impl Tail {
    pub(crate) fn new(path: &Path, mark: Option<u8>) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            bytes: Vec::new(),
            mark,
        })
    }

    /// Reads what is new and copies it to `sink`; whether there was any.
    pub(crate) fn follow(&mut self, sink: Option<impl Write>) -> io::Result<bool> {
        let before = self.bytes.len();
        self.file.read_to_end(&mut self.bytes)?;
        if let Some(mark) = self.mark {
            let found = self.bytes.iter().position(|&byte| byte == mark);
            self.bytes
                .drain(..found.map_or(self.bytes.len(), |at| at + 1));
            self.mark = found.is_none().then_some(mark);
        }
        let new = self.bytes.get(before..).unwrap_or_default();
        if let (Some(mut sink), false) = (sink, new.is_empty()) {
            sink.write_all(new)?;
            sink.flush()?;
        }
        Ok(!new.is_empty())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Result;

    #[test]
    fn what_stands_before_the_mark_is_no_output() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("com2");
        let mut port = File::create(&path)?;
        let mut tail = Tail::new(&path, Some(b'|'))?;
        for (new, all) in [("firm", ""), ("ware|a", "a"), ("b|c", "ab|c")] {
            port.write_all(new.as_bytes())?;
            tail.follow(None::<io::Stderr>)?;
            assert_eq!(tail.text(), all, "after {new:?}");
        }
        Ok(())
    }
}
