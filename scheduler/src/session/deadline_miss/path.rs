//! The breakdown of a run's time along its critical path, from the part that ended last back to the
//! submit.
//!
//! Invariant: nothing is allocated; each part of the path waits for the one before it.

use polychip_host::Timing;

/// The time of a critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Spent {
    /// For turns, and in the queues of devices, behind other runs.
    pub(crate) queued_ns: u64,
    /// Between parts: transfers, copies, and until the first one was with its device.
    pub(crate) between_ns: u64,
    /// Predicted time of its parts.
    pub(crate) predicted_ns: u64,
    /// The part that took most time beyond its prediction: its number, how much, and all that it took.
    pub(crate) slowest: Option<(usize, u64, u64)>,
}

/// The part that ended last, and when; none where a part does not say.
pub(crate) fn last(timings: &[Timing]) -> Option<(usize, u64)> {
    let mut last: Option<(usize, u64)> = None;
    for (part, timing) in timings.iter().enumerate() {
        let (_, end) = timing.span_ns?;
        if last.is_none_or(|(_, other)| end > other) {
            last = Some((part, end));
        }
    }
    last
}

/// The critical path of a run that began at `begun_ns`; none where a part does not state its time. `after` are the parts
/// that end before each part starts; `waited_ns` is how long a part waited for its turn on its device.
pub(crate) fn spent(
    timings: &[Timing],
    after: &[Vec<usize>],
    predicted: impl Fn(usize) -> u64,
    waited_ns: impl Fn(usize) -> u64,
    begun_ns: u64,
) -> Option<Spent> {
    let (mut part, _) = last(timings)?;
    let mut spent = Spent::default();
    // as many steps at most, whatever `after` holds
    for _ in 0..timings.len() {
        let (start, end) = timings[part].span_ns?;
        let ends = after[part].iter().filter_map(|&before| {
            let (_, end) = timings[before].span_ns?;
            Some((end, before))
        });
        let before = ends.max();
        let ready = before.map_or(begun_ns, |(end, _)| end);
        let entered = timings[part]
            .queued_ns
            .map_or(ready, |queued| queued.max(ready))
            .min(start);
        let until_entered = entered.saturating_sub(ready);
        // for its turn, before the device knew of it
        let waited = waited_ns(part).min(until_entered);
        spent.between_ns += until_entered - waited;
        spent.queued_ns += waited + start.saturating_sub(entered.max(ready));
        let (took, expected) = (end.saturating_sub(start), predicted(part));
        spent.predicted_ns = spent.predicted_ns.saturating_add(expected);
        let over = took.saturating_sub(expected);
        if over > 0 && spent.slowest.is_none_or(|(_, most, _)| over > most) {
            spent.slowest = Some((part, over, took));
        }
        match before {
            Some((_, before)) => part = before,
            None => break,
        }
    }
    Some(spent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(queued: u64, start: u64, end: u64) -> Timing {
        Timing {
            queued_ns: Some(queued),
            span_ns: Some((start, end)),
            ..Timing::default()
        }
    }

    #[test]
    fn critical_path_covers_the_run_time() {
        // 0 and 1 at once, then 2, which waits for 1 and in its device's queue
        let timings = [part(5, 5, 20), part(6, 10, 50), part(58, 70, 100)];
        let after = [vec![], vec![], vec![0, 1]];
        let predicted = |part: usize| [15, 30, 30][part];
        let found = spent(&timings, &after, predicted, |_| 0, 2).unwrap();
        assert_eq!(
            found,
            Spent {
                between_ns: 4 + 8,
                queued_ns: 4 + 12,
                predicted_ns: 60,
                slowest: Some((1, 10, 40)),
            }
        );
        let busy = 40 + 30;
        assert_eq!(found.between_ns + found.queued_ns + busy, 100 - 2);
        assert_eq!(last(&timings), Some((2, 100)));
    }

    #[test]
    fn early_queued_part_waits_only_once_ready() {
        let timings = [part(0, 0, 40), part(0, 45, 60)];
        let found = spent(&timings, &[vec![], vec![0]], |_| 100, |_| 0, 0).unwrap();
        assert_eq!((found.queued_ns, found.between_ns, found.slowest), (5, 0, None));
    }

    #[test]
    fn waiting_for_a_grant_counts_as_queued() {
        let timings = [part(0, 0, 40), part(70, 75, 90)];
        let found = spent(&timings, &[vec![], vec![0]], |_| 100, |part| [0, 25][part], 0).unwrap();
        assert_eq!((found.queued_ns, found.between_ns), (25 + 5, 5));
    }

    #[test]
    fn device_without_times_has_no_path() {
        let timings = [part(0, 0, 40), Timing::default()];
        assert_eq!(spent(&timings, &[vec![], vec![0]], |_| 1, |_| 0, 0), None);
        assert_eq!(last(&timings), None);
        assert_eq!(last(&[]), None);
    }
}
