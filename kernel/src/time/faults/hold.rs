//! Stops a CPU inside a windup, or in front of one, with interrupts off.
//!
//! That is what a system-management interrupt or a hypervisor does to it. While
//! it stands it does nothing but look at the clock, as the other CPUs do, and
//! note how far that is from a counter that does not tell the time.

use alloc::string::{String, ToString};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use timecounter::Clock;
use timecounter::clock::Windup;

use super::ruler;
use super::watch::{Seen, Watch};
use crate::klog;
use crate::sync::IrqMutex;
use crate::sysctl::Errno;
use crate::sysctl::number::parse_integer;

/// Last place in a windup that can be named; none has so many stores.
const MAX_STORE: u32 = 40;

/// Places that every windup which publishes comes to.
const STORES: u64 = 20;

/// Longest hold: a minute.
const MAX_MS: u32 = 60_000;

/// Windups after which a place that none came to is given up.
const ATTEMPTS: u32 = 1_000;

/// Where a CPU is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In front of a windup.
    Before,
    /// Behind that store of one; behind the sample of the counter for 0.
    Store(u32),
    /// Behind any store.
    Random,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    cpu: usize,
    place: Place,
    ms: u32,
    attempts: u32,
}

impl Request {
    /// `CPU:STORE:MS`, or `CPU:MS` for one in front of the windup.
    fn parse(text: &str, inside: bool, cpus: usize) -> Option<Self> {
        let mut words = text.split(':');
        let cpu = usize::try_from(parse_integer(words.next()?)?).ok()?;
        let place = match inside {
            false => Place::Before,
            true => match words.next()? {
                "random" => Place::Random,
                store => Place::Store(u32::try_from(parse_integer(store)?).ok()?),
            },
        };
        let ms = u32::try_from(parse_integer(words.next()?)?).ok()?;
        let sound = words.next().is_none()
            && cpu < cpus
            && (1..=MAX_MS).contains(&ms)
            && !matches!(place, Place::Store(store) if store > MAX_STORE);
        sound.then_some(Self {
            cpu,
            place,
            ms,
            attempts: 0,
        })
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Before => write!(f, "{}:{}", self.cpu, self.ms),
            Place::Store(store) => write!(f, "{}:{store}:{}", self.cpu, self.ms),
            Place::Random => write!(f, "{}:random:{}", self.cpu, self.ms),
        }
    }
}

/// How the latest request ended.
#[derive(Clone, Copy, Debug)]
enum Report {
    /// The CPU stood there, and this is what it saw.
    Held {
        cpu: usize,
        store: Option<u32>,
        ms: u32,
        seen: Seen,
    },
    /// No windup came to that place.
    NotReached(Request),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held {
                cpu,
                store,
                ms,
                seen,
            } => {
                write!(f, "CPU {cpu} held for {ms} ms ")?;
                match store {
                    Some(store) => write!(f, "behind store {store}")?,
                    None => f.write_str("in front of a windup")?,
                }
                write!(f, ": {seen}")
            }
            Self::NotReached(request) => {
                write!(f, "{request}: not reached in {ATTEMPTS} windups")
            }
        }
    }
}

/// There is a request; looked at on every tick.
static PENDING: AtomicBool = AtomicBool::new(false);
static REQUEST: IrqMutex<Option<Request>> = IrqMutex::new(None);
static LATEST: IrqMutex<Option<Report>> = IrqMutex::new(None);
static HELD: AtomicU64 = AtomicU64::new(0);

/// Asks for a hold by `text`: `CPU:STORE:MS` for one inside a windup, where the
/// store is a number or `random`; `CPU:MS` for one in front of it; `none`
/// withdraws what was asked for. `cpus` of them run.
///
/// # Errors
///
/// [`Errno::Invalid`] for a text that means nothing, [`Errno::Unsupported`]
/// where nothing measures the time of a hold.
pub fn ask(text: &str, inside: bool, cpus: usize) -> Result<(), Errno> {
    let request = match text {
        "none" => None,
        _ if !ruler::is_there() => return Err(Errno::Unsupported),
        _ => Some(Request::parse(text, inside, cpus).ok_or(Errno::Invalid)?),
    };
    REQUEST.with(|asked| *asked = request);
    PENDING.store(request.is_some(), Ordering::Relaxed);
    Ok(())
}

