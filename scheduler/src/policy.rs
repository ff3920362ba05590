//! A session's requirements: aim, limits, devices and threads.
//!
//! Invariant: a policy is a plain value; it changes nothing until a session is made with it.

use std::time::Duration;

use polychip_host::{DeviceKind, Priority};
use polychip_partitioner::{Heat, MilliCelsius, Milliwatts, Objective, Time};

use crate::late_policy::Late;
pub use learn::Learn;
use polychip_governor as governor;
use polychip_profile::Conditions;

mod learn;

/// More runs in flight would only wait in the device queues and hold memory.
const MOST_IN_FLIGHT: usize = 64;
/// Longer than any run that an app waits for, short enough to notice a hung device.
const HANG_TIMEOUT: Duration = Duration::from_secs(120);
/// Cache limit for the specializations of a session: room for hundreds of shapes of a mobile model.
const KEPT_BYTES: u64 = 512 << 20;
/// A phone's chips sustain about 5 W: at that power a joule takes 200 ms.
const ENERGY_PRICE: Duration = Duration::from_millis(200);
/// Longest time of a balanced plan relative to the fastest one, in thousandths. Energy is worth some time,
/// but an app that asks for both does not want a run that takes several times as long.
const BALANCED_SLOWEST: u32 = 1_500;
/// The update interval of NVIDIA's sensors; those of phones update less often.
const SAMPLING: Duration = Duration::from_millis(100);

/// The quantity to minimize.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aim {
    /// Time of a run.
    #[default]
    Latency,
    /// Energy of a run.
    Energy,
    /// Time and energy of a run, with energy converted to time ([`Policy::energy_price`]).
    Balanced,
    /// Time of a run whose branches execute on concurrent devices.
    Makespan,
    /// Time between runs that are pipelined over several devices.
    Throughput,
}

/// Numeric precision of the computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// The types that the model states.
    #[default]
    Exact,
    /// A device may compute f32 in a faster 16-bit float type. Inputs and outputs stay f32.
    Reduced,
}

/// Compile settings of a part, on which its measured times depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Settings {
    /// Threads of a CPU; 0 leaves it to the plugin.
    pub(crate) threads: u32,
    pub(crate) precision: Precision,
}

impl Settings {
    /// The operating point of measurements on a device of this kind: the thread count of the policy for a
    /// CPU, and reduced precision if it is allowed.
    pub(crate) fn operating_point(self, kind: DeviceKind) -> String {
        let threads =
            (self.threads != 0 && kind == DeviceKind::Cpu).then(|| format!("threads={}", self.threads));
        let precision = (self.precision == Precision::Reduced).then(|| "precision=reduced".to_owned());
        let named: Vec<String> = threads.into_iter().chain(precision).collect();
        named.join(" ")
    }
}

/// Initial settings of a governed session; [`Session::hint`](crate::Session::hint) changes them later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Governed {
    pub(crate) settings: governor::Settings,
    /// Time between two samples of the sensors.
    pub(crate) every: Duration,
    pub(crate) max_power: Option<Milliwatts>,
    pub(crate) max_surface: Option<MilliCelsius>,
    pub(crate) frame_period: Option<Duration>,
    pub(crate) background: bool,
    pub(crate) battery_saver: bool,
}

impl Default for Governed {
    fn default() -> Self {
        Self {
            settings: governor::Settings::default(),
            every: SAMPLING,
            max_power: None,
            max_surface: None,
            frame_period: None,
            background: false,
            battery_saver: false,
        }
    }
}

