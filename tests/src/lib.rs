//! Host-driven tests.
