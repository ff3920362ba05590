//! How short of memory the system is, and what a runtime does about it.
//!
//! Not here: what is freed (`memory_account`), where Linux reports pressure (`sources`).

use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod sources;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod watch;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[path = "memory_pressure/no_watch.rs"]
mod watch;

pub(crate) use watch::PressureWatch;

/// How short of memory the system is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryPressure {
    /// Memory is becoming scarce.
    Moderate,
    /// The system is about to end processes.
    Critical,
}

impl FromStr for MemoryPressure {
    type Err = Error;

    /// Reads `moderate` or `critical`.
    fn from_str(text: &str) -> Result<MemoryPressure> {
        match text {
            "moderate" => Ok(MemoryPressure::Moderate),
            "critical" => Ok(MemoryPressure::Critical),
            _ => {
                let words = format!("memory pressure {text:?} is not one of moderate, critical");
                Err(Error::new(ErrorKind::BadInput, words))
            }
        }
    }
}

/// What a runtime does when Linux reports memory pressure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnMemoryPressure {
    /// Frees memory as [`Runtime::trim_memory`](crate::Runtime::trim_memory) does, except of sessions that were used
    /// within the last second.
    #[default]
    Follow,
    /// Nothing: the app calls [`Runtime::trim_memory`](crate::Runtime::trim_memory) itself, or never.
    Ignore,
}

impl FromStr for OnMemoryPressure {
    type Err = String;

    /// Reads `follow` or `ignore`.
    fn from_str(text: &str) -> std::result::Result<OnMemoryPressure, String> {
        match text {
            "follow" => Ok(OnMemoryPressure::Follow),
            "ignore" => Ok(OnMemoryPressure::Ignore),
            _ => Err(format!("{text:?} is not one of follow, ignore")),
        }
    }
}
