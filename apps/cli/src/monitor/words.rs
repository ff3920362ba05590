//! Formatted figures.
//!
//! Invariant: each figure has its unit.

/// Milliwatts as watts.
pub(super) fn in_watts(mw: i64) -> String {
    format!("{:.1} W", mw as f64 / 1e3)
}

/// Nanoseconds as milliseconds, with as many digits as say something.
pub(super) fn in_ms(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    match ms {
        _ if ms < 1.0 => format!("{ms:.3} ms"),
        _ if ms < 10.0 => format!("{ms:.2} ms"),
        _ => format!("{ms:.1} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_show_significant_digits() {
        let words = [123_456, 1_234_567, 12_345_678, 1_234_567_890].map(in_ms);
        assert_eq!(words, ["0.123 ms", "1.23 ms", "12.3 ms", "1234.6 ms"]);
    }
}
