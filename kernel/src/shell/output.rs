//! Where a command's text goes.

use core::fmt;

/// A place for text that cannot fail: the console has nobody to report to.
///
/// `write!` and `writeln!` work on it and return nothing.
pub trait Output {
    /// Puts `text` there, all of it. Lines end with a line feed alone.
    fn put(&mut self, text: &str);

    /// What `write!` calls.
    fn write_fmt(&mut self, text: fmt::Arguments<'_>) {
        struct Adapter<'a, O: ?Sized>(&'a mut O);
        impl<O: Output + ?Sized> fmt::Write for Adapter<'_, O> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.put(text);
                Ok(())
            }
        }
        // The adapter never fails, so an error could only come from a value's
        // own `Display`, which then has printed all it could.
        let _ = fmt::write(&mut Adapter(self), text);
    }
}

#[cfg(test)]
impl Output for alloc::string::String {
    fn put(&mut self, text: &str) {
        self.push_str(text);
    }
}
