//! Classes of runs, and settings of a queue.

/// The priority class of runs. Parts of a higher class go before those of a lower one, regardless
/// of deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Class {
    /// A user waits: a camera frame, speech.
    Urgent,
    /// The default.
    #[default]
    Normal,
    /// Work without urgency.
    Background,
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = 3;
    /// All, the highest first.
    pub const ALL: [Class; Class::COUNT] = [Class::Urgent, Class::Normal, Class::Background];

    /// The word in reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Class::Urgent => "urgent",
            Class::Normal => "normal",
            Class::Background => "background",
        }
    }

    /// Its index in [`Class::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Settings of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Number of parts that may be with the device at once: 1, or 2 to hide the launch of the next
    /// part, or as many as the device computes concurrently. A further part waits for one of them
    /// to end.
    pub in_flight: usize,
    /// Number of parts, waiting or with the device, for which memory is allocated in advance.
    pub capacity: usize,
    /// Guaranteed share of the device's time by class, in thousandths. The share of the highest
    /// class is ignored; 0 guarantees nothing.
    ///
    /// A class with a waiting part earns its share of the passing time, up to the expected time of
    /// its next part, and pays for all device time that it gets. Once it has earned its next part,
    /// that part goes before higher classes. So a class that gets its share in its own turn never
    /// goes before another one.
    pub share_permille: [u16; Class::COUNT],
    /// Longest time until the device has preempted a part for one of a more urgent class, in
    /// nanoseconds; `u64::MAX` if it preempts within an unknown time; none if it does not preempt,
    /// or that is unknown.
    ///
    /// If it preempts, a part does not wait for places held by less urgent classes, and a preempted
    /// part continues once nothing more urgent is with the device. A share then helps only parts
    /// that wait while the device is empty; a preempted part may wait for more urgent ones without
    /// bound.
    pub preemption_ns: Option<u64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            in_flight: 1,
            capacity: 256,
            share_permille: [0, 100, 50],
            preemption_ns: None,
        }
    }
}

impl Settings {
    /// Upper bound of the device time that `class` takes before higher classes in any interval of
    /// `interval_ns`, if none of its parts takes longer than `longest_ns`, or than expected: share
    /// × interval + one part. An admission test adds this bound to the demand of a higher class,
    /// for each lower class that has parts, in addition to the part that had already begun.
    #[must_use]
    pub fn out_of_turn_bound_ns(&self, class: Class, longest_ns: u64, interval_ns: u64) -> u64 {
        if class == Class::Urgent || self.share_permille[class.index()] == 0 {
            return 0;
        }
        let share = u128::from(self.share_permille[class.index()]);
        let earned = (u128::from(interval_ns) * share).div_ceil(1000);
        u64::try_from(earned)
            .unwrap_or(u64::MAX)
            .saturating_add(longest_ns)
    }

    /// Upper bound of the wait of the first part of `class`, if it is expected to take
    /// `expected_ns` and no part of any class takes longer than `longest_ns` or than expected:
    /// first until its class has earned the part, then for the parts with the device and one earned
    /// part of each lower class. Unbounded without a guaranteed share, or on a preemptive device.
    #[must_use]
    pub fn longest_wait_ns(&self, class: Class, expected_ns: u64, longest_ns: u64) -> u64 {
        let share = u128::from(self.share_permille[class.index()]);
        if share == 0 || self.preemption_ns.is_some() {
            return u64::MAX;
        }
        let earned = (u128::from(expected_ns) * 1000).div_ceil(share);
        let before = longest_ns.saturating_mul((self.in_flight.max(1) + Class::COUNT - 2) as u64);
        u64::try_from(earned).unwrap_or(u64::MAX).saturating_add(before)
    }
}
