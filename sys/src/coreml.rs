//! Apple's Core ML: Objective-C by `dlopen`, and the classes of Foundation and Core ML that a plugin needs.
//!
//! Messages are typed casts of `objc_msgSend`; there is no header to bind and nothing to link, so that the same code
//! is compiled and tested on every system.
//!
//! Invariants:
//! 1. No call is made that raises an Objective-C exception on bad input: only those that give an `NSError`, over
//!    arguments that were checked before.
//! 2. No message returns a struct, which would take another entry on x86_64.
//! 3. Objects are held by a count of their own; what a call autoreleases goes with the pool of that call.
//!
//! Not here: packages of models, which compute unit gets what.
//! Start reading at [`Library`], then [`Model`].

mod block;
mod foundation;
mod library;
mod model;
mod object;
mod plan;

pub use foundation::Failure;
pub use library::{CLASSES, Error, Library, MESSAGES, OLDEST};
pub use model::{Array, DataType, Features, Found, Model, Options, Units};
pub use object::Object;
pub use plan::{Planned, Preferred};
