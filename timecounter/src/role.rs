//! Which CPU winds the clock up.
//!
//! It is CPU 0 as long as that ticks. Every other CPU that ticks compares, at
//! each tick of its own, the count of CPU 0's with what that was before; once it
//! has stood still for so long that three were missed, the first who notices
//! takes the windups over. CPU 0 takes them back when it ticks again, wherever
//! it had been.
//!
//! Nothing here keeps two CPUs out of a windup: that is the gate's business,
//! and a CPU that comes late to its own windup finds another inside or goes in
//! first, as any two may. One order matters, that a CPU which took over is seen
//! to have ticked; a word that is stale otherwise costs a tick.

#[cfg(not(loom))]
use crate::clock::Windup;
use crate::sync::{AtomicU32, AtomicU64, Ordering, Site};

/// The CPU whose role it is.
const OWNER: u32 = 0;

/// Ticks without one of the owner's after which three of his were missed: the
/// first may have followed right behind one of his.
const PATIENCE: u32 = 4;

/// What a CPU knows of the one that winds up.
#[derive(Debug)]
struct Watcher {
    /// Its beats when they last changed.
    beats: AtomicU32,
    /// Ticks of this CPU since then.
    missed: AtomicU32,
}

/// Who of up to `CPUS` winds up, and what came of it.
#[derive(Debug)]
pub struct Role<const CPUS: usize> {
    holder: AtomicU32,
    /// Ticks of the holder's.
    beats: AtomicU32,
    watchers: [Watcher; CPUS],
    take_overs: AtomicU64,
    busy: AtomicU64,
    held: AtomicU64,
}

/// What a tick of a CPU means for the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Another CPU winds up.
    Not,
    /// This one does.
    Mine,
    /// This one does, since the other has missed its ticks.
    TakenOver,
}

