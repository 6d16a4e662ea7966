//! Atomics that write down what is done with them, for simulations of the caches
//! below: the production code runs unchanged and tells which words a read and a
//! windup touch, and in which order.
//!
//! Exists only with the feature `trace`. A thread's accesses are recorded while
//! it is in [`record`], and nobody else's.

use core::cell::RefCell;
use core::sync::atomic;
use std::vec::Vec;

pub(crate) use core::sync::atomic::{Ordering, fence};

/// What was done with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It was loaded.
    Load,
    /// It was stored.
    Store,
    /// It was loaded and stored in one, or would have been but for its value.
    Exchange,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What was done.
    pub operation: Operation,
    /// Where the word lies.
    pub address: usize,
}

std::thread_local! {
    static RECORD: RefCell<Option<Vec<Access>>> = const { RefCell::new(None) };
}

/// What `run` returns, and what it did meanwhile with the atomics of this crate.
pub fn record<T>(run: impl FnOnce() -> T) -> (T, Vec<Access>) {
    RECORD.set(Some(Vec::new()));
    let result = run();
    (result, RECORD.take().unwrap_or_default())
}

fn note<T>(operation: Operation, word: &T) {
    let address = core::ptr::from_ref(word).addr();
    RECORD.with_borrow_mut(|record| {
        if let Some(record) = record {
            record.push(Access { operation, address });
        }
    });
}

/// The operations that this crate uses of one of the atomics.
macro_rules! traced {
    ($name:ident, $value:ty) => {
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub(crate) struct $name(atomic::$name);

        impl $name {
            pub(crate) const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                note(Operation::Load, self);
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                note(Operation::Store, self);
                self.0.store(value, order);
            }

            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                note(Operation::Exchange, self);
                self.0.fetch_add(value, order)
            }

            pub(crate) fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                note(Operation::Exchange, self);
                self.0.compare_exchange(old, new, success, failure)
            }
        }
    };
}

traced!(AtomicU32, u32);
traced!(AtomicU64, u64);

impl AtomicU32 {
    pub(crate) fn swap(&self, value: u32, order: Ordering) -> u32 {
        note(Operation::Exchange, self);
        self.0.swap(value, order)
    }
}
