//! Asking other CPUs for something: to look for a thread, to run a function, to
//! flush their TLBs, to stop.
//!
//! **Calls** ([`on_cpus`]). One at a time; each CPU has a word that says how far
//! it is with the present one:
//!
//! | word | who sets it | meaning |
//! |---|---|---|
//! | `NONE` | the caller, at the end | nothing to do |
//! | `ASKED` | the caller, before its message | not begun |
//! | `RUNNING` | the CPU, from `ASKED` only | in the function |
//! | `DONE` | the CPU | finished |
//!
//! When time is up the caller takes `ASKED` back to `NONE`. Either that succeeds,
//! and a CPU that comes late finds nothing to do, or the CPU has begun, and then
//! the caller waits for it to finish: the function may be on the caller's stack,
//! so it cannot go on without.
//!
//! **Deadlock.** Who waits for another CPU with interrupts off may be waited for
//! by that one. So all waits in here, and those of [`crate::sync::IrqMutex`],
//! answer what the CPU is asked meanwhile: a flush everywhere, a call where
//! another call is waited for. What remains forbidden is to make a call with a
//! lock held, since the function could want it.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use drivers::lapic::Message;
use spin::mutex::SpinMutex;
use x86_64::instructions::{hlt, interrupts};

use super::deadline::Deadline;
use super::trap::vector;
use super::{lapic, percpu};
use crate::cpuset::CpuSet;
use crate::sync::without_interrupts;

/// How long a CPU has to begin what it is asked. An idle one wakes within
/// microseconds; an emulator that runs hundreds on two processors of its own
/// takes a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a function that was begun may take, and a flush. A CPU that is this
/// late has stopped for good, and nothing that it holds can be used again.
const LIMIT: Duration = Duration::from_secs(60);

const NONE: u64 = 0;
const ASKED: u64 = 1;
const RUNNING: u64 = 2;
const DONE: u64 = 3;

type Function<'a> = dyn Fn(usize) + Sync + 'a;

/// The function of the present call.
struct Place(UnsafeCell<Option<&'static Function<'static>>>);

// SAFETY: written by the holder of `CALLS` while no CPU's word is ASKED or
// RUNNING, and read by CPUs whose word is RUNNING.
unsafe impl Sync for Place {}

static PLACE: Place = Place(UnsafeCell::new(None));

/// Held for the length of a call.
static CALLS: SpinMutex<()> = SpinMutex::new(());

fn send(cpu: usize, message: Message) {
    let destination = percpu::block(cpu).apic_id.load(Ordering::Relaxed);
    lapic::send(destination, message);
}

/// Makes a CPU look for another thread to run.
pub fn reschedule(cpu: usize) {
    if percpu::is_online(cpu) {
        send(cpu, Message::Interrupt(vector::RESCHEDULE));
    }
}

/// Runs `f(cpu)` on all CPUs of the set that are online, at about the same time
/// and with interrupts off; on this one too if it is in the set. Returns those
/// that did not begin within seconds, and will not.
///
/// `f` must not wait for anything but other runs of itself: not for a lock that
/// is held elsewhere, and not without an end.
///
/// # Panics
///
/// When a CPU began and does not come back.
pub fn on_cpus(cpus: &CpuSet, f: &(dyn Fn(usize) + Sync)) -> CpuSet {
    without_interrupts(|| {
        let _calls = loop {
            if let Some(calls) = CALLS.try_lock() {
                break calls;
            }
            answer_call();
            answer_flush();
            core::hint::spin_loop();
        };
        let here = percpu::number();
        let mut others = cpus.and(&percpu::online());
        let here_too = others.remove(here);
        call(&others, f, || {
            if here_too {
                f(here);
            }
        })
    })
}