/// What is asked for and has not happened yet, inside a windup or in front.
pub fn asked(inside: bool) -> String {
    let request = REQUEST.with(|asked| *asked);
    request
        .filter(|request| (request.place != Place::Before) == inside)
        .map_or_else(|| "none".to_string(), |request| request.to_string())
}

/// Holds so far.
pub fn held() -> u64 {
    HELD.load(Ordering::Relaxed)
}

/// How the latest request ended.
pub fn latest() -> String {
    let report = LATEST.with(|latest| *latest);
    report.map_or_else(|| "none".to_string(), |report| report.to_string())
}

/// Whether a CPU is to be held inside a windup.
pub fn is_asked_of(cpu: usize) -> bool {
    PENDING.load(Ordering::Relaxed)
        && REQUEST.with(|asked| {
            asked.is_some_and(|request| request.cpu == cpu && request.place != Place::Before)
        })
}

/// Takes the request for this CPU, if it is of that kind.
fn take(cpu: usize, inside: bool) -> Option<Request> {
    if !PENDING.load(Ordering::Relaxed) {
        return None;
    }
    REQUEST.with(|asked| {
        let wanted =
            |request: &Request| request.cpu == cpu && (request.place != Place::Before) == inside;
        let request = asked.take_if(|request| wanted(request))?;
        PENDING.store(false, Ordering::Relaxed);
        Some(request)
    })
}

fn finish(report: Report) {
    if matches!(report, Report::Held { .. }) {
        HELD.fetch_add(1, Ordering::Relaxed);
    }
    klog!("{report}");
    LATEST.with(|latest| *latest = Some(report));
}

/// Stands in front of a windup if that was asked of this CPU. To be called with
/// interrupts off.
pub fn before(clock: &Clock, cpu: usize) {
    let Some(request) = take(cpu, false) else {
        return;
    };
    let mut watch = Watch::start(clock);
    watch.stand(clock, request.ms);
    finish(Report::Held {
        cpu,
        store: None,
        ms: request.ms,
        seen: watch.seen(),
    });
}

/// Winds `clock` up, and stands inside if that was asked of this CPU. To be
/// called with interrupts off.
pub fn windup(clock: &Clock, cpu: usize) -> Windup {
    let Some(request) = take(cpu, true) else {
        return clock.windup();
    };
    let place = match request.place {
        Place::Store(store) => store,
        _ => (ruler::now_ns() % STORES) as u32,
    };
    let mut store = 0;
    let mut watch = None;
    let done = clock.windup_until(&mut || {
        if store == place && watch.is_none() {
            let mut standing = Watch::start(clock);
            standing.stand(clock, request.ms);
            watch = Some(standing);
        }
        store += 1;
        true
    });
    match watch {
        Some(mut watch) => {
            watch.look(clock);
            finish(Report::Held {
                cpu,
                store: Some(place),
                ms: request.ms,
                seen: watch.seen(),
            });
        }
        None if request.attempts < ATTEMPTS => {
            let again = Request {
                attempts: request.attempts + 1,
                ..request
            };
            REQUEST.with(|asked| {
                asked.get_or_insert(again);
            });
            PENDING.store(true, Ordering::Relaxed);
        }
        None => finish(Report::NotReached(request)),
    }
    done
}

#[cfg(test)]
mod tests {
    use super::Request;
    use alloc::string::ToString;

    #[test]
    fn a_request_is_shown_as_it_was_written() {
        for (text, inside) in [
            ("0:0:1000", true),
            ("3:40:60000", true),
            ("1:random:5", true),
            ("2:250", false),
        ] {
            let request = Request::parse(text, inside, 4);
            assert_eq!(
                request.map(|request| request.to_string()).as_deref(),
                Some(text),
                "a sound request"
            );
        }
    }

    #[test]
    fn what_no_cpu_could_do_is_refused() {
        for (text, inside) in [
            ("", true),
            ("0", true),
            ("0:1", true),
            ("0:1:1000", false),
            ("0:1:1000:1", true),
            ("4:1:1000", true),
            ("-1:1:1000", true),
            ("0:41:1000", true),
            ("0:-1:1000", true),
            ("0:any:1000", true),
            ("0:1:0", true),
            ("0:1:60001", true),
            ("0:1:x", true),
            ("4:1000", false),
        ] {
            let request = Request::parse(text, inside, 4);
            assert_eq!(request, None, "{text:?} was taken");
        }
    }
}