/// A session's requirements.
///
/// ```
/// use std::time::Duration;
/// let policy = polychip::Policy::latency().deadline(Duration::from_millis(33)).threads(2);
/// assert_eq!(policy.aim(), polychip::Aim::Latency);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    aim: Aim,
    /// None: the usual one, which never makes a run much longer.
    energy_price: Option<Duration>,
    deadline: Option<Duration>,
    period: Option<Duration>,
    max_temperature: Option<MilliCelsius>,
    max_predicted_power: Option<Milliwatts>,
    max_predicted_temperature: Option<MilliCelsius>,
    heats: Vec<(String, Heat)>,
    devices: Option<Vec<String>>,
    pins: Vec<(String, String)>,
    settings: Settings,
    priority: Priority,
    late: Late,
    longest_part: Option<Duration>,
    in_flight: Option<usize>,
    replicas: bool,
    replan: bool,
    retries: u32,
    pub(crate) hang_timeout: Option<Duration>,
    governed: Option<Governed>,
    conditions: Option<Conditions>,
    kept_bytes: u64,
    buckets: Vec<(String, Vec<usize>)>,
    plans_in_background: bool,
    learn: Learn,
    calibrate: bool,
    seed: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            aim: Aim::default(),
            energy_price: None,
            deadline: None,
            period: None,
            max_temperature: None,
            max_predicted_power: None,
            max_predicted_temperature: None,
            heats: Vec::new(),
            devices: None,
            pins: Vec::new(),
            settings: Settings::default(),
            priority: Priority::Normal,
            late: Late::Finish,
            longest_part: None,
            in_flight: None,
            replicas: true,
            replan: true,
            retries: 1,
            hang_timeout: None,
            governed: None,
            conditions: None,
            kept_bytes: KEPT_BYTES,
            buckets: Vec::new(),
            plans_in_background: false,
            learn: Learn::default(),
            calibrate: false,
            seed: 0,
        }
    }
}

impl Policy {
    /// Minimizes the time of a run.
    #[must_use]
    pub fn latency() -> Self {
        Self {
            aim: Aim::Latency,
            ..Self::default()
        }
    }

    /// Minimizes the energy of a run.
    #[must_use]
    pub fn energy() -> Self {
        Self {
            aim: Aim::Energy,
            ..Self::default()
        }
    }

    /// Minimizes time and energy together. A joule costs 200 ms, so both weigh the same at 5 W. The plan is
    /// predicted to take at most 1.5× the time of the fastest one. [`Policy::energy_price`] sets another
    /// price and removes this bound.
    #[must_use]
    pub fn balanced() -> Self {
        Self {
            aim: Aim::Balanced,
            ..Self::default()
        }
    }

    /// Minimizes the time of a run whose branches execute on concurrent devices. The plan states its gap to the
    /// best possible one.
    #[must_use]
    pub fn makespan() -> Self {
        Self {
            aim: Aim::Makespan,
            ..Self::default()
        }
    }

    /// Maximizes runs per second: spreads parts so that no device is busy for long with one run. This needs
    /// as many runs in flight as devices are used.
    #[must_use]
    pub fn throughput() -> Self {
        Self {
            aim: Aim::Throughput,
            ..Self::default()
        }
    }

    /// Sets the value of a joule in time, for [`Aim::Balanced`]: a plan that saves a joule may take
    /// this much longer. At a price of `p` seconds per joule, energy weighs as much as time if the
    /// device draws `1 / p` watts. The price is rounded to 0.1 % and limited to the range from 1 µs
    /// to 1 h per joule; zero ignores energy.
    ///
    /// ```
    /// use std::time::Duration;
    /// // energy weighs as much as time for a machine that draws 100 W
    /// let policy = polychip::Policy::balanced().energy_price(Duration::from_millis(10));
    /// ```
    #[must_use]
    pub fn energy_price(mut self, per_joule: Duration) -> Self {
        self.energy_price = Some(per_joule);
        self
    }

