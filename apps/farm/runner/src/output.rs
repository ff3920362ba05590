//! Standard output in complete lines.
//!
//! Invariant: the runner does not depend on a reader.

use std::io::Write as _;
use std::time::Duration;

/// Time between two signs of life.
const ALIVE: Duration = Duration::from_secs(5);

/// An empty line every few seconds: it tells that the runner and the connection are alive.
pub(crate) fn say_alive() {
    loop {
        std::thread::sleep(ALIVE);
        print_line("");
    }
}

/// Prints a line.
pub(crate) fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out
        .write_all(format!("{line}\n").as_bytes())
        .and_then(|()| out.flush());
}
