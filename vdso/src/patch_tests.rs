//! Images made by hand: the smallest that has a table, and what goes wrong.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "the images are the tests' own"
)]

use super::{Form, NOP, PatchError, RDTSCP, apply};

const TABLE: usize = 64 + 56 + 24;
const CODE: usize = TABLE + 16;
const SIZE: usize = CODE + 8;

/// ELF header, one PT_NOTE header, one note with an ORDER and a TSC place, and
/// the code that they name: `lfence; xor eax, eax; rdtsc; nop`.
fn image() -> [u8; SIZE] {
    let mut image = [0; SIZE];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    put(32, &64_u64.to_le_bytes());
    put(54, &[56, 0, 1, 0]);
    put(64, &4_u32.to_le_bytes());
    put(64 + 8, &120_u64.to_le_bytes());
    put(64 + 32, &(24_u64 + 16).to_le_bytes());
    put(120, &[10, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0]);
    put(132, b"Timehands\0\0\0");
    put(TABLE, &[16, 0, 0, 0, 1, 0, 0, 0]);
    put(TABLE + 8, &[8 + 5, 0, 0, 0, 2, 0, 0, 0]);
    put(CODE, &[0x0f, 0xae, 0xe8, 0x31, 0xc0, 0x0f, 0x31, 0x90]);
    image
}

#[test]
fn the_rdtscp_form_replaces_both_places_and_nothing_else() {
    let mut patched = image();
    assert_eq!(apply(&mut patched, Form::Rdtscp), Ok(2), "two places");
    let mut expected = image();
    expected[CODE..CODE + 3].copy_from_slice(&NOP);
    expected[CODE + 5..CODE + 8].copy_from_slice(&RDTSCP);
    assert_eq!(patched, expected, "only the named bytes change");
}

#[test]
fn patching_is_reversible_and_may_be_repeated() {
    let mut patched = image();
    for form in [Form::Lfence, Form::Rdtscp, Form::Rdtscp, Form::Lfence] {
        assert_eq!(apply(&mut patched, form), Ok(2), "{form:?}");
    }
    assert_eq!(patched, image(), "back to what was built");
}

#[test]
fn an_image_without_a_table_is_refused() {
    let mut none = image();
    none[132] = b't';
    assert_eq!(
        apply(&mut none, Form::Rdtscp),
        Err(PatchError::NoTable),
        "another owner's note is not ours"
    );
    let mut empty = image();
    empty[124] = 0;
    assert_eq!(
        apply(&mut empty, Form::Rdtscp),
        Err(PatchError::NoTable),
        "a table without entries would leave the image half fitted"
    );
    assert_eq!(
        apply(&mut [0; 200], Form::Rdtscp),
        Err(PatchError::NotElf),
        "zeroes"
    );
    assert_eq!(
        apply(&mut [], Form::Rdtscp),
        Err(PatchError::NotElf),
        "nothing at all"
    );
}

#[test]
fn a_place_that_holds_other_code_leaves_the_image_unchanged() {
    let mut wrong = image();
    wrong[CODE + 6] = 0x30;
    let before = wrong;
    assert_eq!(
        apply(&mut wrong, Form::Rdtscp),
        Err(PatchError::NotAPlace { entry: TABLE + 8 }),
        "RDTSC became WRMSR"
    );
    assert_eq!(
        wrong, before,
        "not even the good place before it is written"
    );
}

#[test]
fn an_unknown_mark_is_refused() {
    let mut wrong = image();
    wrong[TABLE + 4] = 3;
    assert_eq!(
        apply(&mut wrong, Form::Rdtscp),
        Err(PatchError::NotAPlace { entry: TABLE }),
        "mark 3"
    );
}

#[test]
fn a_place_outside_the_image_is_refused() {
    for distance in [i32::MIN, -(TABLE as i32) - 1, 23, i32::MAX] {
        let mut outside = image();
        outside[TABLE..TABLE + 4].copy_from_slice(&distance.to_le_bytes());
        assert_eq!(
            apply(&mut outside, Form::Rdtscp),
            Err(PatchError::Truncated),
            "distance {distance}"
        );
    }
}

#[test]
fn a_cut_off_image_is_refused_at_every_length() {
    for length in 0..SIZE {
        let mut cut = image();
        let before = cut;
        assert!(
            apply(&mut cut[..length], Form::Rdtscp).is_err(),
            "cut off at {length}"
        );
        assert_eq!(cut, before, "cut off at {length}");
    }
}

#[test]
fn no_single_wrong_byte_makes_it_panic_or_write_beside_the_places() {
    for at in 0..SIZE {
        for flip in [0x01, 0x80, 0x7f, 0xff] {
            let mut mutated = image();
            mutated[at] ^= flip;
            let before = mutated;
            match apply(&mut mutated, Form::Rdtscp) {
                Ok(_) => assert_eq!(mutated[..CODE], before[..CODE], "byte {at} ^ {flip:#x}"),
                Err(_) => assert_eq!(mutated, before, "byte {at} ^ {flip:#x}"),
            }
        }
    }
}
