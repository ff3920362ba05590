//! Reads the text of a picture: a detector finds the lines and a recogniser reads them, each in its own session.
//!
//! Start reading at [`Reader::read`]; `main.rs` is the program around it.

#![forbid(unsafe_code)]

mod detector;
mod picture;
mod reader;
mod recogniser;

pub use detector::Detector;
pub use picture::{Area, Picture};
pub use reader::{Page, Reader, Times};
pub use recogniser::{Line, Recogniser};
