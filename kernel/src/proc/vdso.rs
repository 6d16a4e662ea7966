//! The vDSO object, as every process maps it.
//!
//! The object comes from the RAM disk as a file; one copy of it, in pages of
//! its own, serves all processes. The pages are mapped read-execute and belong
//! to no process, so nobody can write them. Before that the copy's reads of the
//! TSC are made the sort that is cheaper on this processor.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use drivers::bus::OrderedRead;
use spin::Once;
use vdso::patch::{self, Form, PatchError};

use super::layout::{PAGE, STACK_BOTTOM, VDSO};
use super::memory::SharedPages;
use crate::mm::paging::SharedFrame;
use crate::time;

/// The object's name in the RAM disk.
pub const PATH: &str = "lib/linux-vdso.so.1";

/// Pages that the object may have.
const MAX_PAGES: usize = 16;
const _: () = assert!(
    VDSO + MAX_PAGES as u64 * PAGE < STACK_BOTTOM,
    "the object ends below the stack"
);

#[repr(C, align(4096))]
struct Page([u8; PAGE as usize]);

static FRAMES: Once<Vec<SharedFrame>> = Once::new();

/// Why there is no vDSO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VdsoError {
    /// Not an ELF file.
    NotElf,
    /// Longer than 16 pages.
    TooLong,
    /// It does not say where it reads the TSC.
    NotFitted(PatchError),
    /// Its pages cannot be shared.
    NotShared,
}

impl fmt::Display for VdsoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotElf => f.write_str("not an ELF file"),
            Self::TooLong => f.write_str("too long"),
            Self::NotFitted(error) => error.fmt(f),
            Self::NotShared => f.write_str("its pages cannot be shared"),
        }
    }
}

impl core::error::Error for VdsoError {}

/// Makes `file` the vDSO of every process started from now on. The first one
/// stays. Its reads of the TSC become `read`; without a TSC they are as built.
///
/// # Errors
///
/// [`VdsoError`]; processes are started without one then and make system calls.
pub fn init(file: &[u8], read: Option<OrderedRead>) -> Result<(), VdsoError> {
    if !file.starts_with(b"\x7fELF") {
        return Err(VdsoError::NotElf);
    }
    if file.len() > MAX_PAGES * PAGE as usize {
        return Err(VdsoError::TooLong);
    }
    let mut image = file.to_vec();
    if let Some(read) = read {
        let form = match read {
            OrderedRead::LfenceRdtsc => Form::Lfence,
            OrderedRead::Rdtscp => Form::Rdtscp,
        };
        patch::apply(&mut image, form).map_err(VdsoError::NotFitted)?;
    }
    let pages = image.chunks(PAGE as usize);
    let mut frames = Vec::with_capacity(pages.len());
    for bytes in pages {
        let mut page = Box::new(Page([0; PAGE as usize]));
        for (to, from) in page.0.iter_mut().zip(bytes) {
            *to = *from;
        }
        frames.push(SharedFrame::of(Box::leak(page)).ok_or(VdsoError::NotShared)?);
    }
    FRAMES.call_once(|| frames);
    Ok(())
}

/// What a new process maps; `None` without the object, or without a page for
/// it to read. Programs make system calls then.
pub fn shared() -> Option<SharedPages> {
    Some(SharedPages {
        object: FRAMES.get()?,
        timehands: time::page_frame()?,
        hpet: time::hpet_page(),
    })
}