/// Calls the CPUs of `others`, runs `meanwhile`, and returns the CPUs that did
/// not begin. The caller holds [`CALLS`].
fn call(others: &CpuSet, f: &Function<'_>, meanwhile: impl FnOnce()) -> CpuSet {
    // SAFETY: only the lifetime is made longer. The reference is read by a CPU
    // whose word is RUNNING, and this function does not return before each word
    // is NONE or DONE; see the module's description.
    let f: &'static Function<'static> = unsafe { core::mem::transmute(f) };
    // SAFETY: no word is ASKED or RUNNING, and `CALLS` keeps other callers out.
    unsafe { *PLACE.0.get() = Some(f) };
    for cpu in others.iter() {
        // Pairs with the acquire in `answer_call`: the function is in its place.
        percpu::block(cpu).call.store(ASKED, Ordering::Release);
        send(cpu, Message::Interrupt(vector::CALL));
    }
    meanwhile();
    let mut missing = CpuSet::empty();
    let mut patience = Deadline::after(PATIENCE);
    for cpu in others.iter() {
        let word = &percpu::block(cpu).call;
        let begun = patience.wait_for(|| {
            answer_flush();
            word.load(Ordering::Relaxed) != ASKED
        });
        let taken_back = !begun
            && word
                .compare_exchange(ASKED, NONE, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if taken_back {
            missing.insert(cpu);
            continue;
        }
        // Pairs with the release at the end of `answer_call`: what the function
        // did is to be seen here.
        let done = Deadline::after(LIMIT).wait_for(|| {
            answer_flush();
            word.load(Ordering::Acquire) == DONE
        });
        assert!(done, "CPU {cpu} does not come back from a call");
        word.store(NONE, Ordering::Relaxed);
    }
    missing
}

/// Runs what this CPU is asked, if it is. Interrupts are off.
pub(super) fn answer_call() {
    let cpu = percpu::number();
    let word = &percpu::block(cpu).call;
    if word
        .compare_exchange(ASKED, RUNNING, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        return;
    }
    // SAFETY: the word is RUNNING, so the caller leaves the place alone.
    if let Some(f) = unsafe { *PLACE.0.get() } {
        f(cpu);
    }
    word.store(DONE, Ordering::Release);
}

/// Makes the other CPUs of the set forget what their TLBs know of programs'
/// pages, and returns when all have: only then may a frame that was unmapped be
/// freed. May be called with locks held that are [`IrqMutex`]es.
///
/// # Panics
///
/// When a CPU does not: its TLB still leads to memory that is to be freed.
///
/// [`IrqMutex`]: crate::sync::IrqMutex
pub fn flush(cpus: &CpuSet) {
    without_interrupts(|| {
        let mut others = cpus.and(&percpu::online());
        others.remove(percpu::number());
        for cpu in others.iter() {
            // Pairs with the acquire in `answer_flush`: the tables' change comes
            // before the flush.
            percpu::block(cpu)
                .flushes_wanted
                .fetch_add(1, Ordering::SeqCst);
            send(cpu, Message::Interrupt(vector::FLUSH));
        }
        for cpu in others.iter() {
            let block = percpu::block(cpu);
            let wanted = block.flushes_wanted.load(Ordering::Relaxed);
            let done = Deadline::after(LIMIT).wait_for(|| {
                answer_flush();
                block.flushes_done.load(Ordering::Acquire) >= wanted
            });
            assert!(done, "CPU {cpu} does not flush its TLB");
        }
    });
}

/// Flushes this CPU's TLB if it is asked to. Interrupts are off.
pub(crate) fn answer_flush() {
    let block = percpu::here();
    let wanted = block.flushes_wanted.load(Ordering::Acquire);
    if block.flushes_done.load(Ordering::Relaxed) != wanted {
        // No page is global, so this is all of them.
        x86_64::instructions::tlb::flush_all();
        block.flushes_done.store(wanted, Ordering::Release);
    }
}

/// The other CPUs have to stop; the number of the one that says so, plus one.
static HALTED_BY: AtomicUsize = AtomicUsize::new(0);

/// Stops all other CPUs for ever, wherever they are. Where two CPUs call this at
/// once, the second stops itself and does not return.
///
/// Does not wait: a CPU stops at its next instruction, or never was able to.
pub fn halt_others() {
    interrupts::disable();
    let here = percpu::number();
    let first = HALTED_BY.compare_exchange(0, here + 1, Ordering::AcqRel, Ordering::Acquire);
    match first {
        Ok(_) => {}
        // Called again.
        Err(by) if by == here + 1 => return,
        Err(_) => stand_still(),
    }
    for cpu in percpu::online().iter().filter(|&cpu| cpu != here) {
        send(cpu, Message::Nmi);
    }
}

/// On an NMI: stops this CPU if another has said so.
pub(super) fn halt_if_told() {
    let by = HALTED_BY.load(Ordering::Acquire);
    if by != 0 && by != percpu::number() + 1 {
        stand_still();
    }
}

fn stand_still() -> ! {
    loop {
        interrupts::disable();
        hlt();
    }
}
