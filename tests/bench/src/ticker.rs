//! The tick of a kernel, as a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use timecounter::clock::Clock;

use crate::cpu;

/// A thread that winds a clock up regularly; dropping it ends it.
#[derive(Debug)]
pub struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Winds `clock` up `hz` times a second, on `cpu` if one is given. As with a
    /// periodic interrupt, ticks keep to their grid, and those that the host
    /// does not let through are lost.
    ///
    /// # Errors
    ///
    /// There is no such thread to be had, or not on that processor.
    pub fn start(clock: &'static Clock, hz: u32, cpu: Option<usize>) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, pause) = (Arc::clone(&stop), Duration::from_secs(1) / hz.max(1));
        let (report, reported) = std::sync::mpsc::channel();
        let thread = thread::Builder::new()
            .name("ticker".into())
            .spawn(move || {
                let pinned = cpu.map_or(Ok(()), cpu::pin);
                let run = pinned.is_ok();
                // Whoever asked has gone away: nobody needs the tick.
                if report.send(pinned).is_err() || !run {
                    return;
                }
                let mut next = Instant::now();
                while !stopped.load(Ordering::Relaxed) {
                    next += pause;
                    let now = Instant::now();
                    match next.checked_duration_since(now) {
                        Some(left) => thread::sleep(left),
                        None => next = now,
                    }
                    clock.windup();
                }
            })?;
        reported.recv().context("the ticker did not start")??;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has printed its message; there is nothing to add here.
            let _ = thread.join();
        }
    }
}
