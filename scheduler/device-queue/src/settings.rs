//! Classes of runs, and how a queue treats them.

/// Which runs go first. Parts of a higher class go before those of a lower one, whatever their deadlines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Class {
    /// Somebody waits: a frame of a camera, a voice.
    Urgent,
    /// What is not said to be anything else.
    #[default]
    Normal,
    /// What may take its time.
    Background,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 3;
    /// All, the highest first.
    pub const ALL: [Class; Class::COUNT] = [Class::Urgent, Class::Normal, Class::Background];

    /// The word of reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Class::Urgent => "urgent",
            Class::Normal => "normal",
            Class::Background => "background",
        }
    }

    /// Its place in [`Class::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// How a queue is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Places of the device: parts that are with it at once. 1, or 2 so that it need not wait for the next launch, or as
    /// many as it computes beside each other. A part that comes waits for those that are there already.
    pub in_flight: usize,
    /// Parts, waiting or with the device, for which there is room from the beginning.
    pub capacity: usize,
    /// By class, the share of the device's time that it is guaranteed, in thousandths. That of the highest class means
    /// nothing; 0 guarantees nothing.
    ///
    /// A class of which a part waits earns its share of the time that passes, at most what its next part is expected to
    /// take, and pays for all device time that it gets. One that has earned its next part gets it before higher
    /// classes. So a class that gets its share in its own turn never goes before another one.
    pub share_permille: [u16; Class::COUNT],
    /// Longest time until the device has interrupted what it had begun for a part of a more urgent class, in nanoseconds;
    /// `u64::MAX` where it does so after nobody knows how long; none where it does not, or that is not known.
    ///
    /// Where it does, a part waits for no place that a less urgent class has, and what was interrupted goes on once nothing
    /// more urgent is with the device. A share then helps parts that wait while the device has nothing: one that was
    /// interrupted waits for more urgent ones without end.
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
    /// The most device time that `class` takes before higher classes in any interval of `interval_ns`, where none of
    /// its parts takes longer than `longest_ns`, or than it was expected to: share x interval + one part. An admission
    /// test adds this, for each lower class that has parts, to the demand of a higher one, besides the one part that
    /// was begun before.
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

    /// The longest that the first part of `class` waits, where it is expected to take `expected_ns` and no part of any
    /// class takes longer than `longest_ns` or than expected: until its class has earned it, then for what is with the
    /// device and a part of each lower class that has earned one too. Without an end where nothing is guaranteed, or the
    /// device interrupts parts.
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
