//! The operating points under which times from submit to outputs are stored, beside times on the
//! device.

/// What marks the operating point under which times from submit to outputs are stored.
const END_TO_END: &str = "end-to-end";

/// The operating point under which times from submit to outputs are stored, beside times on the device.
pub fn end_to_end(operating_point: &str) -> String {
    if operating_point.is_empty() {
        END_TO_END.to_owned()
    } else {
        format!("{operating_point} {END_TO_END}")
    }
}

/// The operating point of the device, where this is one of times from submit to outputs.
pub(crate) fn on_device(operating_point: &str) -> Option<&str> {
    operating_point.strip_suffix(END_TO_END).map(str::trim_end)
}

/// Whether times from submit to outputs are stored under this operating point.
pub(crate) fn is_end_to_end(operating_point: &str) -> bool {
    on_device(operating_point).is_some()
}
