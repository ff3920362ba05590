//! What the profile knows of links and launches: a line through the times of tensors of two sizes.
//!
//! Invariant: where nothing was measured, the stated estimate stays.

use polychip_host::Device;
use polychip_partitioner::{Link, Nanos};
use polychip_profile::Profile;

/// Latency and bytes per second of the line through the smallest and the largest tensor.
pub(super) fn fit(points: &[(u64, Nanos)]) -> Option<(Nanos, Option<u64>)> {
    let (&(small, latency), &(large, longest)) = (points.first()?, points.last()?);
    let more = longest.nanoseconds().saturating_sub(latency.nanoseconds());
    let speed = u128::from(large.saturating_sub(small)) * 1_000_000_000 / u128::from(more.max(1));
    let speed = u64::try_from(speed).unwrap_or(u64::MAX);
    Some((latency, (more > 0 && speed > 0).then_some(speed)))
}

/// What the profile knows of starting a run on a device.
pub(crate) fn launch(device: &Device, profile: &Profile) -> Option<Nanos> {
    let identity = device.identity();
    let points = profile.or_nothing(profile.link(&identity, &identity));
    points.first().map(|(_, time)| *time)
}

/// The link with what the profile knows of it.
pub(crate) fn link(from: &Device, to: &Device, stated: Link, profile: &Profile) -> Link {
    let points = profile.or_nothing(profile.link(&from.identity(), &to.identity()));
    fit(&points).map_or(stated, |(latency, speed)| stated.measured(latency, speed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_two_sizes() {
        let ns = Nanos::from_nanoseconds;
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&[(0, ns(7))]), Some((ns(7), None)));
        // 4,000 bytes more in 1 µs
        let slope = fit(&[(1_000, ns(500)), (5_000, ns(1_500))]);
        assert_eq!(slope, Some((ns(500), Some(4_000_000_000))));
        // noise: the larger one was faster
        assert_eq!(fit(&[(1_000, ns(500)), (5_000, ns(400))]), Some((ns(500), None)));
    }

    #[test]
    fn a_measured_link_replaces_the_estimate_and_says_so() {
        let profile = Profile::in_memory().unwrap();
        let ns = Nanos::from_nanoseconds;
        profile.record_link("a", "b", 1_000, ns(500)).unwrap();
        profile.record_link("a", "b", 5_000, ns(1_500)).unwrap();
        profile.record_link("a", "b", 5_000, ns(2_500)).unwrap();
        assert_eq!(
            profile.link("a", "b").unwrap(),
            [(1_000, ns(500)), (5_000, ns(2_500))]
        );
        assert!(profile.link("b", "a").unwrap().is_empty());
    }
}
