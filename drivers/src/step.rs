//! The true resolution of a counter.
//!
//! Some counters are faster in name than in truth: a TSC of 2.6 GHz that a 100
//! MHz clock moves by 26 at a time, for one. What `clock_getres` reports should
//! be what can be seen.

/// The smallest step by which a counter was seen to move in `reads` reads in
/// a row: the greatest common divisor of the differences, 1 if it did not
/// move.
///
/// Differences that are negative or enormous (another CPU's counter after a
/// migration) are left out.
pub fn smallest_step(read: impl Fn() -> u64, mask: u64, reads: u32) -> u64 {
    let mut step = 0;
    let mut last = read();
    for _ in 1..reads {
        let now = read();
        let moved = now.wrapping_sub(last) & mask;
        last = now;
        if moved <= mask / 2 {
            step = greatest_common_divisor(step, moved);
        }
    }
    step.max(1)
}

/// Euclid's; the divisor of 0 and n is n.
const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
