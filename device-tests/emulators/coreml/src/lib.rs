//! An emulator of Core ML: a small Objective-C runtime with the classes that the plugin uses, and a
//! reader of packages that shares no code with the plugin's writer. The scalar reference computes
//! the outputs.
//!
//! Invariants:
//! 1. Everything is decoded from the bytes of a package, without knowledge of the plugin.
//! 2. A package that violates its format or the types of an op is refused; the error names the
//!    place.
//! 3. Objects are counted: an object that a client does not release remains in [`objc`]'s count of
//!    live objects.
//! 4. Times come from a table with sources, and are labelled emulated.
//!
//! Not here: classes to which our plugin sends no messages. An exception ends the process, as on a
//! real system.

#![deny(unsafe_code)]
#![allow(non_snake_case, reason = "the library's own name")]

mod objc;
mod package;
mod program;
mod world;
