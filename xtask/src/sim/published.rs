//! The measurements that the simulation is held against.
//!
//! Linux on big ia64 machines in 2004, when its clocks were made to scale: wall
//! seconds in which each CPU made a million calls of gettimeofday, on machines
//! of up to 512 CPUs. Before, each call exchanged a last value; afterwards no call
//! stored anything that others see, and a sequence lock protected what the tick
//! wrote.

/// One row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// CPUs that called.
    pub cpus: usize,
    /// Seconds without a shared store.
    pub unshared: f64,
    /// Seconds with a compare-and-exchange; the machine crashed with 512 CPUs.
    pub exchanged: Option<f64>,
}

const fn row(cpus: usize, exchanged: f64, unshared: f64) -> Row {
    Row {
        cpus,
        unshared,
        exchanged: Some(exchanged),
    }
}

/// All rows.
pub const ROWS: [Row; 10] = [
    row(1, 0.850, 0.426),
    row(2, 1.767, 0.429),
    row(4, 6.124, 0.436),
    row(8, 20.777, 0.452),
    row(16, 57.693, 0.454),
    row(32, 164.688, 0.457),
    row(64, 456.647, 0.459),
    row(128, 1093.371, 0.466),
    row(256, 2778.257, 0.474),
    Row {
        cpus: 512,
        unshared: 0.518,
        exchanged: None,
    },
];

/// The row of that many CPUs.
pub fn of(cpus: usize) -> Option<Row> {
    ROWS.into_iter().find(|row| row.cpus == cpus)
}
