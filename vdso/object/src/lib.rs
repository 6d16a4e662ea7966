//! The shared object that programs map.
