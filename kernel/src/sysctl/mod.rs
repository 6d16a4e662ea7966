//! The sysctl tree: every property of the clock under a dotted name.
//!
//! The leaves come from two places: a table of what every machine has, in
//! FreeBSD's order, and the counters that were registered, some leaves each.
//! The tree is walked anew for each look-up, because counters come and go; it
//! has a few dozen leaves and is read by people, so the walk costs nothing
//! that matters and nothing can be stale.
//!
//! What stands behind the leaves is reached through [`System`] alone. A write
//! is converted and checked against the type's range before the system hears
//! of it, so a refused write has changed nothing.

pub mod clock;
#[cfg(feature = "faults")]
mod debug;
mod fields;
mod node;
pub mod number;
pub mod system;
pub(crate) mod table;
mod value;

#[cfg(test)]
pub(crate) mod fake;

pub use node::{Oid, WriteError};
pub use system::{Chip, Constant, CounterInfo, Errno, Setting, Skew, Statistic, System};
pub use value::Value;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use node::{Node, Source};

/// The counter that exists before any hardware does. It is a choice, but not
/// hardware with properties to show.
const DUMMY: &str = "dummy";

/// What a name stands for.
#[derive(Debug)]
pub enum Lookup {
    /// One leaf.
    Leaf(Oid),
    /// All leaves below an inner node, in the tree's order; at least one.
    Subtree(Vec<Oid>),
}

/// Every leaf, in the tree's order.
#[must_use]
pub fn walk(system: &dyn System) -> Vec<Oid> {
    let fixed = |node: &'static Node| Oid {
        name: String::from(node.name),
        source: Source::Fixed(node),
    };
    let mut leaves: Vec<Oid> = table::KERN.iter().map(fixed).collect();
    for counter in system.counters() {
        if counter.name == DUMMY {
            continue;
        }
        let fields = fields::FIELDS
            .iter()
            .filter(|field| field.only.is_none_or(|only| only == counter.name));
        leaves.extend(fields.map(|field| Oid {
            name: format!("kern.timecounter.tc.{}.{}", counter.name, field.name),
            source: Source::Counter(counter.name.clone(), field),
        }));
    }
    leaves.extend(table::VM.iter().map(fixed));
    #[cfg(feature = "faults")]
    {
        leaves.extend(debug::DEBUG.iter().map(fixed));
        let counters = system.counters().into_iter();
        leaves.extend(counters.filter(|it| it.name != DUMMY).map(|counter| Oid {
            name: format!("debug.fault.{}", counter.name),
            source: Source::Counter(counter.name, &debug::FAULT),
        }));
    }
    leaves.extend(table::MACHDEP.iter().map(fixed));
    leaves
}

/// Finds a name; one dot at its end is allowed, as in FreeBSD. `None` when
/// there is no such node.
#[must_use]
pub fn lookup(system: &dyn System, name: &str) -> Option<Lookup> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let mut below = Vec::new();
    for oid in walk(system) {
        let Some(rest) = oid.name().strip_prefix(name) else {
            continue;
        };
        if rest.is_empty() {
            return Some(Lookup::Leaf(oid));
        }
        if rest.starts_with('.') {
            below.push(oid);
        }
    }
    (!below.is_empty()).then_some(Lookup::Subtree(below))
}
