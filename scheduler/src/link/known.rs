//! Links and launches from the profile: lines through the times and energies of tensors of two
//! sizes.
//!
//! Invariant: without a measurement the stated estimate stays.

use polychip_host::Device;
use polychip_partitioner::{Energy, Link, Provenance, Time};
use polychip_profile::{LinkCost, Profile};

/// Latency and bytes per second of the line through the smallest and the largest tensor.
pub(super) fn fit(points: &[(u64, LinkCost)]) -> Option<(Time, Option<u64>)> {
    let (&(small, first), &(large, last)) = (points.first()?, points.last()?);
    let (latency, longest) = (first.time, last.time);
    let more = longest.nanoseconds().saturating_sub(latency.nanoseconds());
    let speed = u128::from(large.saturating_sub(small)) * 1_000_000_000 / u128::from(more.max(1));
    let speed = u64::try_from(speed).unwrap_or(u64::MAX);
    Some((latency, (more > 0 && speed > 0).then_some(speed)))
}

/// Fixed energy, and energy of a thousand bytes, of the line through the smallest and the largest tensor of which the energy
/// was measured; one alone says nothing of size.
pub(super) fn fit_energy(points: &[(u64, LinkCost)]) -> Option<(Energy, Energy)> {
    let mut known = points
        .iter()
        .filter_map(|(bytes, cost)| Some((*bytes, cost.energy?)));
    let (small, fixed) = known.next()?;
    let (large, most) = known.next_back()?;
    let more = u128::from(most.saturating_sub(fixed).nanojoules());
    let per_kilobyte = (more * 1000).div_ceil(u128::from((large - small).max(1)));
    let per_kilobyte = u64::try_from(per_kilobyte).unwrap_or(u64::MAX);
    Some((fixed, Energy::from_nanojoules(per_kilobyte)))
}

/// What the profile knows of starting a run on a device.
pub(crate) fn launch(device: &Device, profile: &Profile) -> Option<LinkCost> {
    let identity = device.identity();
    let points = profile.or_nothing(profile.link(&identity, &identity));
    points.first().map(|(_, cost)| *cost)
}

/// The link with what the profile knows of it.
pub(crate) fn link(from: &Device, to: &Device, stated: Link, profile: &Profile) -> Link {
    let points = profile.or_nothing(profile.link(&from.identity(), &to.identity()));
    let timed = fit(&points).map_or(stated, |(latency, speed)| stated.measured(latency, speed));
    fit_energy(&points).map_or(timed, |(fixed, per_kilobyte)| {
        timed.with_energy(fixed, per_kilobyte, Provenance::Measured)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sizes_determine_a_line() {
        let ns = Time::from_nanoseconds;
        let cost = |time| LinkCost::of_time(ns(time));
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&[(0, cost(7))]), Some((ns(7), None)));
        // 4,000 bytes more in 1 µs
        let slope = fit(&[(1_000, cost(500)), (5_000, cost(1_500))]);
        assert_eq!(slope, Some((ns(500), Some(4_000_000_000))));
        // noise: the larger one was faster
        assert_eq!(
            fit(&[(1_000, cost(500)), (5_000, cost(400))]),
            Some((ns(500), None))
        );
    }

    #[test]
    fn energies_form_a_line_between_measured_sizes() {
        let nj = Energy::from_nanojoules;
        let cost = |energy: Option<u64>| LinkCost {
            time: Time::from_nanoseconds(1),
            energy: energy.map(nj),
        };
        assert_eq!(fit_energy(&[(0, cost(None)), (9, cost(Some(1)))]), None);
        let line = fit_energy(&[
            (1_000, cost(Some(50))),
            (2_000, cost(None)),
            (5_000, cost(Some(90))),
        ]);
        assert_eq!(line, Some((nj(50), nj(10))));
        // noise: the larger one took less
        let line = fit_energy(&[(1_000, cost(Some(50))), (5_000, cost(Some(40)))]);
        assert_eq!(line, Some((nj(50), nj(0))));
    }

    #[test]
    fn measured_link_replaces_the_estimate() {
        let profile = Profile::in_memory();
        let ns = Time::from_nanoseconds;
        let cost = |time, energy: Option<u64>| LinkCost {
            time: ns(time),
            energy: energy.map(Energy::from_nanojoules),
        };
        profile.record_link("a", "b", 1_000, cost(500, Some(9))).unwrap();
        profile.record_link("a", "b", 5_000, cost(1_500, None)).unwrap();
        profile
            .record_link("a", "b", 5_000, cost(2_500, Some(11)))
            .unwrap();
        // a time alone leaves the energy
        profile.record_link("a", "b", 1_000, cost(600, None)).unwrap();
        assert_eq!(
            profile.link("a", "b").unwrap(),
            [(1_000, cost(600, Some(9))), (5_000, cost(2_500, Some(11)))]
        );
        assert!(profile.link("b", "a").unwrap().is_empty());
    }
}
