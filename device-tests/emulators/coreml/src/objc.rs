//! The Objective-C runtime: classes, messages, counts, pools.
//!
//! An object starts with its class; the rest is ours. A message is looked up by its name among the methods of the
//! receiver's class; a receiver of null gives zero.
//!
//! Invariant: an object lives as long as its count, which counts every holder, a list that holds it included.
//!
//! Start reading at `object`, then `send`, then `classes`.

mod classes;
mod export;
mod foundation;
mod model;
mod object;
mod plan;
mod send;
