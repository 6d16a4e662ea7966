//! Keeps values in the vector registers for a while.

#![allow(
    unsafe_code,
    reason = "holds values where the compiler does not see them"
)]

use core::arch::asm;

/// Puts `seed` and numbers made from it into all sixteen SSE registers and a
/// rounding mode into MXCSR, counts `rounds` down to 0, and looks whether all
/// of it is still there. A kernel that mixes up the registers of two programs
/// is found out if it switches meanwhile.
#[must_use]
pub fn keep(seed: u64, rounds: u64) -> bool {
    // All exceptions masked, rounding towards zero: not what a program starts
    // with.
    let rounding: u32 = 0x7f80;
    let mut found = 0_u32;
    let mut before = 0_u32;
    let wrong: u64;
    // SAFETY: the registers that the block changes are declared, MXCSR is put
    // back as it was, and the three words are written and read in place.
    unsafe {
        asm!(
            "stmxcsr [{before}]",
            "ldmxcsr [{rounding}]",
            // Register n gets the seed with n added to it, in both halves.
            ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
            "lea {scratch}, [{seed} + \\n]",
            "movq xmm\\n, {scratch}",
            "punpcklqdq xmm\\n, xmm\\n",
            ".endr",
            "2:",
            "sub {rounds}, 1",
            "jnz 2b",
            "xor {wrong:e}, {wrong:e}",
            ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
            "movq {scratch}, xmm\\n",
            "sub {scratch}, \\n",
            "xor {scratch}, {seed}",
            "or {wrong}, {scratch}",
            "punpckhqdq xmm\\n, xmm\\n",
            "movq {scratch}, xmm\\n",
            "sub {scratch}, \\n",
            "xor {scratch}, {seed}",
            "or {wrong}, {scratch}",
            ".endr",
            "stmxcsr [{found}]",
            "ldmxcsr [{before}]",
            seed = in(reg) seed,
            rounds = inout(reg) rounds.max(1) => _,
            scratch = out(reg) _,
            wrong = out(reg) wrong,
            rounding = in(reg) &raw const rounding,
            found = in(reg) &raw mut found,
            before = in(reg) &raw mut before,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack),
        );
    }
    // The low six bits are flags of what happened, not settings.
    wrong == 0 && found & !0x3f == rounding
}
