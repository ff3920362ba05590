//! A kernel in the making: what all that writes of it shares.

use std::collections::BTreeMap;

use naga::{Module, TypeInner};
use polychip_sdk::{Error, Result};

/// How a device computes on 16-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Half {
    /// In its own arithmetic: `cl_khr_fp16`.
    Native,
    /// It stores them; the arithmetic is that of 32-bit floats, rounded where the text converts and stores.
    Stored,
}

/// What this writer does not know.
pub(super) fn unknown<T>(what: impl std::fmt::Display) -> Result<T> {
    Err(Error::unsupported(format!("not written in OpenCL C: {what}")))
}

/// A kernel in the making.
pub(super) struct Writer<'a> {
    pub(super) module: &'a Module,
    pub(super) half: Half,
    /// Names and declarations of types, each after those that it is made of.
    pub(super) declared: Vec<(String, String)>,
    /// Functions of ours that the text calls, by name.
    pub(super) functions: BTreeMap<String, String>,
}

/// Whether a value goes to and from functions by its address: pocl 3.1 loses parts of structs that go by value.
pub(super) fn is_whole(inner: &TypeInner) -> bool {
    matches!(inner, TypeInner::Struct { .. } | TypeInner::Array { .. })
}
