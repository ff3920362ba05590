//! What parts that nobody measured take: predicted from those that were.
//!
//! Not here: measuring (`profiler`), what plans do with a prediction (`price`).

pub(crate) mod piece;
pub(crate) mod stretch;

pub(crate) use piece::{Content, words};

/// The operating point under which times from submit to outputs are stored, beside times on the device.
pub(crate) fn end_to_end(operating_point: &str) -> String {
    if operating_point.is_empty() {
        END_TO_END.to_owned()
    } else {
        format!("{operating_point} {END_TO_END}")
    }
}

/// What marks such an operating point.
const END_TO_END: &str = "end-to-end";