impl<const CPUS: usize> Role<CPUS> {
    /// The role of CPU 0.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            holder: AtomicU32::new(OWNER),
            beats: AtomicU32::new(0),
            watchers: [const {
                Watcher {
                    beats: AtomicU32::new(0),
                    missed: AtomicU32::new(0),
                }
            }; CPUS],
            take_overs: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            held: AtomicU64::new(0),
        }
    }

    /// See the form for production.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Self {
            holder: AtomicU32::new(OWNER),
            beats: AtomicU32::new(0),
            watchers: core::array::from_fn(|_| Watcher {
                beats: AtomicU32::new(0),
                missed: AtomicU32::new(0),
            }),
            take_overs: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            held: AtomicU64::new(0),
        }
    }

    /// A tick of `cpu`, or one interrupt for `ticks` of them; whether that CPU
    /// is to wind up.
    pub fn tick(&self, cpu: usize, ticks: u32) -> Turn {
        let Some(watcher) = self.watchers.get(cpu) else {
            return Turn::Not;
        };
        let cpu = cpu as u32;
        if cpu == OWNER {
            self.holder.store(OWNER, Ordering::Relaxed);
        }
        let holder = self.holder.load(Site::Holder.ordering());
        if cpu == holder {
            self.beats.fetch_add(1, Ordering::Relaxed);
            return Turn::Mine;
        }
        let beats = self.beats.load(Ordering::Relaxed);
        if watcher.beats.swap(beats, Ordering::Relaxed) != beats {
            watcher.missed.store(0, Ordering::Relaxed);
            return Turn::Not;
        }
        let missed = watcher.missed.load(Ordering::Relaxed).saturating_add(ticks);
        watcher.missed.store(missed, Ordering::Relaxed);
        if missed < PATIENCE {
            return Turn::Not;
        }
        watcher.missed.store(0, Ordering::Relaxed);
        // Beats before it has the role: who finds it there finds the beat too, and
        // does not take the role from it for the ticks that CPU 0 missed. Pairs
        // with the load of the holder.
        self.beats.fetch_add(1, Ordering::Relaxed);
        let taken =
            self.holder
                .compare_exchange(holder, cpu, Site::TakeOver.ordering(), Ordering::Relaxed);
        match taken {
            Ok(_) => {
                self.take_overs.fetch_add(1, Ordering::Relaxed);
                Turn::TakenOver
            }
            Err(_) => Turn::Not,
        }
    }

    /// Counts what came of the windup of a turn.
    #[cfg(not(loom))]
    pub fn done(&self, turn: Turn, windup: Windup) {
        if windup == Windup::Busy {
            self.busy.fetch_add(1, Ordering::Relaxed);
            if turn == Turn::TakenOver {
                self.held.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Times another CPU took the windups over.
    #[must_use]
    pub fn take_overs(&self) -> u64 {
        self.take_overs.load(Ordering::Relaxed)
    }

    /// Windups that found another CPU inside one.
    #[must_use]
    pub fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// Take-overs that failed, since the CPU was stopped inside a windup.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

#[cfg(not(loom))]
impl<const CPUS: usize> Default for Role<CPUS> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Turn;
    use crate::clock::Windup;

    const MAX_CPUS: usize = 256;
    type Role = super::Role<MAX_CPUS>;

    #[test]
    fn the_first_cpu_winds_up_as_long_as_it_ticks() {
        let role = Role::new();
        for _ in 0..100 {
            assert_eq!(role.tick(0, 1), Turn::Mine, "its own");
            for cpu in [1, 2, 255] {
                assert_eq!(role.tick(cpu, 1), Turn::Not, "CPU {cpu} leaves it");
            }
        }
        assert_eq!(role.take_overs(), 0, "nobody took over");
    }

    #[test]
    fn after_three_missed_ticks_the_first_to_notice_takes_over() {
        let role = Role::new();
        role.tick(0, 1);
        assert_eq!(role.tick(1, 1), Turn::Not, "it sees the beat");
        assert_eq!(role.tick(2, 1), Turn::Not, "and so does the other");
        for missed in 1..4 {
            assert_eq!(role.tick(1, 1), Turn::Not, "{missed} ticks are no reason");
            assert_eq!(role.tick(2, 1), Turn::Not, "{missed} ticks are no reason");
        }
        assert_eq!(role.tick(1, 1), Turn::TakenOver, "this one is");
        assert_eq!(role.tick(2, 1), Turn::Not, "one of them is enough");
        for _ in 0..20 {
            assert_eq!(role.tick(1, 1), Turn::Mine, "it keeps the role");
            assert_eq!(role.tick(2, 1), Turn::Not, "and beats");
        }
        assert_eq!(role.tick(0, 1), Turn::Mine, "until CPU 0 is back");
        assert_eq!(role.tick(1, 1), Turn::Not, "which takes it back");
        assert_eq!(role.take_overs(), 1, "it is counted once");
    }

    #[test]
    fn one_interrupt_may_stand_for_many_ticks() {
        let role = Role::new();
        role.tick(0, 1);
        assert_eq!(role.tick(3, 4), Turn::Not, "it sees the beat");
        assert_eq!(role.tick(3, 4), Turn::TakenOver, "and four ticks without");
    }

    #[test]
    fn a_taker_that_stops_is_taken_over_from() {
        let role = Role::new();
        assert_eq!(role.tick(1, 4), Turn::TakenOver, "CPU 0 never ticked");
        assert_eq!(role.tick(2, 4), Turn::Not, "CPU 1 does");
        assert_eq!(role.tick(2, 4), Turn::TakenOver, "and stops");
        assert_eq!(role.tick(1, 4), Turn::Not, "it finds the other's beat");
        assert_eq!(role.take_overs(), 2, "both are counted");
    }

    #[test]
    fn a_cpu_stopped_inside_a_windup_is_told_from_one_stopped_outside() {
        let role = Role::new();
        role.done(Turn::Mine, Windup::OnTime);
        role.done(Turn::Mine, Windup::Busy);
        role.done(Turn::TakenOver, Windup::Late(7));
        assert_eq!((role.busy(), role.held()), (1, 0), "nobody was held inside");
        role.done(Turn::TakenOver, Windup::Busy);
        assert_eq!((role.busy(), role.held()), (2, 1), "this one was");
    }

    #[test]
    fn a_number_that_no_cpu_has_never_takes_over() {
        let role = Role::new();
        for _ in 0..100 {
            assert_eq!(role.tick(MAX_CPUS, 4), Turn::Not, "there is none");
        }
    }
}
