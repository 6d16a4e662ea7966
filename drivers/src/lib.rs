//! TSC, HPET, ACPI PM timer and i8254 as timecounters.
#![no_std]
