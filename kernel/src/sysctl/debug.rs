//! `debug`: what tests break in a kernel of the feature `faults`.
//!
//! These leaves belong to the one clock of this kernel and not to a
//! [`System`](super::System): nothing else can be broken.

use super::node::{Field, Node, Write};
use super::system::Constant;
use super::value::Value;
use crate::time::faults::{hold, watch};
use crate::time::{self, faults};

/// Longest text of a request.
const LIMIT: usize = 63;

/// The leaves without a counter's name.
pub(super) const DEBUG: &[Node] = &[
    Node {
        name: "debug.windup.hold",
        description: "CPU:STORE:MS stops a CPU inside its next windup; STORE may be random",
        read: |_| Ok(Value::Text(hold::asked(true))),
        write: Some(Write::Text {
            limit: LIMIT,
            set: |system, text| hold::ask(text, true, cpus(system.constant(Constant::SmpCpus))),
        }),
    },
    Node {
        name: "debug.windup.hold_before",
        description: "CPU:MS stops a CPU in front of its next windup",
        read: |_| Ok(Value::Text(hold::asked(false))),
        write: Some(Write::Text {
            limit: LIMIT,
            set: |system, text| hold::ask(text, false, cpus(system.constant(Constant::SmpCpus))),
        }),
    },
    Node {
        name: "debug.windup.held",
        description: "Holds so far",
        read: |_| Ok(Value::U64(hold::held())),
        write: None,
    },
    Node {
        name: "debug.windup.latest",
        description: "What the CPU saw of the clock in the latest hold",
        read: |_| Ok(Value::Text(hold::latest())),
        write: None,
    },
    Node {
        name: "debug.clock.compare",
        description: "The clock beside another counter since 1 was written",
        read: |_| Ok(Value::Text(watch::so_far(time::clock()))),
        write: Some(Write::Within {
            bounds: (1, 1),
            set: |_, _| {
                watch::begin(time::clock());
                Ok(())
            },
        }),
    },
];

/// `debug.fault.NAME`.
pub(super) const FAULT: Field = Field {
    name: "fault",
    only: None,
    description: "rate:PPM, stop, jump:NS, slow:US or none: what is wrong with the counter",
    read: |_, name| faults::fault(name).map(Value::Text),
    write: Some(|_, name, text| faults::set_fault(time::clock(), name, text)),
};

fn cpus(constant: i32) -> usize {
    usize::try_from(constant).unwrap_or(1)
}
