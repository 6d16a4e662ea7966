//! The program side: start, system calls, and the way to the vDSO.
#![no_std]