    /// Sets the deadline of a run. Picks a plan predicted to meet the deadline; if none does, picks the
    /// fastest and reports by how much it misses. A run is late if it takes longer from the submitting call
    /// to the end of its last part. The report counts late runs by cause, and
    /// [`Outputs::late_by`](crate::Outputs::late_by) reports the lateness of one run.
    /// [`RunOptions::deadline`](crate::RunOptions::deadline) sets the deadline of one run.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the shortest time between runs, on which [`Runtime::admit`](crate::Runtime::admit) relies. Runs
    /// that come sooner are not delayed. The period is also the cadence that plans are made for: clocks fall
    /// between runs, so a device that is fast back to back may be slow at 30 runs per second. Zero means back
    /// to back. If no period is set, the period of the model's earlier sessions is taken from the profile.
    ///
    /// In an admitted session without a deadline, the period is the deadline. Without a period,
    /// admission assumes that each run starts when the previous one ends.
    #[must_use]
    pub fn period(mut self, period: Duration) -> Self {
        self.period = Some(period);
        self
    }

    /// Limits the predicted mean power of runs back to back. Picks a plan within the limit. If no plan is,
    /// picks the one that draws least and reports the excess. If a device's energy is not measured, its upper
    /// bound counts, and a warning states how to measure it.
    ///
    /// [`Policy::max_power`] limits measured power instead. A governor holds only that limit; the
    /// predicted limit applies to the first plan.
    #[must_use]
    pub fn max_predicted_power(mut self, limit: Milliwatts) -> Self {
        self.max_predicted_power = Some(limit);
        self
    }

    /// Limits the predicted steady-state temperature of each device under runs back to back. Picks a plan
    /// within the limit. If no plan is, picks the coolest and reports the excess. It applies to devices
    /// with a thermal model ([`Policy::heat`]).
    ///
    /// [`Policy::max_temperature`] limits measured temperatures instead. A governor holds only that
    /// limit; the predicted limit applies to the first plan.
    #[must_use]
    pub fn max_predicted_temperature(mut self, limit: MilliCelsius) -> Self {
        self.max_predicted_temperature = Some(limit);
        self
    }

    /// Sets the thermal model of a device (`plugin:index`), from its manufacturer or as fitted by the
    /// governor of a session ([`Session::heats`](crate::Session::heats)).
    #[must_use]
    pub fn heat(mut self, device: impl Into<String>, heat: Heat) -> Self {
        self.heats.push((device.into(), heat));
        self
    }

    /// Excludes devices that are hotter than this limit, when the session is made and while it runs, as long
    /// as another plan works without them. (A governed session moves work before the limit is reached.) An
    /// exclusion is an event of the plan and the report; the device is used again once it is 3 K below the
    /// limit. A session checks every second, between runs.
    #[must_use]
    pub fn max_temperature(mut self, limit: MilliCelsius) -> Self {
        self.max_temperature = Some(limit);
        self
    }

    /// Allows only these devices: `plugin:index`, or `plugin` for all devices of a plugin.
    #[must_use]
    pub fn devices<S: Into<String>>(mut self, devices: impl IntoIterator<Item = S>) -> Self {
        self.devices = Some(devices.into_iter().map(Into::into).collect());
        self
    }

    /// Pins the node of this name to a device (`plugin:index`). If no node has the name, it is a pattern: `*`
    /// matches any text, `?` one character. Planning fails if a node is pinned to several devices.
    #[must_use]
    pub fn pin(mut self, node: impl Into<String>, device: impl Into<String>) -> Self {
        self.pins.push((node.into(), device.into()));
        self
    }

    /// Removes the pins, for models with other node names.
    pub(crate) fn without_pins(mut self) -> Self {
        self.pins.clear();
        self
    }

    /// Sets the number of threads that a CPU part may use; 0, the default, leaves it to the plugin.
    #[must_use]
    pub fn threads(mut self, threads: u32) -> Self {
        self.settings.threads = threads;
        self
    }

    /// Sets the numeric precision (default: [`Precision::Exact`]).
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Self {
        self.settings.precision = precision;
        self
    }

