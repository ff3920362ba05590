//! LiteRT's compiler plugins as witnesses: independent clients of vendor libraries that drive our emulators.
//!
//! Each vendor's is a test of its own (`tests/qnn`, `tests/neuron`), which says in a [`Vendor`] what is particular to it.
//!
//! Not here: finding and running LiteRT (`polychip_device_tests::litert`), the models of one op (`device-tests/witness/litert`).
//! Start reading at `client`.

#![forbid(unsafe_code)]

pub mod calls;
pub mod client;
pub mod models;
pub mod ours;

use std::path::Path;

use anyhow::Result;
use polychip::Runtime;

/// A vendor: LiteRT's plugin for it, our emulator of its library, and our plugin.
#[derive(Debug)]
pub struct Vendor {
    /// The test's name, which files of expectations hold too.
    pub suite: &'static str,
    /// As LiteRT calls the vendor: `Qualcomm`.
    pub manufacturer: &'static str,
    /// The folder of LiteRT's plugin: `qualcomm`.
    pub plugin: &'static str,
    /// Chips that models are compiled for, as LiteRT calls them; of calls, those for `soc` are compared.
    pub socs: &'static [&'static str],
    /// One of them.
    pub soc: &'static str,
    /// The variable that names the file for the emulator's record of calls.
    pub trace: &'static str,
    /// Puts the emulated libraries into a folder, under all names that LiteRT's plugin asks for.
    pub libraries: fn(&Path) -> Result<()>,
    /// A runtime with our plugin on the libraries of a folder, for `soc`.
    pub runtime: fn(&Path) -> Result<Runtime>,
    /// Its device.
    pub device: &'static str,
    /// The operations of a record that were compiled, as a text without what clients may choose: names and numbers.
    pub operations: fn(&str) -> Result<String>,
    /// Of a record, how many graphs were compiled, and how many binaries taken.
    pub compiled: fn(&str) -> Result<(usize, usize)>,
}
