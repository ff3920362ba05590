//! The objective of a plan: time, energy, or a weighted sum, with limits; serial or with concurrent
//! devices.
//!
//! Invariants: an objective is a whole number,
//! `time weight × picoseconds + energy weight × nanojoules`, so two plans compare the same way on
//! every host; limits do not enter the weighted sum. Deliberately not here: how limits are held
//! (`limit`), and sensor readings at run time (the governor).

use crate::target::Target;
use crate::unit::{Energy, MilliCelsius, Milliwatts, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The definition of a plan's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// The sum of all parts, launches and transfers, one after another.
    #[default]
    Serial,
    /// The time from start to end of a run whose parts execute on concurrent devices.
    Makespan,
    /// The time between the ends of two pipelined runs: the busy time of the busiest device or
    /// link.
    Throughput,
}

impl Goal {
    fn is_serial(&self) -> bool {
        *self == Self::Serial
    }
}

/// The quantity to minimize, and the limits of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Objective {
    /// Weight of a nanosecond.
    pub time_weight: u32,
    /// Weight of a microjoule.
    pub energy_weight: u32,
    /// Limit on the predicted time of a run; JSON holds picoseconds.
    #[serde(rename = "deadline_ps")]
    pub deadline: Option<Time>,
    /// Limit on the predicted energy of a run; JSON holds nanojoules.
    #[serde(rename = "energy_budget_nj")]
    pub energy_budget: Option<Energy>,
    /// Limit on the mean power of all devices together under runs back to back; JSON holds
    /// milliwatts.
    #[serde(
        rename = "max_predicted_power_mw",
        alias = "power_limit_mw",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub max_predicted_power: Option<Milliwatts>,
    /// Limit on the steady-state temperature of each device with a thermal model, for back-to-back
    /// runs; JSON holds thousandths of a degree Celsius.
    #[serde(
        rename = "max_predicted_temperature_mc",
        alias = "temperature_limit_mc",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub max_predicted_temperature: Option<MilliCelsius>,
    /// Limit on the time of a run relative to the fastest plan within the other limits, in
    /// thousandths: how much time saving energy may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest_permille: Option<u32>,
    /// How time is defined. With any goal except `Serial`, only time is minimized: the weights are
    /// one and zero.
    #[serde(default, skip_serializing_if = "Goal::is_serial")]
    pub goal: Goal,
}

impl Objective {
    /// Least time.
    #[must_use]
    pub fn latency() -> Self {
        Self::weighted(1, 0)
    }

    /// Least energy.
    #[must_use]
    pub fn energy() -> Self {
        Self::weighted(0, 1)
    }

    /// Least time of one run with concurrent devices.
    #[must_use]
    pub fn makespan() -> Self {
        Self {
            goal: Goal::Makespan,
            ..Self::latency()
        }
    }

    /// Most runs per second.
    #[must_use]
    pub fn throughput() -> Self {
        Self {
            goal: Goal::Throughput,
            ..Self::latency()
        }
    }

    /// Least `time × nanoseconds + energy × microjoules`.
    #[must_use]
    pub fn weighted(time: u32, energy: u32) -> Self {
        Self {
            time_weight: time,
            energy_weight: energy,
            deadline: None,
            energy_budget: None,
            max_predicted_power: None,
            max_predicted_temperature: None,
            slowest_permille: None,
            goal: Goal::Serial,
        }
    }

    /// Lowest sum of time and energy, where a joule counts as the time `per_joule`. The price has a
    /// relative resolution of a thousandth and a minimum of a microsecond; zero ignores energy. The
    /// weights are the smallest that express the price.
    #[must_use]
    pub fn priced(per_joule: Time) -> Self {
        /// Energy of a joule.
        const JOULE: u128 = 1_000_000;
        let ns = u128::from(per_joule.nanoseconds());
        if ns == 0 {
            return Self::latency();
        }
        let whole = |weight: u128| u32::try_from(weight).unwrap_or(u32::MAX);
        for time in 1..=1000 {
            let wanted = time * ns;
            let energy = (wanted + JOULE / 2) / JOULE;
            if energy > 0 && (energy * JOULE).abs_diff(wanted) * 1000 <= wanted {
                return Self::weighted(whole(time), whole(energy));
            }
        }
        Self::weighted(whole((JOULE + ns / 2) / ns), 1)
    }

