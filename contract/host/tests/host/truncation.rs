//! The handler for truncated files leaves every other SIGBUS to the handler that was installed before it.
//!
//! Not here: truncated models (`scheduler/tests/sessions/truncation.rs`).

#![allow(
    clippy::print_stdout,
    reason = "the child process answers on its standard output"
)]
#![allow(unsafe_code)]

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};

use polychip_host::MappedFile;

const FOLDER: &str = "POLYCHIP_HOST_TRUNCATION_FOLDER";
/// Whether the child has a handler of its own.
const OWN: &str = "POLYCHIP_HOST_TRUNCATION_OWN";
const BYTES: usize = 4 << 20;
/// With what the child's own handler ends it.
const HANDLED: i32 = 42;

extern "C" fn own_handler(_: libc::c_int) {
    // SAFETY: ends the process at once; the call may be made in a handler.
    unsafe { libc::_exit(HANDLED) };
}

/// Not a test: what the tests below run in a process of its own.
#[test]
#[ignore = "a child process of the other tests"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let path = |name: &str| std::path::Path::new(&folder).join(name);
    if std::env::var_os(OWN).is_some() {
        let handler: extern "C" fn(libc::c_int) = own_handler;
        // SAFETY: the handler only ends the process.
        unsafe { libc::signal(libc::SIGBUS, handler as *const () as libc::sighandler_t) };
    }
    for name in ["ours", "theirs"] {
        std::fs::write(path(name), vec![7; BYTES]).unwrap();
    }
    let truncate = |name: &str| {
        let file = File::options().write(true).open(path(name)).unwrap();
        file.set_len(4096).unwrap();
    };
    let ours = MappedFile::open(&path("ours")).unwrap();
    ours.check().unwrap();
    truncate("ours");
    let bytes = ours.bytes();
    assert_eq!((bytes[0], bytes[4096], bytes[BYTES - 1]), (7, 0, 0));
    let error = ours.check().unwrap_err().to_string();
    assert!(
        error.contains("ours: another process truncated the file"),
        "{error}"
    );
    // the file is whole again, but what was read was not
    std::fs::write(path("ours"), vec![7; BYTES]).unwrap();
    assert!(ours.check().is_err());
    // the place of a mapping is free for the next one
    drop((bytes, ours));
    let again = MappedFile::open(&path("ours")).unwrap();
    assert_eq!(again.bytes()[BYTES - 1], 7);
    again.check().unwrap();

    // SAFETY: that the file changes is what is tested.
    let theirs = unsafe { memmap2::Mmap::map(&File::open(path("theirs")).unwrap()) }.unwrap();
    truncate("theirs");
    println!("{}", theirs[BYTES - 1]);
    unreachable!("a page without a file was read");
}

fn ended(own: bool) -> ExitStatus {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "truncation::child", "--nocapture"]);
    command.env(FOLDER, folder.path());
    if own {
        command.env(OWN, "");
    }
    command.status().unwrap()
}

#[test]
fn other_faults_reach_the_apps_handler() {
    assert_eq!(ended(true).code(), Some(HANDLED));
}

#[test]
fn other_faults_end_the_process_without_a_handler() {
    assert_eq!(ended(false).signal(), Some(libc::SIGBUS));
}
