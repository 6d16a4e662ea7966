//! The lines entered before.

use alloc::collections::VecDeque;
use alloc::string::String;

/// Lines kept; the oldest makes room.
const CAPACITY: usize = 64;

/// Lines entered before, and a place among them.
#[derive(Debug, Default)]
pub struct History {
    lines: VecDeque<String>,
    /// Steps back from the line being edited; 0 is that line itself.
    back: usize,
    /// The line being edited, while another is shown.
    draft: String,
}

impl History {
    /// Adds a line, unless it is blank or repeats the last, and returns to
    /// the newest end.
    pub fn add(&mut self, line: &str) {
        self.back = 0;
        self.draft.clear();
        let repeated = self.lines.back().is_some_and(|last| last == line);
        if line.trim().is_empty() || repeated {
            return;
        }
        if self.lines.len() == CAPACITY {
            self.lines.pop_front();
        }
        self.lines.push_back(String::from(line));
    }

    /// Leaves the place among the lines.
    pub fn reset(&mut self) {
        self.back = 0;
        self.draft.clear();
    }

    /// The next older line; `current` is kept as the draft when it is the line
    /// being edited. `None` at the oldest.
    pub fn older(&mut self, current: &str) -> Option<&str> {
        if self.back == self.lines.len() {
            return None;
        }
        if self.back == 0 {
            self.draft = String::from(current);
        }
        self.back += 1;
        self.at_place()
    }

    /// The next newer line, at last the draft. `None` when that is shown.
    pub fn newer(&mut self) -> Option<&str> {
        self.back = self.back.checked_sub(1)?;
        self.at_place()
    }

    fn at_place(&self) -> Option<&str> {
        if self.back == 0 {
            return Some(&self.draft);
        }
        let index = self.lines.len().checked_sub(self.back)?;
        self.lines.get(index).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY, History};
    use alloc::format;

    #[test]
    fn lines_come_back_newest_first_and_the_draft_last() {
        let mut history = History::default();
        history.add("one");
        history.add("two");
        assert_eq!(history.older("dra"), Some("two"), "newest first");
        assert_eq!(history.older("two"), Some("one"), "then older ones");
        assert_eq!(history.older("one"), None, "there are two");
        assert_eq!(history.newer(), Some("two"), "and back");
        assert_eq!(history.newer(), Some("dra"), "the draft was kept");
        assert_eq!(history.newer(), None, "nothing is newer than the draft");
    }

    #[test]
    fn blank_and_repeated_lines_are_not_kept() {
        let mut history = History::default();
        for line in ["a", "a", "", "  ", "a"] {
            history.add(line);
        }
        assert_eq!(history.older(""), Some("a"), "kept once");
        assert_eq!(history.older(""), None, "only once");
    }

    #[test]
    fn the_oldest_line_makes_room() {
        let mut history = History::default();
        for number in 0..=CAPACITY {
            history.add(&format!("{number}"));
        }
        let mut oldest = None;
        for _ in 0..CAPACITY {
            oldest = history.older("").map(alloc::string::String::from);
        }
        assert_eq!(oldest.as_deref(), Some("1"), "line 0 is gone");
        assert_eq!(history.older(""), None, "no more than the capacity");
    }
}
