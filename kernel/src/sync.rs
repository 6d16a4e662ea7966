//! A lock that interrupt handlers may take.
//!
//! Background: a handler that waits for a lock held by the code it interrupted
//! waits for ever. So a lock shared with handlers is held only with interrupts
//! off, and only for the length of a closure, which no caller can extend by
//! keeping a guard.
//!
//! Limits: interrupts off do not stop an NMI or an exception in the middle of
//! the closure. Code that can run there (the console of a panic) uses
//! [`IrqMutex::try_with`] and has a way round.

use spin::mutex::SpinMutex;

/// Data reached with interrupts off and one CPU at a time.
#[derive(Debug)]
pub struct IrqMutex<T> {
    inner: SpinMutex<T>,
}

impl<T> IrqMutex<T> {
    /// A lock around `value`, not held.
    pub const fn new(value: T) -> Self {
        Self {
            inner: SpinMutex::new(value),
        }
    }

    /// Runs `f` on the data, waiting for another CPU to be done with it.
    ///
    /// Must not be nested on the same lock: the second call would wait for ever.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        without_interrupts(|| f(&mut self.inner.lock()))
    }

    /// Runs `f` on the data unless somebody is using it; `None` then.
    pub fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        without_interrupts(|| self.inner.try_lock().map(|mut data| f(&mut data)))
    }
}

/// Runs `f` with maskable interrupts off and puts the flag back as it was.
#[cfg(target_os = "none")]
pub fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
    x86_64::instructions::interrupts::without_interrupts(f)
}

/// Runs `f`: a host test has no interrupts to keep out.
#[cfg(not(target_os = "none"))]
pub fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
    f()
}
