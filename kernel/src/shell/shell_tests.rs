use super::fake::FakeMachine;
use super::{Outcome, Session, execute, run_rc};
use alloc::string::String;

fn run(line: &str) -> (Outcome, String) {
    let mut out = String::new();
    let outcome = execute(line, &FakeMachine::default(), &mut out);
    (outcome, out)
}

#[track_caller]
fn check(line: &str, outcome: Outcome, text: &str) {
    assert_eq!(run(line), (outcome, String::from(text)), "running {line:?}");
}

#[test]
fn every_error_is_one_line_with_the_name_in_front() {
    let failure = Outcome::Failure;
    check("frobnicate", failure, "frobnicate: not found\n");
    check("FALSE", failure, "FALSE: not found\n");
    check("''", failure, ": not found\n");
    check("uptime now", failure, "uptime: takes no arguments\n");
    check("dmesg -a", failure, "dmesg: takes no arguments\n");
    check("ps 1", failure, "ps: takes no arguments\n");
    check("wait 1", failure, "wait: takes no arguments\n");
    check("shutdown now", failure, "shutdown: takes no arguments\n");
    check("help frobnicate", failure, "help: frobnicate: not found\n");
    check(
        "uptime &",
        failure,
        "uptime: only a program can run in the background\n",
    );
    check("uptime 'x", failure, "shell: unmatched '\n");
    check(
        "& uptime",
        failure,
        "shell: & stands only at the end of a command\n",
    );
}

#[test]
fn commands_print_what_they_are_asked_for() {
    let success = Outcome::Success;
    check("uptime", success, "up 0 days, 01:02:03.000000004\n");
    check("dmesg", success, "first line\nsecond line\n");
    check("wait", success, "");
    check("", success, "");
    check("# nothing", success, "");
    check("shutdown", Outcome::PowerOff, "");
}

#[test]
fn ps_has_a_line_for_each_process() {
    let machine = FakeMachine::default();
    let mut out = String::new();
    let _ = execute("true &", &machine, &mut out);
    let _ = execute("crash &", &machine, &mut out);
    let outcome = execute("ps", &machine, &mut out);
    let text = "  PID THREADS  CPU            TIME COMMAND
    7       0    -     0.000000000 true
    8       1    0     1.000000002 crash
";
    assert_eq!(
        (outcome, out.as_str()),
        (Outcome::Success, text),
        "running ps"
    );
}

#[test]
fn help_lists_all_commands_and_programs() {
    check(
        "help",
        Outcome::Success,
        "\
help [command ...]                list commands and programs
sysctl [-adNn] name[=value] ...   read and write the kernel's state
uptime                            show the time since boot
dmesg                             show the kernel's log
ps                                show programs in the background, their threads and CPU time
wait                              wait for all programs in the background; fails if one failed
shutdown                          power the machine off
true                              program; with & behind it, in the background
false                             program; with & behind it, in the background
crash                             program; with & behind it, in the background
garbage                           program; with & behind it, in the background
",
    );
    check(
        "help uptime",
        Outcome::Success,
        "uptime                            show the time since boot\n",
    );
}

#[test]
fn a_program_has_its_own_status() {
    check("true", Outcome::Success, "");
    check("false 1 2", Outcome::Failure, "");
    check(
        "crash",
        Outcome::Failure,
        "crash: killed: page fault at 0x10\n",
    );
    check("garbage", Outcome::Failure, "garbage: not an ELF file\n");
    check("garbage &", Outcome::Failure, "garbage: not an ELF file\n");
    check("nothing &", Outcome::Failure, "nothing: not found\n");
}

#[test]
fn wait_fails_if_a_program_in_the_background_failed() {
    let machine = FakeMachine::default();
    let mut out = String::new();
    for program in ["true &", "false &", "crash &"] {
        let outcome = execute(program, &machine, &mut out);
        assert_eq!(outcome, Outcome::Success, "{program} starts");
    }
    let outcome = execute("wait", &machine, &mut out);
    assert_eq!(
        out, "wait: false: exited with status 3\nwait: crash: killed: page fault at 0x10\n",
        "those that failed are named"
    );
    assert_eq!(outcome, Outcome::Failure, "one failure is enough");
    let outcome = execute("wait", &machine, &mut out);
    assert_eq!(outcome, Outcome::Success, "each is waited for once");
}

fn rc(text: &[u8]) -> (Outcome, String) {
    let mut out = String::new();
    let outcome = run_rc(text, &FakeMachine::default(), &mut out);
    (outcome, out)
}

#[test]
fn a_file_of_commands_runs_to_its_end_and_remembers_a_failure() {
    let (outcome, out) = rc(b"# comment\n\nuptime\r\n  nothing\nsysctl -n kern.hz");
    assert_eq!(
        out, "up 0 days, 01:02:03.000000004\nnothing: not found\n1000\n",
        "only the output of the commands"
    );
    assert_eq!(outcome, Outcome::Failure, "one of them failed");
    let (outcome, out) = rc(b"");
    assert_eq!(
        (outcome, out.as_str()),
        (Outcome::Success, ""),
        "an empty file"
    );
}

#[test]
fn shutdown_ends_the_file_with_the_status_so_far() {
    assert_eq!(
        rc(b"true\nshutdown\nfalse"),
        (Outcome::Success, String::new()),
        "no failure"
    );
    assert_eq!(
        rc(b"false\nshutdown\ntrue"),
        (Outcome::Failure, String::new()),
        "a failure"
    );
}

#[test]
fn a_line_that_is_not_text_is_an_error() {
    let (outcome, out) = rc(b"uptime\xff\ntrue\n");
    assert_eq!(out, "shell: uptime\\xff: not UTF-8\n", "shown escaped");
    assert_eq!(outcome, Outcome::Failure, "and remembered");
}

#[test]
fn a_session_prompts_runs_and_ends() {
    let machine = FakeMachine::default();
    let mut out = String::new();
    let mut session = Session::new(&mut out);
    let mut ended_at = None;
    for (place, byte) in b"upt\t\rshu\x03\x1b[A\rshutdown\r".iter().enumerate() {
        if !session.byte(*byte, &machine, &mut out) {
            ended_at = Some(place);
        }
    }
    assert_eq!(ended_at, Some(21), "at the last byte");
    assert_eq!(
        out,
        "timehands> upt\r\
         timehands> uptime \x1b[K\n\
         up 0 days, 01:02:03.000000004\n\
         timehands> shu^C\n\
         timehands> \r\
         timehands> uptime \x1b[K\n\
         up 0 days, 01:02:03.000000004\n\
         timehands> shutdown\n",
        "completion, interrupt, history, and no prompt behind the end"
    );
}

#[test]
fn a_line_that_is_too_long_is_not_run() {
    let machine = FakeMachine::default();
    let mut out = String::new();
    let mut session = Session::new(&mut out);
    out.clear();
    let mut line = String::from("shutdown");
    line.push_str(&" ".repeat(2000));
    line.push('\r');
    let going_on = line
        .bytes()
        .all(|byte| session.byte(byte, &machine, &mut out));
    assert!(going_on, "the beginning of the line must not be run");
    assert!(
        out.ends_with("\nshell: a line has at most 1000 characters\ntimehands> "),
        "it says why: {out:?}"
    );
}