    /// The price of a joule in time, if time and energy both count.
    #[must_use]
    pub fn price_of_joule(&self) -> Option<Time> {
        if self.time_weight == 0 || self.energy_weight == 0 || self.goal != Goal::Serial {
            return None;
        }
        let ns = u64::from(self.energy_weight) * 1_000_000 / u64::from(self.time_weight);
        Some(Time::from_nanoseconds(ns))
    }

    /// Adds a limit on time.
    #[must_use]
    pub fn within(self, deadline: Time) -> Self {
        Self {
            deadline: Some(deadline),
            ..self
        }
    }

    /// Adds a limit on energy.
    #[must_use]
    pub fn within_energy(self, budget: Energy) -> Self {
        Self {
            energy_budget: Some(budget),
            ..self
        }
    }

    /// Adds a limit on mean power.
    #[must_use]
    pub fn within_power(self, limit: Milliwatts) -> Self {
        Self {
            max_predicted_power: Some(limit),
            ..self
        }
    }

    /// Adds a limit on temperature.
    #[must_use]
    pub fn within_temperature(self, limit: MilliCelsius) -> Self {
        Self {
            max_predicted_temperature: Some(limit),
            ..self
        }
    }

    /// Limits time to this many thousandths of the fastest plan's.
    #[must_use]
    pub fn no_slower_than(self, permille: u32) -> Self {
        Self {
            slowest_permille: Some(permille),
            ..self
        }
    }

    /// The time that [`Objective::slowest_permille`] allows, given the fastest plan's time.
    #[must_use]
    pub fn slowest(&self, fastest: Time) -> Option<Time> {
        let time = u128::from(fastest.picoseconds()) * u128::from(self.slowest_permille?) / 1000;
        Some(Time::from_picoseconds(u64::try_from(time).unwrap_or(u64::MAX)))
    }

    /// Least time within the same limits, of which none is beside the fastest plan's.
    pub(crate) fn for_time_alone(self) -> Self {
        Self {
            time_weight: 1,
            energy_weight: 0,
            slowest_permille: None,
            ..self
        }
    }

    /// Removes all limits.
    #[must_use]
    pub fn unlimited(self) -> Self {
        Self {
            goal: self.goal,
            ..Self::weighted(self.time_weight, self.energy_weight)
        }
    }

    /// Whether energies must be known on every device. A temperature limit needs those of devices
    /// with a thermal model.
    #[must_use]
    pub fn needs_energy(&self) -> bool {
        self.energy_weight > 0 || self.energy_budget.is_some() || self.max_predicted_power.is_some()
    }

    /// Whether a limit applies to energies: the upper bound of each then counts.
    #[must_use]
    pub fn limits_energy(&self) -> bool {
        self.energy_budget.is_some()
            || self.max_predicted_power.is_some()
            || self.max_predicted_temperature.is_some()
    }

    /// Whether energies must be known on one device.
    pub(crate) fn needs_energy_of(&self, target: &Target) -> bool {
        self.needs_energy() || (self.max_predicted_temperature.is_some() && target.heat.is_some())
    }

    /// The objective as in plan files, on one line.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: an objective has only JSON types")
    }

    /// The objective as text.
    #[must_use]
    pub fn description(&self) -> String {
        let mut words = match (self.time_weight, self.energy_weight) {
            _ if self.goal == Goal::Makespan => "least time with concurrent devices".to_owned(),
            _ if self.goal == Goal::Throughput => "least time between runs".to_owned(),
            (_, 0) => "least time".to_owned(),
            (0, _) => "least energy".to_owned(),
            _ => format!("least time and energy, {}", self.price_in_words()),
        };
        if let Some(permille) = self.slowest_permille {
            let (whole, part) = (permille / 1000, permille % 1000);
            let part = format!("{part:03}");
            let times = format!("{whole}.{}", part.trim_end_matches('0'));
            let times = times.trim_end_matches('.');
            words += &format!(", at most {times} times as long as the fastest");
        }
        if let Some(deadline) = self.deadline {
            words += &format!(", within {deadline}");
        }
        if let Some(budget) = self.energy_budget {
            words += &format!(", within {budget}");
        }
        if let Some(limit) = self.max_predicted_power {
            words += &format!(", within {limit}");
        }
        if let Some(limit) = self.max_predicted_temperature {
            words += &format!(", up to {limit}");
        }
        words
    }

    /// An amount of the objective as text: a time or an energy if it is one.
    #[must_use]
    pub fn words(&self, value: u64) -> String {
        match (self.time_weight, self.energy_weight) {
            (0, 0) => value.to_string(),
            (time, 0) => Time::from_picoseconds(value / u64::from(time)).to_string(),
            (0, energy) => Energy::from_nanojoules(value / u64::from(energy)).to_string(),
            (time, _) => {
                let time = Time::from_picoseconds(value / u64::from(time));
                format!("{time} of time, {}", self.price_in_words())
            }
        }
    }

    /// The quantity in a word or two, as in "1.5 times as much time".
    #[must_use]
    pub fn quantity(&self) -> &'static str {
        match (self.time_weight, self.energy_weight) {
            _ if self.goal == Goal::Throughput => "time between runs",
            (_, 0) => "time",
            (0, _) => "energy",
            _ => "time and energy",
        }
    }

    fn price_in_words(&self) -> String {
        let price = self.price_of_joule().unwrap_or_default();
        format!("at {price} per joule")
    }

    /// The weighted sum; `None` on overflow.
    #[must_use]
    pub fn value(&self, time: Time, energy: Energy) -> Option<u64> {
        let time = time.picoseconds().checked_mul(u64::from(self.time_weight))?;
        let energy = energy.nanojoules().checked_mul(u64::from(self.energy_weight))?;
        time.checked_add(energy)
    }
}

