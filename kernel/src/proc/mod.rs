//! Processes: static Linux programs in ring 3.
//!
//! * [`elf`] checks an executable, [`stack`] lays out what it finds on its
//!   stack, [`layout`] fixes the addresses, [`regions`] keeps count of those
//!   in use. All four are plain computation and run on the host too.

pub mod elf;
pub mod layout;
pub mod regions;
pub mod stack;
