//! What accesses cost: the machine of the published measurements.
//!
//! CPUs stand at the leaves of a binary tree: two share a bus, two such pairs a
//! router, and so on, as in the machine that the figures were published of. What
//! a line costs to be moved grows by the same amount with each *level* that it has
//! to go up.

use clap::Args;

/// Parameters, each in nanoseconds and each with the published row that its
/// default was fitted on; see [`crate::sim`].
#[derive(Args, Clone, Debug, PartialEq)]
pub struct Costs {
    /// One read whose lines are all in the CPU's own cache, where nothing is
    /// exchanged; as published for 1 CPU
    #[arg(long = "read", value_name = "NS", default_value_t = 426.0, value_parser = nanoseconds)]
    pub read_ns: f64,
    /// The same of the compare-and-exchange clock, another code of another
    /// kernel; as published for 1 CPU
    #[arg(long = "exchange-read", value_name = "NS", default_value_t = 850.0, value_parser = nanoseconds)]
    pub exchange_read_ns: f64,
    /// To move a line between neighbours; fitted on the compare-and-exchange
    /// clock with 2 CPUs
    #[arg(long = "neighbour", value_name = "NS", default_value_t = 442.0, value_parser = nanoseconds)]
    pub neighbour_ns: f64,
    /// What each level more adds to that; fitted on the compare-and-exchange
    /// clock with 256 CPUs
    #[arg(long = "hop", value_name = "NS", default_value_t = 1185.0, value_parser = nanoseconds)]
    pub hop_ns: f64,
    /// How long memory is busy with one load of a line that nobody owns; fitted
    /// on the sequence lock with 512 CPUs
    #[arg(long = "memory", value_name = "NS", default_value_t = 241.0, value_parser = nanoseconds)]
    pub memory_ns: f64,
}

fn nanoseconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.001..=1e6).contains(&value) {
        Ok(value)
    } else {
        Err("0.001 to 1000000 ns".to_owned())
    }
}

/// Picoseconds, the unit of the simulation.
pub fn picoseconds(ns: f64) -> u64 {
    (ns * 1000.0) as u64
}

impl Costs {
    /// To move a line by `levels`, in picoseconds.
    pub fn transfer(&self, levels: u32) -> u64 {
        match levels.checked_sub(1) {
            None => 0,
            Some(more) => picoseconds(self.neighbour_ns + self.hop_ns * f64::from(more)),
        }
    }
}

/// Levels up the tree from one CPU to where it meets another: 0 for itself, 1
/// for its neighbour.
pub fn levels(one: usize, other: usize) -> u32 {
    usize::BITS - (one ^ other).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_meet_where_their_numbers_begin_to_differ() {
        for (one, other, up) in [
            (0, 0, 0),
            (0, 1, 1),
            (6, 7, 1),
            (1, 2, 2),
            (3, 4, 3),
            (0, 4095, 12),
        ] {
            assert_eq!(levels(one, other), up, "from {one} to {other}");
            assert_eq!(levels(other, one), up, "and back");
        }
    }

    #[test]
    fn a_line_that_stays_costs_nothing_and_each_level_the_same() {
        let costs = Costs {
            read_ns: 1.0,
            exchange_read_ns: 1.0,
            neighbour_ns: 100.0,
            hop_ns: 10.0,
            memory_ns: 1.0,
        };
        let picoseconds = [0, 1, 2, 5].map(|up| costs.transfer(up));
        assert_eq!(picoseconds, [0, 100_000, 110_000, 140_000], "by level");
    }

    #[test]
    fn a_cost_is_a_time() {
        assert_eq!(nanoseconds("0.5"), Ok(0.5), "a fraction");
        for text in ["", "x", "0", "-1", "NaN", "inf", "1e9"] {
            assert!(nanoseconds(text).is_err(), "accepted: {text:?}");
        }
    }
}
