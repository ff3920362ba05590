//! Maps errors to messages and exit codes.
//!
//! Invariant: every failure has one exit code of the contract and one message on standard error, with a remedy if a
//! general one exists.

use std::fmt;

use clap::builder::styling::{AnsiColor, Style};
use polychip::ErrorKind;

/// Styles of message prefixes on a terminal without NO_COLOR.
const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HELP: Style = AnsiColor::Cyan.on_default().bold();

/// Prints a warning.
pub(crate) fn warn(words: impl fmt::Display) {
    anstream::eprintln!("{WARNING}warning:{WARNING:#} {words}");
}

/// Exit codes for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// A requested gate failed: a plan, values, a profile or farm figures differ.
    Differs = 1,
    /// The command line is invalid.
    Usage = 2,
    /// The model, an input or another given file is bad.
    BadInput = 3,
    /// No device could run the model.
    NoDevice = 4,
    /// A device failed.
    DeviceFailed = 5,
}

/// A failure found by the command line itself.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// An error with this code.
pub(crate) fn failure(code: Code, message: impl fmt::Display) -> anyhow::Error {
    Failure {
        code,
        message: message.to_string(),
    }
    .into()
}

/// An error about the command line.
pub(crate) fn usage(message: impl fmt::Display) -> anyhow::Error {
    failure(Code::Usage, message)
}

/// An error about a model, an input or another file.
pub(crate) fn bad_input(message: impl fmt::Display) -> anyhow::Error {
    failure(Code::BadInput, message)
}

/// An error, or help, from the command line parser.
pub(crate) fn said(error: clap::Error) -> anyhow::Error {
    error.into()
}

/// The exit code of an error, and the general remedy for its kind.
fn classify(error: &anyhow::Error) -> (Code, Option<&'static str>) {
    for cause in error.chain() {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return (failure.code, None);
        }
        if let Some(error) = cause.downcast_ref::<polychip::Error>() {
            let (code, remedy) = of_kind(error.kind());
            // the error of another model format includes its remedy
            let is_own = error.kind() == ErrorKind::BadModel && std::error::Error::source(error).is_none();
            return (code, remedy.filter(|_| !is_own));
        }
        #[cfg(feature = "llm")]
        if let Some(error) = cause.downcast_ref::<polychip_llm::Error>() {
            let remedy = match error.kind() {
                polychip_llm::ErrorKind::Room => Some("raise the context length with `--context TOKENS`"),
                _ => None,
            };
            return error
                .of_run()
                .map_or((Code::BadInput, remedy), |error| of_kind(error.kind()));
        }
        if let Some(error) = cause.downcast_ref::<polychip::ProfileError>() {
            return match error.kind() {
                polychip::ProfileErrorKind::Io => of_kind(ErrorKind::Io),
                _ => of_kind(ErrorKind::BadProfile),
            };
        }
        if cause.downcast_ref::<polychip_partitioner::Error>().is_some() {
            return (Code::BadInput, None);
        }
    }
    (Code::Usage, None)
}

fn of_kind(kind: ErrorKind) -> (Code, Option<&'static str>) {
    match kind {
        ErrorKind::NoDevice => (
            Code::NoDevice,
            Some("`polychip inspect MODEL` lists what each device does not support, and why"),
        ),
        ErrorKind::BadPlugin => (
            Code::NoDevice,
            Some("`polychip devices` lists the devices, and the unused plugins with the reason"),
        ),
        ErrorKind::DeviceFailed => (
            Code::DeviceFailed,
            Some("`--devices LIST` chooses other devices; `polychip devices` lists them"),
        ),
        ErrorKind::DeviceLost | ErrorKind::Timeout => (
            Code::DeviceFailed,
            Some("reset the device, or choose others with `--devices LIST`"),
        ),
        ErrorKind::OutOfMemory => (
            Code::DeviceFailed,
            Some("raise the limit with `--memory-limit BYTES`, or free memory"),
        ),
        ErrorKind::InFlight | ErrorKind::Cancelled | ErrorKind::Dropped => (Code::DeviceFailed, None),
        ErrorKind::BadPlan => (
            Code::BadInput,
            Some("`polychip partition MODEL -o PLAN` makes a new plan"),
        ),
        ErrorKind::BadProfile => (
            Code::BadInput,
            Some("the file is left unchanged; choose another one with `--profile FILE`"),
        ),
        ErrorKind::BadModel => (
            Code::BadInput,
            Some("export the model again, or check it with the tool that made it"),
        ),
        _ => (Code::BadInput, None),
    }
}

/// The message with each cause that is not already part of it.
fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
    }
    text
}

/// Prints the error and returns its exit code.
pub(crate) fn report(error: &anyhow::Error) -> u8 {
    // usage errors and help, with clap's exit codes 2 and 0
    if let Some(said) = error.downcast_ref::<clap::Error>() {
        // ignore a closed standard error
        let _ = said.print();
        return u8::try_from(said.exit_code()).unwrap_or(2);
    }
    let is_closed_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(is_closed_pipe) {
        // the reader closed our output
        return 0;
    }
    let (code, remedy) = classify(error);
    anstream::eprintln!("{ERROR}error:{ERROR:#} {}", message(error));
    if let Some(remedy) = remedy {
        anstream::eprintln!("{HELP}help:{HELP:#} {remedy}");
    }
    code as u8
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_cause_is_printed_once() {
        let cause = std::io::Error::other("disk is full");
        let error = anyhow::Error::from(cause).context("x.npy");
        assert_eq!(message(&error), "x.npy: disk is full");
        let error = anyhow::Error::from(std::io::Error::other("disk is full")).context("x.npy: disk is full");
        assert_eq!(message(&error), "x.npy: disk is full");
    }

    #[test]
    fn a_context_keeps_the_code_of_its_cause() {
        let error = Err::<(), _>(bad_input("wrong shape"))
            .context("input x")
            .unwrap_err();
        assert_eq!(classify(&error).0, Code::BadInput);
        assert_eq!(classify(&usage("no")).0, Code::Usage);
    }
}
