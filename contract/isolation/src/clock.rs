//! The host's clock in the child: an offset to the machine's monotonic clock, or virtual time.

use rustix::time::{ClockId, clock_gettime};

/// The machine's monotonic clock, which is the same in every process, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Offset from the monotonic clock to `now`, or `None` if `now` does not advance with it, because it
/// is virtual.
pub(crate) fn offset_ns(now: impl Fn() -> u64) -> Option<i64> {
    // each sample bounds the offset; a virtual clock, which stands, leaves no common offset
    let (mut lowest, mut highest) = (i64::MIN, i64::MAX);
    let begun = monotonic_ns();
    let mut last = begun;
    while last < begun + 200_000 {
        let before = monotonic_ns();
        let host = now();
        let after = monotonic_ns();
        lowest = lowest.max(host.wrapping_sub(after) as i64);
        highest = highest.min(host.wrapping_sub(before) as i64);
        last = after;
    }
    (lowest <= highest).then_some(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_is_found_and_a_standing_clock_has_none() {
        let start = monotonic_ns() - 5_000;
        let offset = offset_ns(|| monotonic_ns() - start).unwrap();
        assert!((-(start as i64)..-(start as i64) + 1_000_000).contains(&offset));
        assert_eq!(offset_ns(|| 77), None);
    }
}
