//! What the program prints, and its exit codes.

use std::process::{Command, Output, Stdio};

fn sqlstreams(arguments: &[&str], stdout: Stdio) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sqlstreams"))
        .args(arguments)
        .env_remove("SQLSTREAMS_DATABASE_URL")
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .expect("the program runs")
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = sqlstreams(&["crd"], writer.into());
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
        (Some(0), "")
    );
}

#[test]
fn output_that_cannot_be_written_is_a_failure_that_says_so() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a full device");
    let output = sqlstreams(&["crd"], full.into());
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.starts_with("sqlstreams: the output cannot be written: "),
        "{error}"
    );
}

#[test]
fn what_cannot_be_understood_or_is_missing_has_its_exit_code_and_its_remedy() {
    let cases: [(&[&str], i32, &str); 4] = [
        (&["no-such-command"], 2, "unrecognized subcommand"),
        (&["publish"], 2, "--stream"),
        (
            &["publish", "--stream", "s"],
            1,
            "give --database-url or --database-folder",
        ),
        (&["worker", "--stream", "s", "--group", "g"], 2, "--handler-url"),
    ];
    for (arguments, code, message) in cases {
        let output = sqlstreams(arguments, Stdio::piped());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}
