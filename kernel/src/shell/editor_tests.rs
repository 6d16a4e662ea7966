use super::{Completion, Editor, Event, LIMIT};
use crate::shell::keys::Decoder;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

fn names(before: &str) -> Completion {
    let typed = before.rsplit(' ').next().unwrap_or("");
    let names = ["uptime", "sysctl", "sysinfo", "kern.hz", "kern.tc."];
    Completion {
        typed: typed.chars().count(),
        candidates: names
            .iter()
            .filter(|name| name.starts_with(typed))
            .map(ToString::to_string)
            .collect(),
    }
}

/// Types `bytes` at one editor; the events and all that the terminal saw.
fn type_at(editor: &mut Editor, bytes: &[u8]) -> (Vec<Event>, String) {
    let mut decoder = Decoder::default();
    let mut screen = String::new();
    let mut events = Vec::new();
    for byte in bytes {
        decoder.byte(*byte, |key| {
            if let Some(event) = editor.key(key, &names, &mut screen) {
                events.push(event);
                editor.start(&mut screen);
            }
        });
    }
    (events, screen)
}

fn lines(bytes: &[u8]) -> Vec<Event> {
    type_at(&mut Editor::new("> "), bytes).0
}

fn line(text: &str) -> Event {
    Event::Line(text.to_string())
}

#[test]
fn text_is_echoed_and_returned() {
    let (events, screen) = type_at(&mut Editor::new("> "), "t\u{e9}\r".as_bytes());
    assert_eq!(events, [line("t\u{e9}")], "the line as typed");
    assert_eq!(screen, "t\u{e9}\n> ", "each character is echoed once");
}

#[test]
fn keys_edit_the_line() {
    for (bytes, text) in [
        (&b"abc\x7f\x08d\r"[..], "ad"),
        (b"bc\x01a\r", "abc"),
        (b"ac\x1b[Db\x05d\r", "abcd"),
        (b"abc\x1b[D\x1b[D\x1b[3~\r", "ac"),
        (b"abc\x02\x04\r", "ab"),
        (b"abc def\x17x\r", "abc x"),
        (b"abc  \x17x\r", "x"),
        (b"abc\x15x\r", "x"),
        (b"abc\x01\x06\x0b\r", "a"),
        (b"\x7f\x1b[D\x1b[3~\x17\x0b\x15a\r", "a"),
        (b"a\0\x07b\r", "ab"),
        (b"ab\x0cc\r", "abc"),
    ] {
        assert_eq!(
            lines(bytes),
            [line(text)],
            "typing {}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn the_screen_follows_an_edit_in_the_middle() {
    let mut editor = Editor::new("> ");
    let (_, screen) = type_at(&mut editor, b"ac\x1b[Db");
    assert_eq!(
        screen, "ac\r> ac\x1b[K\x1b[1Dbc\x1b[1D",
        "the cursor moves, then the new character and all behind it are sent"
    );
}

#[test]
fn older_lines_come_back() {
    assert_eq!(
        lines(b"one\rtwo\r\x1b[A\x1b[A\r"),
        [line("one"), line("two"), line("one")],
        "two steps back"
    );
    assert_eq!(
        lines(b"one\rdraft\x1b[A\x1b[B!\r"),
        [line("one"), line("draft!")],
        "the draft survives a look at the history"
    );
}

#[test]
fn an_interrupt_gives_the_line_up() {
    assert_eq!(
        lines(b"shutdown\x03help\r"),
        [Event::Interrupt, line("help")],
        "nothing of the old line is left"
    );
}

#[test]
fn a_line_beyond_the_limit_is_refused_as_a_whole() {
    let mut bytes = "x".repeat(LIMIT).into_bytes();
    bytes.push(b'\r');
    assert_eq!(
        lines(&bytes),
        [line(&"x".repeat(LIMIT))],
        "the longest line"
    );
    bytes.insert(0, b'x');
    bytes.extend(b"help\r");
    assert_eq!(
        lines(&bytes),
        [Event::TooLong, line("help")],
        "one more spoils the line, not the next"
    );
}

#[test]
fn tab_completes_what_is_certain_and_lists_the_rest() {
    assert_eq!(lines(b"up\t\r"), [line("uptime ")], "one candidate");
    assert_eq!(
        lines(b"s\tc\t\r"),
        [line("sysctl ")],
        "first what is common"
    );
    assert_eq!(
        lines(b"kern.t\t\r"),
        [line("kern.tc.")],
        "an inner node goes on"
    );
    assert_eq!(lines(b"x\t\r"), [line("x")], "no candidate");
    assert_eq!(
        lines(b"up a\x01\x06\x06\t\r"),
        [line("uptime  a")],
        "in the middle"
    );
    let (_, screen) = type_at(&mut Editor::new("> "), b"sys\t");
    assert_eq!(
        screen, "sys\nsysctl\nsysinfo\n\r> sys\x1b[K",
        "the candidates, then the line again"
    );
}
