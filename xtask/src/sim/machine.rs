//! The machine: CPUs that read one clock all the time, and one that winds it up.
//!
//! # Method
//!
//! Every CPU reads over and over; CPU 0 is the writer too. An access that finds
//! its line at hand costs nothing beyond the read's own time. Any other is a
//! request, and a line serves one request after the other:
//!
//! * ownership, or a line that somebody owns, goes from one CPU to another, and
//!   nobody else gets it meanwhile;
//! * a load of what nobody owns is served by memory, next to CPU 0, which is
//!   busy for a short time and lets the way there overlap with the next request.
//!
//! Which of the waiting requests is next is drawn by lot: served in the order in
//! which they come, the CPUs would march in step, all loading and then all
//! storing.
//!
//! A compare-and-exchange whose line was exchanged since it was loaded is made
//! again. The line is at hand then, and another's request takes longer to take it
//! away than the second try, so that retries are counted but cost nothing; they do
//! not pile up.
//!
//! Between two windups a reader whose lines are all at hand only repeats itself.
//! These reads are counted at once, which is why thousands of CPUs are no matter.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::clock::{Act, Clock};
use super::costs::{Costs, levels, picoseconds};
use super::mesi::{Found, Line, State};
use super::trace::Step;

/// What a machine did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Reads of all CPUs.
    pub reads: u64,
    /// Transfers of a line.
    pub transfers: u64,
    /// Times a reader waited for the writer, or exchanged once more.
    pub retries: u64,
    /// Windups.
    pub windups: u64,
}

/// Somebody who runs: a reader, or behind all of them the writer.
#[derive(Clone, Copy, Debug, Default)]
struct Actor {
    /// The segment whose acts it follows.
    segment: usize,
    /// Whether by the read within the lead.
    before: bool,
    /// The next act.
    act: usize,
    /// Whether that one's request was served.
    served: bool,
    /// Whether this read needed no transfer yet.
    hit: bool,
    /// Exchanges that the line it loaded had seen.
    saw: u64,
}

/// One line and those who want it.
#[derive(Clone, Debug)]
struct Queue {
    line: Line,
    /// Who waits, and whether to store.
    waiting: Vec<(usize, bool)>,
    busy: bool,
    /// Times a word of it was exchanged.
    exchanges: u64,
}

/// The machine.
#[derive(Debug)]
pub struct Machine<'c> {
    clock: &'c Clock,
    costs: &'c Costs,
    cpus: usize,
    /// The line that reads exchange a word of, where they do.
    exchanged: Option<usize>,
    tick: u64,
    queues: Vec<Queue>,
    /// By CPU; the last is the writer.
    actors: Vec<Actor>,
    /// When an actor goes on, by its number; behind all actors, when a line is
    /// free. At one time actors come first: who got a line uses it.
    events: BinaryHeap<Reverse<(u64, usize)>>,
    /// Those who wait for a sequence lock.
    waiting: Vec<usize>,
    odd: bool,
    now: u64,
    /// When the writer goes on, as far as is known.
    writer_at: u64,
    /// When the current segment starts.
    start: u64,
    /// The segment that readers find.
    current: usize,
    random: u64,
    counted: Counted,
}

impl<'c> Machine<'c> {
    /// A machine of `cpus` CPUs that read `clock`, wound up `hz` times a second.
    pub fn new(clock: &'c Clock, cpus: usize, hz: u32, costs: &'c Costs) -> Self {
        let queue = Queue {
            line: Line::new(cpus),
            waiting: Vec::new(),
            busy: false,
            exchanges: 0,
        };
        // The writer first; readers spread over one read's time.
        let reader_at = |cpu: usize| 1 + clock.read * cpu as u64 / cpus as u64;
        Self {
            clock,
            costs,
            cpus,
            exchanged: clock.exchanged(),
            tick: 1_000_000_000_000 / u64::from(hz),
            queues: vec![queue; clock.lines],
            actors: vec![Actor::default(); cpus + 1],
            events: (0..cpus)
                .map(|cpu| Reverse((reader_at(cpu), cpu)))
                .chain([Reverse((0, cpus))])
                .collect(),
            waiting: Vec::new(),
            odd: false,
            now: 0,
            writer_at: 0,
            start: 0,
            current: 0,
            random: 1,
            counted: Counted::default(),
        }
    }

    /// The time, in picoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Runs until so many windups were made, and reads by all CPUs together.
    pub fn run(&mut self, windups: u64, reads: u64) -> Counted {
        self.counted = Counted::default();
        while self.counted.windups < windups || self.counted.reads < reads {
            let Some(Reverse((at, who))) = self.events.pop() else {
                break;
            };
            self.now = at;
            match who.checked_sub(self.cpus + 1) {
                Some(line) => self.serve(line),
                None => self.go_on(who),
            }
        }
        self.counted
    }

