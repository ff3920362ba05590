//! The vendor's libraries as one plugin instance uses them.
//!
//! Start reading at [`Session`].

#![allow(unsafe_code, reason = "the vendor's library is called here")]

mod context;
mod library;
mod log;
mod memory;
mod power;
mod raw;

pub(crate) use context::{Compiled, Context, PortOf};
pub(crate) use library::{Refused, Session};
pub(crate) use memory::{Range, Registered};
pub(crate) use power::{MODES, Mode, Power, Votes};