    /// Sets the priority of the session's runs on devices that several sessions of a runtime share
    /// (default: normal). Urgent parts go before normal ones, and normal before batch. Within a
    /// priority, the part whose run has the earliest deadline goes first. Parts that a device has
    /// begun are not interrupted. Normal runs that wait are guaranteed 10 % of a device's time, and
    /// batch runs 5 %. This has no effect on a device of one session only.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Limits the predicted time of each part of a plan, so that runs of other sessions get turns
    /// in between. Longer parts are split where the fewest bytes cross, down to single nodes. A
    /// split costs a launch and any fusion across it. Plans of [`Policy::makespan`] and
    /// [`Policy::throughput`] are not split.
    #[must_use]
    pub fn longest_part(mut self, longest: Duration) -> Self {
        self.longest_part = Some(longest);
        self
    }

    /// Sets what happens to runs that are late or superseded before all of their parts are
    /// submitted to devices (default: they finish). [`RunOptions::late`](crate::RunOptions::late)
    /// sets it for one run.
    #[must_use]
    pub fn late(mut self, late: Late) -> Self {
        self.late = late;
        self
    }

    /// Allows a throughput plan to hold replicas of the model, each on its own devices (default: allowed).
    /// Each replica takes the memory of a plan. Governed, admitted and precompiled sessions have one replica.
    #[must_use]
    pub fn replicas(mut self, allowed: bool) -> Self {
        self.replicas = allowed;
        self
    }

    /// Sets the number of runs that may be in flight at once (default: 2 per replica, at most 64). Each has
    /// its own memory. A run that has returned its outputs is no longer in flight.
    #[must_use]
    pub fn in_flight(mut self, runs: usize) -> Self {
        self.in_flight = Some(runs.clamp(1, MOST_IN_FLIGHT));
        self
    }

    /// Limits the bytes that a session of a model with open sizes caches for the sizes of its runs (default
    /// 512 MiB): plans, tensors between parts, outputs, unshared constants. The least recently used are
    /// evicted first.
    #[must_use]
    pub fn specialization_cache_bytes(mut self, bytes: u64) -> Self {
        self.kept_bytes = bytes;
        self
    }

    /// Sets buckets for an open dimension: the sizes to plan for, for devices that compile slowly. A run of
    /// another size uses the next larger bucket: its inputs are padded with zeros, and its outputs are cut
    /// back. Sizes above the largest bucket are planned individually, as without buckets. An unnamed axis is
    /// called by its input and number (`x.3`).
    ///
    /// A session is made only if padding provably changes no result: along the dimension, every position of
    /// an output must depend only on its own position of the inputs, or on earlier ones. Otherwise the error
    /// names the first node that mixes positions. A batch dimension is independent in most models, a width or
    /// length in few.
    ///
    /// ```
    /// let policy = polychip::Policy::latency().shapes("batch", [1, 4, 16]);
    /// ```
    #[must_use]
    pub fn shapes(mut self, dimension: impl Into<String>, sizes: impl IntoIterator<Item = usize>) -> Self {
        let mut sizes: Vec<usize> = sizes.into_iter().collect();
        sizes.sort_unstable();
        sizes.dedup();
        self.buckets.push((dimension.into(), sizes));
        self
    }

    /// Plans new sizes in the background. A run of unplanned sizes executes at once on a CPU-only plan, which
    /// takes some milliseconds to make, while a thread of the session makes the plan over all devices; later
    /// runs use that one. [`Session::prepare`](crate::Session::prepare) still waits for the plan over all
    /// devices. Runs wait as usual if the policy allows no CPU or only CPUs, or if the CPU cannot compute the
    /// model. This affects only models with open sizes.
    #[must_use]
    pub fn background_planning(mut self) -> Self {
        self.plans_in_background = true;
        self
    }

    /// Allows a new plan when a device refuses a part or is lost for good (default: allowed). The
    /// report lists the change. If a new plan is not allowed, the run or the session fails instead.
    /// A pinned node is never moved.
    #[must_use]
    pub fn replan(mut self, allowed: bool) -> Self {
        self.replan = allowed;
        self
    }

