//! A lock that interrupt handlers may take.
//!
//! Background: a handler that waits for a lock held by the code it interrupted
//! waits for ever. So a lock shared with handlers is held only with interrupts
//! off, and only for the length of a closure, which no caller can extend by
//! keeping a guard.
//!
//! A CPU that waits for such a lock takes no interrupts, so it looks itself
//! whether another CPU wants its TLB flushed: that one may hold the lock and
//! wait for the flush.
//!
//! Limits: interrupts off do not stop an NMI or an exception in the middle of
//! the closure. Code that can run there (the console of a panic) uses
//! [`IrqMutex::with_if_possible`] and has a way round.

use core::sync::atomic::{AtomicUsize, Ordering};

use spin::mutex::SpinMutex;

/// Data reached with interrupts off and one CPU at a time.
#[derive(Debug)]
pub struct IrqMutex<T> {
    inner: SpinMutex<T>,
    /// The CPU that is at the data, plus one.
    holder: AtomicUsize,
}

impl<T> IrqMutex<T> {
    /// A lock around `value`, not held.
    pub const fn new(value: T) -> Self {
        Self {
            inner: SpinMutex::new(value),
            holder: AtomicUsize::new(0),
        }
    }

    /// Runs `f` on the data, waiting for another CPU to be done with it.
    ///
    /// Must not be nested on the same lock: the second call would wait for ever.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        without_interrupts(|| {
            let mut data = loop {
                if let Some(data) = self.inner.try_lock() {
                    break data;
                }
                while self.inner.is_locked() {
                    wait_a_moment();
                }
            };
            self.at(&mut data, f)
        })
    }

    /// Runs `f` on the data, waiting for another CPU for so many moments (some
    /// ten nanoseconds each). `None` when it is not done by then, or when this
    /// CPU itself was interrupted at the data and could only wait for ever.
    pub fn with_if_possible<R>(&self, moments: u32, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        without_interrupts(|| {
            for _ in 0..moments {
                if let Some(mut data) = self.inner.try_lock() {
                    return Some(self.at(&mut data, f));
                }
                // Only this CPU stores its own number, and only while it holds
                // the lock, so what another one does meanwhile does not matter.
                if self.holder.load(Ordering::Relaxed) == this_cpu() + 1 {
                    return None;
                }
                wait_a_moment();
            }
            None
        })
    }

    fn at<R>(&self, data: &mut T, f: impl FnOnce(&mut T) -> R) -> R {
        self.holder.store(this_cpu() + 1, Ordering::Relaxed);
        let result = f(data);
        self.holder.store(0, Ordering::Relaxed);
        result
    }
}

#[cfg(target_os = "none")]
fn this_cpu() -> usize {
    crate::arch::percpu::number()
}

/// A host test is one CPU.
#[cfg(not(target_os = "none"))]
fn this_cpu() -> usize {
    0
}

/// Lets the holder go on, and does what it may be waiting for.
fn wait_a_moment() {
    #[cfg(target_os = "none")]
    crate::arch::ipi::answer_flush();
    core::hint::spin_loop();
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
