//! Damaged input never panics and is never accepted in a dangerous form.
//!
//! Seeded, so that a failure repeats; each round changes up to eight places of
//! a well-formed input, preferring values at the edges of their types.

use std::vec;
use std::vec::Vec;

use crate::archive::Archive;
use crate::image::Image;
use crate::plan::{Plan, Sizes};
use crate::samples::{Kernel, Ram, archive, boot_information, start_info};
use crate::span::Span;
use crate::{multiboot2, pvh};

const ROUNDS: usize = 100_000;

/// SplitMix64: small, and good enough to choose places and values.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Damages `bytes` at offsets below `reach`.
    fn damage(&mut self, bytes: &mut [u8], reach: usize) {
        for _ in 0..1 + self.below(8) {
            let value = match self.below(6) {
                0 => 0,
                1 => u64::MAX,
                2 => 1 << self.below(64),
                3 => (1 << self.below(64)) - 1,
                4 => self.next() & 0xffff,
                _ => self.next(),
            };
            let width = 1 << self.below(4);
            let at = self.below(reach.min(bytes.len() - 8)) / width * width;
            bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
    }
}

#[test]
fn a_damaged_kernel_is_refused_or_loads_inside_its_memory() {
    const LOADER: Span = Span {
        start: 0x10_0000,
        end: 0x14_0000,
    };
    const SIZES: Sizes = Sizes {
        physical: 1 << 36,
        ramdisk: 0x10_0000,
        boot_info: 0x2000,
    };
    let whole = Kernel::default().build();
    let mut random = Random(1);
    let mut loaded = 0;
    for round in 0..ROUNDS {
        let mut file = whole.clone();
        let reach = if round % 2 == 0 { 0x400 } else { file.len() };
        random.damage(&mut file, reach);
        if round % 16 == 0 {
            file.truncate(random.below(file.len()));
        }
        let Ok(image) = Image::parse(&file) else {
            continue;
        };
        for segment in &image.segments {
            assert!(
                !(segment.writable && segment.executable),
                "round {round}: W^X"
            );
            assert!(
                image.span.contains(segment.span),
                "round {round}: outside the span"
            );
        }
        let Ok(plan) = Plan::new(&image, LOADER, SIZES) else {
            continue;
        };
        if image.span.length() < 1 << 20 {
            let mut memory = vec![0; image.span.length() as usize];
            loaded += usize::from(image.load(&mut memory, plan.base).is_ok());
        }
    }
    assert!(
        loaded > ROUNDS / 100,
        "only {loaded} got as far as loading: damage is too heavy"
    );
}

#[test]
fn a_damaged_handover_is_refused_or_names_memory_that_is_there() {
    type Read = fn(&Ram, u64) -> Result<crate::handover::Handover, crate::handover::Error>;
    let doors: [(Ram, Read); 2] = [
        (start_info(b"kern.hz=100"), pvh::read),
        (boot_information(), multiboot2::read),
    ];
    for (whole, read) in doors {
        let mut random = Random(2);
        let mut accepted = 0;
        for round in 0..ROUNDS {
            let mut ram = whole.clone();
            random.damage(&mut ram.0, 300);
            let Ok(handover) = read(&ram, Ram::BASE) else {
                continue;
            };
            accepted += 1;
            assert!(
                handover.memory.is_memory(handover.archive),
                "round {round}: archive"
            );
            let regions = handover.memory.regions();
            let sorted = regions.windows(2).all(|pair| pair[0].end <= pair[1].start);
            assert!(sorted, "round {round}: regions overlap");
            if let Some(mut arena) = handover.memory.arena() {
                let taken = arena.take(1).map(|at| Span {
                    start: at,
                    end: at + 0x1000,
                });
                let clear = taken.is_none_or(|taken| !taken.overlaps(handover.archive));
                assert!(clear, "round {round}: the arena takes the archive");
            }
        }
        assert!(
            accepted > ROUNDS / 100,
            "only {accepted} were accepted: damage is too heavy"
        );
    }
}

#[test]
fn a_damaged_archive_is_refused_or_read_inside_its_bytes() {
    let whole: Vec<u8> = archive(&[("cmdline", b"a=1"), ("kernel", &[7; 700]), ("x", b"y")]);
    let mut random = Random(3);
    for round in 0..ROUNDS {
        let mut bytes = whole.clone();
        random.damage(&mut bytes, whole.len());
        bytes.truncate(random.below(bytes.len()) + 1);
        let Ok(archive) = Archive::new(&bytes) else {
            continue;
        };
        assert!(
            archive.end_of_entries() <= bytes.len(),
            "round {round}: end of entries"
        );
        let _ = archive.kernel();
    }
}
