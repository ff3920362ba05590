//! Boards of a labgrid coordinator, through `labgrid-client`.
//!
//! Invariant: a place that was acquired is released when it is dropped; labgrid itself keeps it for a client that died.

use std::process::{Command, Output};

use crate::hold::HoldError;

/// A place that is ours.
#[derive(Debug)]
pub(crate) struct Acquired {
    coordinator: Option<String>,
    place: String,
}

fn client(coordinator: Option<&str>) -> Command {
    let mut command = Command::new("labgrid-client");
    if let Some(coordinator) = coordinator {
        command.args(["-x", coordinator]);
    }
    command
}

fn words(output: &Output) -> String {
    let text = String::from_utf8_lossy(if output.stderr.is_empty() {
        &output.stdout
    } else {
        &output.stderr
    });
    text.lines()
        .last()
        .unwrap_or("labgrid-client said nothing")
        .trim()
        .to_owned()
}

fn call(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "labgrid-client is not installed on this host".to_owned(),
        _ => format!("labgrid-client: {error}"),
    })
}

/// Acquires a place.
///
/// # Errors
/// Somebody else has it, or the client fails.
pub(crate) fn acquire(coordinator: Option<&str>, place: &str) -> Result<Acquired, HoldError> {
    let output = call(client(coordinator).args(["-p", place, "acquire"]))
        .map_err(|words| HoldError::Failed { words })?;
    if output.status.success() {
        return Ok(Acquired {
            coordinator: coordinator.map(str::to_owned),
            place: place.to_owned(),
        });
    }
    let words = format!("labgrid place {place}: {}", words(&output));
    // the client's one code for all failures
    match words.contains("already acquired") {
        true => Err(HoldError::InUse { words }),
        false => Err(HoldError::Failed { words }),
    }
}

impl Drop for Acquired {
    fn drop(&mut self) {
        let released = call(client(self.coordinator.as_deref()).args(["-p", &self.place, "release"]));
        let trouble = match released {
            Ok(output) if output.status.success() => return,
            Ok(output) => words(&output),
            Err(words) => words,
        };
        eprintln!(
            "warning: labgrid place {} is not released: {trouble}; `labgrid-client -p {} release` does it",
            self.place, self.place
        );
    }
}