    /// An actor from here to its next request, wait, or end.
    fn go_on(&mut self, who: usize) {
        let clock = self.clock;
        let writes = who == self.cpus;
        let Some(mut actor) = self.actors.get(who).copied() else {
            return;
        };
        if !writes && actor.act == 0 && !actor.served {
            actor = Actor {
                segment: self.current,
                before: self.now < self.start,
                hit: true,
                ..actor
            };
        }
        let segment = clock.segments.get(actor.segment);
        let acts = segment.map_or(&[][..], |segment| match (writes, actor.before) {
            (true, _) => &segment.windup,
            (false, true) => &segment.before,
            (false, false) => &segment.inside,
        });
        while let Some(&act) = acts.get(actor.act) {
            if !self.has(who, act, &mut actor) {
                self.set(who, actor);
                return;
            }
            match act {
                Act::Access(_) => {}
                Act::Lock(_) => self.odd = true,
                Act::Unlock(_) => {
                    self.odd = false;
                    let now = self.now;
                    let waiting = self.waiting.drain(..);
                    self.events.extend(waiting.map(|who| Reverse((now, who))));
                }
                Act::Await(_) if self.odd => {
                    self.counted.retries += 1;
                    self.waiting.push(who);
                    self.set(who, actor);
                    return;
                }
                Act::Await(_) => {}
                Act::Sample => {
                    actor.act += 1;
                    self.set(who, actor);
                    self.events.push(Reverse((self.now + clock.read, who)));
                    return;
                }
            }
            actor.act += 1;
        }
        actor.act = 0;
        if writes {
            self.end_of_windup(actor);
        } else {
            self.end_of_read(who, actor);
        }
    }

    fn set(&mut self, who: usize, actor: Actor) {
        if let Some(place) = self.actors.get_mut(who) {
            *place = actor;
        }
    }

    /// Whether `who` has the line that `act` needs; otherwise it is asked for.
    fn has(&mut self, who: usize, act: Act, actor: &mut Actor) -> bool {
        let Some(step) = act.step() else {
            return true;
        };
        let line = step.line();
        let Some(queue) = self.queues.get_mut(line) else {
            return true;
        };
        let stores = !matches!(step, Step::Load(_));
        // The writer runs on CPU 0.
        let state = queue.line.state(who % self.cpus);
        let at_hand = match state {
            State::Modified | State::Exclusive => true,
            State::Shared => !stores,
            State::Invalid => false,
        };
        if !at_hand && !actor.served {
            actor.hit = false;
            queue.waiting.push((who, stores));
            if !queue.busy {
                self.serve(line);
            }
            return false;
        }
        actor.served = false;
        if at_hand && stores {
            queue.line.store(who % self.cpus);
        }
        match step {
            Step::Load(_) if self.exchanged == Some(line) => actor.saw = queue.exchanges,
            Step::Load(_) | Step::Store(_) => {}
            Step::Exchange(_) => {
                self.counted.retries += u64::from(actor.saw != queue.exchanges);
                queue.exchanges += 1;
            }
        }
        true
    }

    /// Serves one of those who wait for a line.
    fn serve(&mut self, line: usize) {
        let Some(queue) = self.queues.get_mut(line) else {
            return;
        };
        queue.busy = !queue.waiting.is_empty();
        if !queue.busy {
            return;
        }
        // Knuth's MMIX generator, of which the upper bits are good.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let lot = (self.random >> 33) as usize % queue.waiting.len();
        let (who, stores) = queue.waiting.swap_remove(lot);
        let cpu = who % self.cpus;
        let found = if stores {
            queue.line.store(cpu)
        } else {
            queue.line.load(cpu)
        };
        let transfer = |levels| self.costs.transfer(levels);
        let memory = picoseconds(self.costs.memory_ns);
        let (busy, way) = match found {
            // Reader and writer of one CPU wanted the same.
            Found::Here => (0, 0),
            Found::At(owner) => (transfer(levels(cpu, owner)), 0),
            // Everybody in between is no farther than one of these.
            Found::Copies(first, last) => (transfer(levels(cpu, first).max(levels(cpu, last))), 0),
            Found::Memory => (memory, transfer(levels(cpu, 0))),
        };
        self.counted.transfers += u64::from(found != Found::Here);
        if let Some(actor) = self.actors.get_mut(who) {
            actor.served = true;
        }
        let free = self.now + busy;
        self.events.push(Reverse((free + way, who)));
        self.events.push(Reverse((free, self.cpus + 1 + line)));
    }

    fn end_of_windup(&mut self, mut actor: Actor) {
        self.current = actor.segment;
        self.start = self.now + self.tick / 8;
        actor.segment = (actor.segment + 1) % self.clock.segments.len().max(1);
        self.set(self.cpus, actor);
        self.counted.windups += 1;
        // The next tick on the grid; those that have passed are lost.
        self.writer_at = (self.now / self.tick + 1) * self.tick;
        self.events.push(Reverse((self.writer_at, self.cpus)));
    }

    fn end_of_read(&mut self, who: usize, actor: Actor) {
        self.set(who, actor);
        let read = self.clock.read.max(1);
        let mut reads = 1;
        if actor.hit && self.exchanged.is_none() {
            let until = if actor.before {
                self.writer_at.min(self.start)
            } else {
                self.writer_at
            };
            reads += until.saturating_sub(self.now + read) / read;
        }
        self.counted.reads += reads;
        self.events.push(Reverse((self.now + reads * read, who)));
    }
}