    /// Sets how often a run is repeated with the same inputs after its device was lost, hung or failed
    /// transiently, before the run returns the error (default 1).
    #[must_use]
    pub fn retry(mut self, times: u32) -> Self {
        self.retries = times;
        self
    }

    /// Sets the seed of the random numbers of nodes without a `seed` of their own (default 0). The
    /// n-th runs of two sessions with the same seed draw the same numbers, on every device. Each
    /// run of a session draws new ones.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the time after which a running device counts as hung (default 2 min). The run is then cancelled,
    /// and a device that does not stop is reset. Replaces [`Builder::call_timeout`](crate::Builder::call_timeout).
    #[must_use]
    pub fn hang_timeout(mut self, timeout: Duration) -> Self {
        self.hang_timeout = Some(timeout);
        self
    }

    /// Makes plans for these conditions (such as clock and temperature) instead of the current
    /// ones: on every device, costs come from the measurements taken under the most similar
    /// conditions. Use it if the app will run at another time, or on another machine.
    #[must_use]
    pub fn priced_at(mut self, conditions: Conditions) -> Self {
        self.conditions = Some(conditions);
        self
    }

    /// Sets whether the session learns from its own runs: it then tries other plans and keeps the fastest
    /// (default: yes; trials may cost 5 % of the run time). [`Learn::No`] freezes the plan. Learning never
    /// changes the plan of a session that is governed, admitted, for throughput, or made from a plan file.
    #[must_use]
    pub fn learn(mut self, learn: Learn) -> Self {
        self.learn = learn;
        self
    }

    /// Calibrates uncalibrated devices before planning: runs four small networks on each, within 300 ms in
    /// total, and scales the plugin's cost estimates by the ratio of measured to estimated time. The figures
    /// are kept in the profile. Without this, a session that learns calibrates by itself before it tries
    /// other plans, unless it has a deadline.
    #[must_use]
    pub fn calibrate(mut self, calibrate: bool) -> Self {
        self.calibrate = calibrate;
        self
    }

    /// Makes the session governed: it prepares several plans when it is created, and a governor
    /// switches between them by temperature, power, lost devices and hints. If a device is lost for
    /// good and a ready plan works without it, no new plan is needed.
    #[must_use]
    pub fn governed(mut self) -> Self {
        self.governed.get_or_insert_default();
        self
    }

    /// Makes the session [governed](Policy::governed), with settings for the governor.
    #[must_use]
    pub fn governor_settings(mut self, settings: governor::Settings) -> Self {
        self.governed.get_or_insert_default().settings = settings;
        self
    }

    /// Makes the session [governed](Policy::governed), and sets the sensor sampling interval
    /// (default 100 ms). On virtual time, only [`Session::govern`](crate::Session::govern) reads
    /// the sensors.
    #[must_use]
    pub fn sampling(mut self, every: Duration) -> Self {
        self.governed.get_or_insert_default().every = every;
        self
    }

    /// Makes the session [governed](Policy::governed), and limits the total power of the devices,
    /// averaged over seconds. To hold it, the governor switches plans and skips frames.
    #[must_use]
    pub fn max_power(mut self, limit: Milliwatts) -> Self {
        self.governed.get_or_insert_default().max_power = Some(limit);
        self
    }

    /// Makes the session [governed](Policy::governed), and limits the temperature of the surface
    /// that a hand touches. To hold it, the governor switches plans and skips frames. This needs a
    /// sensor of that surface (`skin` in the name table of [`Rules`](crate::telemetry::Rules)).
    #[must_use]
    pub fn max_surface_temperature(mut self, limit: MilliCelsius) -> Self {
        self.governed.get_or_insert_default().max_surface = Some(limit);
        self
    }

    /// Makes the session [governed](Policy::governed), and sets the time between run starts. The
    /// governor then prefers a plan that is fast enough and uses less energy, and may skip frames
    /// ([`Session::takes_frame`](crate::Session::takes_frame)).
    #[must_use]
    pub fn frame_period(mut self, period: Duration) -> Self {
        self.governed.get_or_insert_default().frame_period = Some(period);
        self
    }

