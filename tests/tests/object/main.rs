//! The shared object that programs map, as it is built: what is in the file,
//! which instructions an ordinary read is made of, and what its functions
//! return when it is loaded into this process.

#![forbid(unsafe_code)]

mod calls;
mod path;
mod shape;

use std::fs;
use std::sync::OnceLock;

use vdso::patch::{self, Form};

/// Both forms of the ordered counter read.
const FORMS: [Form; 2] = [Form::Lfence, Form::Rdtscp];

/// The object's file, built at the first call.
fn file() -> &'static [u8] {
    static FILE: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let path = xtask::build::object().map_err(|error| format!("{error:#}"))?;
        fs::read(path).map_err(|error| error.to_string())
    });
    file.as_ref().expect("the object builds")
}

/// The object's file, fitted to a processor on which `form` is cheaper.
fn fitted(form: Form) -> Vec<u8> {
    let mut image = file().to_vec();
    patch::apply(&mut image, form).expect("the object says where it reads the counter");
    image
}

#[test]
fn fitting_it_to_the_processor_is_reversible() {
    let places = patch::apply(&mut file().to_vec(), Form::Rdtscp);
    assert!(
        places.is_ok_and(|places| places >= 2),
        "at least one ordered read: {places:?}"
    );
    let mut image = fitted(Form::Rdtscp);
    assert_ne!(image, file(), "as built it is in the other form");
    patch::apply(&mut image, Form::Lfence).expect("patched images can be patched");
    assert_eq!(image, file(), "back to what was built");
}