impl Default for Objective {
    fn default() -> Self {
        Self::latency()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_of_earlier_plan_files_keep_their_limits() {
        let limited = Objective {
            max_predicted_power: Some(Milliwatts::new(5000)),
            max_predicted_temperature: Some(MilliCelsius::new(80_000)),
            ..Objective::energy()
        };
        let now = serde_json::to_string(&limited).unwrap();
        let before = now
            .replace("max_predicted_power_mw", "power_limit_mw")
            .replace("max_predicted_temperature_mc", "temperature_limit_mc");
        assert_ne!(before, now);
        assert_eq!(serde_json::from_str::<Objective>(&before).unwrap(), limited);
    }

    #[test]
    fn joule_price_round_trips() {
        let weights = |per_joule: Time| {
            let made = Objective::priced(per_joule);
            (made.time_weight, made.energy_weight)
        };
        let ms = |ms: u64| Time::from_nanoseconds(ms * 1_000_000);
        assert_eq!(weights(ms(200)), (1, 200));
        // half a nanosecond a microjoule, and two thirds
        assert_eq!(weights(Time::from_nanoseconds(500_000)), (2, 1));
        assert_eq!(weights(Time::from_nanoseconds(666_667)), (3, 2));
        assert_eq!(weights(Time::from_nanoseconds(1_000)), (1000, 1));
        assert_eq!(weights(Time::ZERO), (1, 0));
        for ns in [
            1_000u64,
            1_234,
            98_765,
            1_000_000,
            7_654_321,
            200_000_000,
            3_600_000_000_000,
        ] {
            let found = Objective::priced(Time::from_nanoseconds(ns));
            let price = found.price_of_joule().unwrap().nanoseconds();
            assert!(price.abs_diff(ns) * 1000 <= ns + 1000, "{ns} {price}");
        }
        // at 5 W, energy weighs as much as time
        let priced = Objective::priced(ms(200));
        let [time, energy] = [ms(10), Time::ZERO].map(|time| {
            let energy = if time == Time::ZERO { 50_000 } else { 0 };
            priced.value(time, Energy::from_microjoules(energy))
        });
        assert_eq!(time, energy);
        assert_eq!(
            priced.description(),
            "least time and energy, at 200.000 ms per joule"
        );
        assert_eq!(
            priced.words(10_000_000_000),
            "10.000 ms of time, at 200.000 ms per joule"
        );
        assert_eq!(Objective::latency().price_of_joule(), None);
    }

    #[test]
    fn weights_apply_per_named_unit() {
        let one = Objective::weighted(3, 2).value(Time::from_nanoseconds(1), Energy::from_microjoules(1));
        assert_eq!(one, Some(5000));
        let none = Objective::latency().value(Time::from_picoseconds(u64::MAX), Energy::ZERO);
        assert_eq!(none, Some(u64::MAX));
        assert_eq!(
            Objective::weighted(2, 0).value(Time::from_picoseconds(u64::MAX), Energy::ZERO),
            None
        );
        assert!(Objective::latency().within_energy(Energy::ZERO).needs_energy());
    }
}
