//! Apple's Core ML: Objective-C through `dlopen`, and the classes of Foundation and Core ML that a
//! plugin needs.
//!
//! Messages are typed casts of `objc_msgSend`. There is no header to bind and nothing to link, so
//! the same code is compiled and tested on every system.
//!
//! Invariants:
//! 1. No call is made that raises an Objective-C exception on bad input: only calls that report an
//!    `NSError`, with arguments that were checked before.
//! 2. No message returns a struct, which would need another entry point on x86_64.
//! 3. Objects are retained explicitly; objects that a call autoreleases are released with that
//!    call's pool.
//!
//! Not here: model packages, assignment of work to compute units. Start reading at [`Library`],
//! then [`Model`].

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
