//! Replacing a stand-in by the plan for all devices.
//!
//! Not here: the thread that calls it (`background`), how a specialisation is made (`making`).

use std::sync::atomic::Ordering;

use super::Open;
use crate::event::{Event, EventKind};
use crate::session::buckets::Sizes;

impl Open {
    /// Makes the plan for all devices for these sizes and replaces the stand-in; a failure is an
    /// event of the stand-in.
    pub(super) fn take_over(&self, sizes: &Sizes) {
        let made = match self.make(sizes, &self.policy, &self.answers) {
            Ok(made) => made,
            Err(error) => {
                return self.not_planned(sizes, error.device().unwrap_or_default(), error.to_string());
            }
        };
        let mut kept = self.lock();
        let mut before = None;
        let place = kept.all.iter().position(|one| one.sizes == *sizes);
        let runs = place.map(|place| {
            let one = kept.all.swap_remove(place);
            let (used, runs) = (
                one.used,
                one.runs_before + one.special.inner.runs.load(Ordering::Relaxed),
            );
            before = Some(one);
            (used, runs)
        });
        made.special
            .inner
            .tell(made.event(runs.map_or(0, |(_, runs)| runs)));
        self.enter(&mut kept, sizes, made, false);
        if let (Some((used, runs)), Some(last)) = (runs, kept.all.last_mut()) {
            (last.used, last.runs_before) = (used, runs);
        }
        self.took_over.fetch_add(1, Ordering::Relaxed);
        let dropped = self.shrink(&mut kept, self.policy.most_kept_bytes());
        drop(kept);
        self.made.notify_all();
        // without the lock: what is let go of waits for its last runs
        drop((before, dropped));
    }

    /// Notes why the plan for all devices was not made, as an event of the stand-in.
    pub(super) fn not_planned(&self, sizes: &Sizes, device: &str, words: String) {
        let event = Event::new(EventKind::NotPlanned, device, 0, words);
        let kept = self.lock();
        match kept.all.iter().find(|one| one.sizes == *sizes) {
            Some(one) => one.special.inner.tell(event),
            None => tracing::warn!("{event}"),
        }
        drop(kept);
        self.made.notify_all();
    }
}
