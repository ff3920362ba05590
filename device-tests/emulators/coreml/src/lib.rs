//! An emulated Core ML: a small Objective-C runtime with the classes that a plugin uses, a reader of packages that was
//! written apart from our writer, and the chip's answers by the scalar reference.
//!
//! Invariants:
//! 1. Everything is decoded from the bytes of a package; nothing here knows the plugin.
//! 2. A package that breaks a rule of its format or of an op's types is refused with words that say where.
//! 3. Objects are counted: what a client forgets to release is seen in [`objc`]'s count of live objects.
//! 4. Figures of time are those of a table with sources, and are emulated.
//!
//! Not here: classes that no client of ours sends messages to; exceptions, which end the process, as they would there.

#![deny(unsafe_code)]
#![allow(non_snake_case, reason = "the library's own name")]

mod objc;
mod package;
mod program;
mod world;
