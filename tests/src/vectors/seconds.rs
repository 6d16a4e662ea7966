//! Leap seconds, on the core's second handler.

use serde_json::Value;
use timecounter::second::{LeapState, SecondHandler};

use super::case::outputs;
use super::{Failure, Fields, Kind, Outputs};

/// Samples a case may ask for: a day and a bit.
const MOST_STEPS: u64 = 100_000;
/// The states by the names that the files use.
const STATES: [LeapState; 5] = [
    LeapState::Ok,
    LeapState::Ins,
    LeapState::Del,
    LeapState::Oop,
    LeapState::Wait,
];

pub(super) const KINDS: &[Kind] = &[Kind {
    name: "leap_second",
    inputs: &[
        "start_utc",
        "steps",
        "state",
        "sta_ins",
        "sta_del",
        "tai",
        "events",
    ],
    outputs: &["utc", "state", "tai", "uptime_advance"],
    run: leap_second,
}];

/// Samples the clock `steps` times, the first time at `start_utc`, with one
/// call of the handler between samples. An event sets or clears flags before
/// the call that leads to its `step`, counted from 0.
fn leap_second(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let steps = inputs.u64("steps")?;
    if !(1..=MOST_STEPS).contains(&steps) {
        return Err(Failure::Impossible(format!(
            "input 'steps' is {steps}: not within 1 to {MOST_STEPS}"
        )));
    }
    let named = inputs.text("state")?;
    let state = STATES
        .into_iter()
        .find(|state| state.to_string() == named)
        .ok_or_else(|| Failure::Impossible(format!("input 'state' is '{named}': no state")))?;
    let mut handler = SecondHandler {
        state,
        insert: inputs.bool("sta_ins")?,
        delete: inputs.bool("sta_del")?,
        tai_offset: inputs.i32("tai")?,
    };
    let events = inputs.objects("events")?;
    for event in &events {
        event.only(&["step", "sta_ins", "sta_del"])?;
        let step = event.u64("step")?;
        if step >= steps {
            return Err(Failure::Impossible(format!(
                "an event at step {step} of {steps}"
            )));
        }
    }

    let mut utc = inputs.i64("start_utc")?;
    let mut uptime = 0_u64;
    let (mut seconds, mut states, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..steps {
        for event in &events {
            if event.u64("step")? == step {
                handler.insert = event.optional_bool("sta_ins")?.unwrap_or(handler.insert);
                handler.delete = event.optional_bool("sta_del")?.unwrap_or(handler.delete);
            }
        }
        if step > 0 {
            uptime += 1;
            utc = handler.second(utc.saturating_add(1));
        }
        seconds.push(utc);
        states.push(handler.state.to_string());
        offsets.push(handler.tai_offset);
    }
    // All at once, as after a late windup, has to end in the same place.
    if events.is_empty() {
        let mut late = SecondHandler {
            state,
            tai_offset: inputs.i32("tai")?,
            ..handler
        };
        let end = late.elapse(inputs.i64("start_utc")?, uptime);
        if (end, late) != (utc, handler) {
            return Err(Failure::Impossible(format!(
                "second by second ends at {utc} {handler:?}, all at once at {end} {late:?}"
            )));
        }
    }
    outputs([
        ("utc", seconds.into()),
        ("state", Value::from(states)),
        ("tai", offsets.into()),
        ("uptime_advance", uptime.into()),
    ])
}
