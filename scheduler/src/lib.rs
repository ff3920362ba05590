//! Runs one neural-network model across every chip of a device: the crate that apps integrate.

#![forbid(unsafe_code)]

mod error;
mod profile;

pub use error::{Error, ErrorKind, Result};
pub use profile::{Measurement, PartKey, Profile, Summary};
