//! Where `unsafe` stands, and how every file begins.
//!
//! The repository promises that `unsafe` is found in a few named places and
//! nowhere else. The compiler checks it for crates that forbid it altogether;
//! this check also covers the crates that allow it in one file or folder, and
//! it cannot be switched off by an attribute in the file itself.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Files and folders (with a `/` at the end) that may contain `unsafe`.
const ALLOWED: &[&str] = &[
    "boot/",
    "drivers/src/native.rs",
    "kernel/src/arch/",
    "kernel/src/mm/",
    "vdso/object/src/",
    "vdso/src/counter.rs",
    "vdso/user/src/load.rs",
    "vdso/user/src/sys.rs",
    "vdso/user/src/sys/",
];

/// Folders that hold no source of ours.
const SKIPPED: &[&str] = &["target", ".git"];

/// Checks every Rust file of the repository; one line for each finding.
///
/// # Errors
/// A file cannot be read.
pub fn findings() -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut files = Vec::new();
    collect(crate::root(), &mut files)?;
    files.sort();
    for file in files {
        let name = file
            .strip_prefix(crate::root())
            .unwrap_or(&file)
            .display()
            .to_string();
        let text = fs::read_to_string(&file).with_context(|| name.clone())?;
        found.extend(check(&name, &text));
    }
    Ok(found)
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        let skipped = SKIPPED
            .iter()
            .any(|name| path.file_name().is_some_and(|n| n == *name));
        if path.is_dir() && !skipped {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// What is wrong with one file.
fn check(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    // A module's tests, kept beside it, have its documentation.
    let tests = name.ends_with("/tests.rs") || name.ends_with("_tests.rs");
    if !tests && !text.starts_with("//! ") {
        found.push(format!(
            "{name}:1: a file begins with what it is for (`//! `)"
        ));
    }
    if !is_allowed(name) {
        let lines = code(text);
        let with = lines
            .lines()
            .enumerate()
            .filter(|(_, line)| has_word(line, "unsafe"));
        found.extend(with.map(|(at, _)| format!("{name}:{}: unsafe is not allowed here", at + 1)));
    }
    found
}

fn is_allowed(name: &str) -> bool {
    ALLOWED.iter().any(|place| match place.strip_suffix('/') {
        Some(_) => name.starts_with(place),
        None => name == *place,
    })
}

/// Whether `word` stands in `line` by itself, not as part of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let name = |c: char| c.is_alphanumeric() || c == '_';
    line.split(|c| !name(c)).any(|part| part == word)
}

/// The text with comments, strings and character literals blanked out; lines
/// stay where they are.
fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = skipped_length(rest, out.chars().next_back());
        let step = length.unwrap_or(first.len_utf8()).min(rest.len());
        let (piece, after) = rest.split_at(step);
        if length.is_some() {
            out.push(' ');
            out.extend(piece.chars().filter(|c| *c == '\n'));
        } else {
            out.push_str(piece);
        }
        rest = after;
    }
    out
}

/// The length of the comment or literal that `rest` starts with, if it does;
/// `before` is the character in front of it.
fn skipped_length(rest: &str, before: Option<char>) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment(rest));
    }
    if rest.starts_with('"') {
        return Some(quoted(rest, '"'));
    }
    let in_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with('r') && (!in_name || before == Some('b') || before == Some('c')) {
        let hashes = rest
            .get(1..)?
            .bytes()
            .take_while(|byte| *byte == b'#')
            .count();
        let body = 2 + hashes;
        if rest.get(1 + hashes..)?.starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let found = rest.get(body..)?.find(&end);
            return Some(found.map_or(rest.len(), |at| body + at + end.len()));
        }
    }
    if rest.starts_with('\'') {
        // A lifetime has no closing quote after one character.
        let mut chars = rest.chars().skip(1);
        let (first, second) = (chars.next()?, chars.next()?);
        if first == '\\' || second == '\'' {
            return Some(quoted(rest, '\''));
        }
    }
    None
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while let Some(here) = rest.get(at..) {
        let step = if here.starts_with("/*") {
            depth += 1;
            2
        } else if here.starts_with("*/") {
            depth -= 1;
            2
        } else {
            match here.chars().next() {
                Some(c) => c.len_utf8(),
                None => break,
            }
        };
        at += step;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of a literal from its opening quote to its closing one.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_code_outside_the_listed_places_is_found() {
        let text = "//! A file.\nfn f() {\n    unsafe { g() }\n}\n";
        let found = check("kernel/src/shell/mod.rs", text);
        let want = ["kernel/src/shell/mod.rs:3: unsafe is not allowed here"];
        assert_eq!(found, want, "in the shell");
        assert_eq!(
            check("kernel/src/mm/heap.rs", text),
            [""; 0],
            "in memory management"
        );
    }

    #[test]
    fn a_listed_file_does_not_open_its_folder() {
        assert!(is_allowed("drivers/src/native.rs"), "the file itself");
        assert!(
            !is_allowed("drivers/src/native.rs.rs"),
            "a file with a longer name"
        );
        assert!(!is_allowed("drivers/src/hpet.rs"), "its neighbour");
    }

    #[test]
    fn comments_and_literals_do_not_count() {
        for text in [
            "// unsafe\n",
            "/* a /* nested */ unsafe */ x\n",
            "let s = \"unsafe \\\" unsafe\";\n",
            "let s = r#\"unsafe \" unsafe\"#;\n",
            "let s = br\"unsafe\";\n",
            "#![forbid(unsafe_code)]\n",
        ] {
            let left = code(text);
            assert!(!has_word(&left, "unsafe"), "{text:?} became {left:?}");
        }
    }

    #[test]
    fn code_after_a_literal_still_counts() {
        for text in [
            "let c = '\"'; unsafe {}\n",
            "let c = '\\''; unsafe {}\n",
            "fn f<'a>(x: &'a u8) { unsafe {} }\n",
            "let s = r\"\\\"; unsafe {}\n",
            "/* é */ unsafe {}\n",
            "let r = for_r\"x\"; unsafe {}\n",
        ] {
            assert!(
                has_word(&code(text), "unsafe"),
                "{text:?} became {:?}",
                code(text)
            );
        }
    }

    #[test]
    fn lines_keep_their_numbers() {
        let text = "//! A file.\nlet s = \"a\nb\nc\";\n/* d\n */\nunsafe {}\n";
        let want = ["x.rs:7: unsafe is not allowed here"];
        assert_eq!(check("x.rs", text), want, "after literals that span lines");
    }

    #[test]
    fn a_file_begins_with_its_purpose() {
        assert_eq!(
            check("x.rs", "fn f() {}\n").len(),
            1,
            "no module documentation"
        );
    }
}
