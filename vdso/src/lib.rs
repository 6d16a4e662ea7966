//! The user page's reader for kernel, user space and host.
#![no_std]
