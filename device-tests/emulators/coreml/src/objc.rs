//! The Objective-C runtime: classes, messages, reference counts, autorelease pools.
//!
//! An object starts with a pointer to its class; the rest is our own format. A message is looked up
//! by its name in the receiver's class. A message to null returns zero.
//!
//! Invariant: an object lives until its reference count is 0. A list holds references to its
//! elements.
//!
//! Start reading at `object`, then `send`, then `classes`.

mod classes;
mod export;
mod foundation;
mod model;
mod object;
mod plan;
mod send;