    /// Makes the session [governed](Policy::governed), and marks its runs as background work, for
    /// which no user waits.
    #[must_use]
    pub fn background(mut self) -> Self {
        self.governed.get_or_insert_default().background = true;
        self
    }

    /// Makes the session [governed](Policy::governed), and puts energy first, as on a low battery.
    #[must_use]
    pub fn battery_saver(mut self) -> Self {
        self.governed.get_or_insert_default().battery_saver = true;
        self
    }

    /// Replaces the aim.
    #[must_use]
    pub fn with_aim(mut self, aim: Aim) -> Self {
        self.aim = aim;
        self
    }

    /// The quantity to minimize.
    #[must_use]
    pub fn aim(&self) -> Aim {
        self.aim
    }

    /// Whether devices compute in the types that the model states ([`Policy::precision`]).
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.settings.precision == Precision::Exact
    }

    /// Number of threads that a CPU may use ([`Policy::threads`]); `None` if its plugin chooses.
    #[must_use]
    pub fn thread_limit(&self) -> Option<u32> {
        (self.settings.threads != 0).then_some(self.settings.threads)
    }

    /// The value of a joule, in time: zero if energy does not count, and 1,000,000 s if energy alone counts.
    #[must_use]
    pub fn joule_price(&self) -> Duration {
        match self.aim {
            Aim::Latency | Aim::Makespan | Aim::Throughput => Duration::ZERO,
            Aim::Balanced => self.energy_price.unwrap_or(ENERGY_PRICE),
            Aim::Energy => Duration::from_secs(1_000_000),
        }
    }

    /// The aim with all limits.
    pub(crate) fn objective(&self) -> Objective {
        Objective {
            max_predicted_power: self.max_predicted_power,
            max_predicted_temperature: self.max_predicted_temperature,
            ..self.objective_for(self.aim)
        }
    }

    /// The objective of another aim with the same deadline.
    pub(crate) fn objective_for(&self, aim: Aim) -> Objective {
        let objective = match aim {
            Aim::Latency => Objective::latency(),
            Aim::Energy => Objective::energy(),
            Aim::Balanced => {
                let priced = Objective::priced(Time::from_nanoseconds(self.price_ns()));
                match self.energy_price {
                    Some(_) => priced,
                    None => priced.no_slower_than(BALANCED_SLOWEST),
                }
            }
            Aim::Makespan => Objective::makespan(),
            Aim::Throughput => Objective::throughput(),
        };
        match self.deadline {
            None => objective,
            Some(deadline) => {
                let ns = u64::try_from(deadline.as_nanos())
                    .unwrap_or(u64::MAX / 1000)
                    .min(u64::MAX / 1000);
                objective.within(Time::from_nanoseconds(ns))
            }
        }
    }

    /// The value of a joule in nanoseconds.
    fn price_ns(&self) -> u64 {
        let most = Duration::from_secs(3600);
        let price = self.energy_price.unwrap_or(ENERGY_PRICE);
        u64::try_from(price.min(most).as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn governing(&self) -> Option<&Governed> {
        self.governed.as_ref()
    }

    pub(crate) fn learning(&self) -> Learn {
        self.learn
    }

    pub(crate) fn calibrates(&self) -> bool {
        self.calibrate
    }

    pub(crate) fn shortest_period(&self) -> Option<Duration> {
        self.period.filter(|period| !period.is_zero())
    }

    /// The period that the app sets; zero means back to back.
    pub(crate) fn stated_period(&self) -> Option<Duration> {
        self.period
    }

    pub(crate) fn frame_deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// This policy for other devices and precision, without a temperature limit.
    pub(crate) fn for_devices(&self, devices: Vec<String>, precision: Precision) -> Policy {
        let mut policy = self.clone().precision(precision).devices(devices);
        policy.max_temperature = None;
        policy
    }

    pub(crate) fn priced_under(&self) -> Option<&Conditions> {
        self.conditions.as_ref()
    }

    pub(crate) fn wanted_devices(&self) -> Option<&[String]> {
        self.devices.as_deref()
    }

    pub(crate) fn temperature_limit(&self) -> Option<MilliCelsius> {
        self.max_temperature
    }

    pub(crate) fn heats(&self) -> &[(String, Heat)] {
        &self.heats
    }

    pub(crate) fn pins(&self) -> &[(String, String)] {
        &self.pins
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    pub(crate) fn longest_device_time(&self) -> Option<Duration> {
        self.longest_part
    }

    pub(crate) fn late_rule(&self) -> Late {
        self.late
    }

    pub(crate) fn urgency(&self) -> Priority {
        self.priority
    }

    pub(crate) fn may_replicate(&self) -> bool {
        self.replicas && self.governed.is_none()
    }

    /// Number of runs in flight for a plan with this many replicas.
    pub(crate) fn runs_of_copies(&self, copies: usize) -> usize {
        let own = self.runs_in_flight().saturating_mul(copies.max(1));
        self.in_flight.unwrap_or(own.min(MOST_IN_FLIGHT))
    }

    pub(crate) fn runs_in_flight(&self) -> usize {
        self.in_flight.unwrap_or(2)
    }

    pub(crate) fn most_kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Whether open sizes are padded to buckets ([`Policy::shapes`]).
    #[must_use]
    pub fn has_buckets(&self) -> bool {
        !self.buckets().is_empty()
    }

    pub(crate) fn buckets(&self) -> &[(String, Vec<usize>)] {
        &self.buckets
    }

    pub(crate) fn plans_in_background(&self) -> bool {
        self.plans_in_background
    }

    pub(crate) fn allowed_retries(&self) -> u32 {
        self.retries
    }

    pub(crate) fn random_seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn longest_run(&self) -> Duration {
        self.hang_timeout.unwrap_or(HANG_TIMEOUT)
    }

    pub(crate) fn may_replan(&self) -> bool {
        self.replan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operating_points_separate_threads_and_precision() {
        let exact = Policy::latency().threads(2).settings();
        let reduced = Policy::latency().precision(Precision::Reduced).settings();
        assert_eq!(exact.operating_point(DeviceKind::Cpu), "threads=2");
        assert_eq!(exact.operating_point(DeviceKind::Gpu), "");
        assert_eq!(reduced.operating_point(DeviceKind::Gpu), "precision=reduced");
        let both = Policy::latency()
            .threads(2)
            .precision(Precision::Reduced)
            .settings();
        assert_eq!(
            both.operating_point(DeviceKind::Cpu),
            "threads=2 precision=reduced"
        );
    }
    #[test]
    fn balanced_aim_prices_energy() {
        let weights = |policy: Policy| {
            let made = policy.objective();
            (made.time_weight, made.energy_weight)
        };
        assert_eq!(weights(Policy::balanced()), (1, 200));
        // and no more than half as long again, unless somebody sets a price
        let slowest = |policy: &Policy| policy.objective().slowest_permille;
        assert_eq!(slowest(&Policy::balanced()), Some(1_500));
        let priced = Policy::balanced().energy_price(Duration::from_millis(200));
        assert_eq!(slowest(&priced), None);
        assert_eq!(slowest(&Policy::energy()), None);
        let cheap = Policy::balanced().energy_price(Duration::from_millis(10));
        assert_eq!(weights(cheap.clone()), (1, 10));
        assert_eq!(weights(cheap.energy_price(Duration::ZERO)), (1, 0));
        assert_eq!(
            weights(Policy::balanced().energy_price(Duration::MAX)),
            (1, 3_600_000)
        );
        assert_eq!(
            weights(Policy::latency().energy_price(Duration::from_secs(1))),
            (1, 0)
        );
        assert_eq!(weights(Policy::energy()), (0, 1));
    }
}
