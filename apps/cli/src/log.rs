//! The library's log on standard error.
//!
//! Invariant: an invalid filter is an error.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::exit::usage;

/// The variable with the log filter.
const VARIABLE: &str = "POLYCHIP_LOG";

/// Logs as `POLYCHIP_LOG` requests; without it, warnings, and more for each `-v`.
///
/// # Errors
/// The variable is no filter.
pub(crate) fn listen(verbose: u8) -> anyhow::Result<()> {
    let asked = std::env::var(VARIABLE)
        .ok()
        .filter(|text| !text.trim().is_empty());
    let filter = filter(asked.as_deref(), verbose)?;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer()?)
        .with_ansi(anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never)
        .without_time();
    // a program that has this library may listen already
    let _ = tracing_subscriber::registry().with(lines).with(filter).try_init();
    Ok(())
}

/// Standard error, also while that of vendors' libraries is withheld.
#[cfg(unix)]
fn writer() -> anyhow::Result<std::sync::Arc<std::fs::File>> {
    Ok(std::sync::Arc::new(crate::vendor_output::own_stderr()?))
}

#[cfg(not(unix))]
fn writer() -> anyhow::Result<fn() -> std::io::Stderr> {
    Ok(std::io::stderr)
}

fn filter(asked: Option<&str>, verbose: u8) -> anyhow::Result<Targets> {
    let Some(text) = asked else {
        return Ok(Targets::new().with_default(match verbose {
            0 => LevelFilter::WARN,
            1 => LevelFilter::INFO,
            2 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }));
    };
    text.parse().map_err(|error| {
        usage(format!(
            "{VARIABLE}={text}: {error}; write a level (off, error, warn, info, debug, trace) or PART=LEVEL, separated by commas"
        ))
    })
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::LevelFilter;

    use super::*;

    #[test]
    fn log_variable_overrides_verbosity() {
        let default = |asked, verbose| filter(asked, verbose).unwrap().default_level();
        assert_eq!(default(None, 0), Some(LevelFilter::WARN));
        assert_eq!(default(None, 1), Some(LevelFilter::INFO));
        assert_eq!(default(None, 9), Some(LevelFilter::TRACE));
        assert_eq!(default(Some("error"), 2), Some(LevelFilter::ERROR));
        let words = filter(Some("polychip=loud"), 0).unwrap_err().to_string();
        assert!(
            words.contains("POLYCHIP_LOG=polychip=loud") && words.contains("PART=LEVEL"),
            "{words}"
        );
    }
}
