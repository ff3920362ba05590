//! What an app asks of a session: the aim, the limits, the devices, the threads.
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

/// More runs in flight would only wait in the devices' queues and hold memory.
const MOST_IN_FLIGHT: usize = 64;
/// Longer than any run that someone waits for, short enough that a hung device is noticed.
const HANG_TIMEOUT: Duration = Duration::from_secs(120);
/// What the shapes of a session's runs may take: some hundreds of a model for phones.
const KEPT_BYTES: u64 = 512 << 20;
/// A phone's chips draw about 5 W for long: there a joule takes 200 ms.
const ENERGY_PRICE: Duration = Duration::from_millis(200);
/// What a balanced plan may take beside the fastest one, in thousandths: energy is worth some time, but no app that asks for
/// both means a run several times as long.
const BALANCED_SLOWEST: u32 = 1_500;
/// As often as NVIDIA's sensors change; those of phones change less often.
const SAMPLING: Duration = Duration::from_millis(100);

/// What to minimise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aim {
    /// Shortest time of a run.
    #[default]
    Latency,
    /// Least energy of a run.
    Energy,
    /// Time and energy together, a joule at its price in time ([`Policy::energy_price`]).
    Balanced,
    /// Shortest time of a run whose branches run on several devices at once.
    Makespan,
    /// Most runs in a time, where runs follow each other over several devices.
    Throughput,
}

/// How exactly to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// In the types that the model states.
    #[default]
    Exact,
    /// A device may compute f32 in a 16-bit float type where that is faster. Inputs and outputs stay f32.
    Reduced,
}

/// What a device is told of how to compile a part, and what a measured time therefore depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Settings {
    /// Threads of a CPU; 0 leaves it to the plugin.
    pub(crate) threads: u32,
    pub(crate) precision: Precision,
}

impl Settings {
    /// What the times of a device of this kind are true for: on a CPU the threads that the policy asks for,
    /// and reduced precision where it is allowed.
    pub(crate) fn operating_point(self, kind: DeviceKind) -> String {
        let threads =
            (self.threads != 0 && kind == DeviceKind::Cpu).then(|| format!("threads={}", self.threads));
        let precision = (self.precision == Precision::Reduced).then(|| "precision=reduced".to_owned());
        let named: Vec<String> = threads.into_iter().chain(precision).collect();
        named.join(" ")
    }
}

/// What a governed session is told before its first run; [`Session::hint`](crate::Session::hint) changes it later.
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

/// What an app asks of a session.
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
    power_limit: Option<Milliwatts>,
    temperature_limit: Option<MilliCelsius>,
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
    hang_timeout: Duration,
    governed: Option<Governed>,
    conditions: Option<Conditions>,
    kept_bytes: u64,
    buckets: Vec<(String, Vec<usize>)>,
    plans_in_background: bool,
    learn: Learn,
    calibrate: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            aim: Aim::default(),
            energy_price: None,
            deadline: None,
            period: None,
            max_temperature: None,
            power_limit: None,
            temperature_limit: None,
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
            hang_timeout: HANG_TIMEOUT,
            governed: None,
            conditions: None,
            kept_bytes: KEPT_BYTES,
            buckets: Vec::new(),
            plans_in_background: false,
            learn: Learn::default(),
            calibrate: false,
        }
    }
}

impl Policy {
    /// Shortest time of a run.
    #[must_use]
    pub fn latency() -> Self {
        Self {
            aim: Aim::Latency,
            ..Self::default()
        }
    }

    /// Least energy of a run.
    #[must_use]
    pub fn energy() -> Self {
        Self {
            aim: Aim::Energy,
            ..Self::default()
        }
    }

    /// Time and energy together: a joule costs as much as 200 ms, so that at 5 W both weigh the same, and no plan is
    /// predicted to take more than 1.5 times as long as the fastest one. [`Policy::energy_price`] sets another price, and
    /// then nothing but the price decides.
    #[must_use]
    pub fn balanced() -> Self {
        Self {
            aim: Aim::Balanced,
            ..Self::default()
        }
    }

    /// Shortest time of a run whose branches run on several devices at once. The plan states how far it may be from
    /// the best.
    #[must_use]
    pub fn makespan() -> Self {
        Self {
            aim: Aim::Makespan,
            ..Self::default()
        }
    }

    /// Most runs in a time: parts are spread so that no device is busy for long with one run. It takes as many runs
    /// in flight as devices are used.
    #[must_use]
    pub fn throughput() -> Self {
        Self {
            aim: Aim::Throughput,
            ..Self::default()
        }
    }

    /// What a joule is worth in time, where the aim is [`Aim::Balanced`]: a plan that takes so much longer and a joule less
    /// is as good. At a price of `p` seconds a joule, energy weighs as much as time at `1 / p` watts. It is kept to a
    /// thousandth, from 1 µs to 1 h a joule; without any, energy costs nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// // on the mains of a machine that draws 100 W: both weigh the same there
    /// let policy = polychip::Policy::balanced().energy_price(Duration::from_millis(10));
    /// ```
    #[must_use]
    pub fn energy_price(mut self, per_joule: Duration) -> Self {
        self.energy_price = Some(per_joule);
        self
    }

    /// No plan whose predicted time is longer, where there is one; else the fastest, which says by how much it is
    /// late. A run is late that takes longer from the call that submits it to the end of its last part: the report counts
    /// such runs by cause, and [`Outputs::late_by`](crate::Outputs::late_by) says so of one.
    /// [`RunOptions::deadline`](crate::RunOptions::deadline) gives a run one of its own.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How often runs come at most: what [`Runtime::admit`](crate::Runtime::admit) counts on. Nothing holds a run back that
    /// comes sooner. It is also the cadence that plans are made for: clocks fall between runs, so that a device that is fast
    /// back to back may be slow at 30 runs a second. Zero says that runs follow each other back to back; where no period is
    /// stated, that of the model's earlier sessions is taken, by the profile. Without a deadline a run of an admitted session is to be done within the period; without a period
    /// the next run comes when the last one ended.
    #[must_use]
    pub fn period(mut self, period: Duration) -> Self {
        self.period = Some(period);
        self
    }

    /// No plan whose runs, one after the other, draw more on average than this, where there is one; else the one that
    /// draws the least, which says by how much it is over. Where a device's energy is no
    /// measured one, the most that it may be is counted, and a warning says how to measure it.
    /// [`Policy::max_power`] is about what is drawn while runs go on, and what a governor chooses among its plans by; it
    /// does not know this limit, which is the first plan's.
    #[must_use]
    pub fn power_limit(mut self, limit: Milliwatts) -> Self {
        self.power_limit = Some(limit);
        self
    }

    /// No plan whose runs, one after the other, let a device settle at a higher temperature, where there is one; else
    /// the coolest, which says by how much it is over. It limits the devices of which [`Policy::heat`] says how they
    /// warm. [`Policy::max_temperature`] is about what sensors say, and what a governor chooses among its plans by; it does
    /// not know this limit, which is the first plan's.
    #[must_use]
    pub fn temperature_limit(mut self, limit: MilliCelsius) -> Self {
        self.temperature_limit = Some(limit);
        self
    }

    /// How a device (`plugin:index`) warms: as its maker says, or as the governor of a session fitted it
    /// ([`Session::heats`](crate::Session::heats)).
    #[must_use]
    pub fn heat(mut self, device: impl Into<String>, heat: Heat) -> Self {
        self.heats.push((device.into(), heat));
        self
    }

    /// No device that is hotter when the session is made, and none that gets hotter while it runs, as far as another plan
    /// can do without it: it is left out once it has passed the limit. (A governed session moves before that.) A device
    /// that is left out is an event of the plan and the report, and is used again once it is 3 K below the limit. A
    /// session looks every second, between runs.
    #[must_use]
    pub fn max_temperature(mut self, limit: MilliCelsius) -> Self {
        self.max_temperature = Some(limit);
        self
    }

    /// Only these devices: `plugin:index`, or `plugin` for all devices of a plugin.
    #[must_use]
    pub fn devices<S: Into<String>>(mut self, devices: impl IntoIterator<Item = S>) -> Self {
        self.devices = Some(devices.into_iter().map(Into::into).collect());
        self
    }

    /// The node of this name runs on this device (`plugin:index`). A name that no node has is a pattern: `*` stands
    /// for any text, `?` for one character. Pins of one node to several devices are an error when it is planned.
    #[must_use]
    pub fn pin(mut self, node: impl Into<String>, device: impl Into<String>) -> Self {
        self.pins.push((node.into(), device.into()));
        self
    }

    /// Without pins: for models whose nodes are not those that were named.
    pub(crate) fn without_pins(mut self) -> Self {
        self.pins.clear();
        self
    }

    /// Threads that a CPU part may use; 0, the default, leaves it to the plugin.
    #[must_use]
    pub fn threads(mut self, threads: u32) -> Self {
        self.settings.threads = threads;
        self
    }

    /// How exactly to compute (default: in the types that the model states).
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Self {
        self.settings.precision = precision;
        self
    }

    /// How urgent the session's runs are to devices that serve several sessions of a runtime (default: normal). Parts of
    /// urgent runs go before those of normal ones, and these before batch work; among equals the part goes first whose
    /// run has the earliest deadline. What a device has begun is not interrupted. While they wait, normal runs are
    /// guaranteed a tenth of a device's time, and batch work a twentieth. A device that one session alone uses has no
    /// such order.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// No part of a plan takes its device for longer than this, by what is predicted: runs of other sessions get their
    /// turns in between. Longer ones are cut where the fewest bytes go over the cut; a single node is a part at least.
    /// Each cut costs a launch, and what the device computes as one where it is not cut. Plans of [`Policy::makespan`] and
    /// [`Policy::throughput`] are not cut.
    #[must_use]
    pub fn longest_part(mut self, longest: Duration) -> Self {
        self.longest_part = Some(longest);
        self
    }

    /// What becomes of runs that are late, or that newer ones overtake, before all of their parts are with their devices
    /// (default: they go on). [`RunOptions::late`](crate::RunOptions::late) says so of one run.
    #[must_use]
    pub fn late(mut self, late: Late) -> Self {
        self.late = late;
        self
    }

    /// Whether a plan for throughput may hold whole copies of the model, each on devices of its own (the default). Each
    /// copy takes the memory of a plan; governed and admitted sessions, and what is compiled ahead, have one copy.
    #[must_use]
    pub fn replicas(mut self, allowed: bool) -> Self {
        self.replicas = allowed;
        self
    }

    /// Runs that may be in flight at once (default 2 for each copy of the model, at most 64); each has memory of its own. A run whose outputs were
    /// given is not in flight any more.
    #[must_use]
    pub fn in_flight(mut self, runs: usize) -> Self {
        self.in_flight = Some(runs.clamp(1, MOST_IN_FLIGHT));
        self
    }

    /// Most bytes that a session of a model with open sizes keeps of what it made for the sizes of its runs (default
    /// 512 MiB): plans, tensors between parts, outputs, constants that are not shared. Those used longest ago are let go
    /// of first.
    #[must_use]
    pub fn specialization_cache_bytes(mut self, bytes: u64) -> Self {
        self.kept_bytes = bytes;
        self
    }

    /// Buckets: the sizes that are planned for of a dimension that the model leaves open, for devices that take long to
    /// compile. A run of a size between takes the next larger bucket: its inputs are padded with zeros, and its outputs
    /// cut back. A size above the largest bucket is planned for as it is, as without buckets. An axis without a name has
    /// that of its input and its number (`x.3`).
    ///
    /// A session is made only where it is proved that padding changes no answer: that along the dimension every position
    /// of an output is made of its own position of the inputs, or of those before it. Else its error names the first node
    /// that mixes positions. A batch is independent in most models, a width or a length in few.
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

    /// A run of sizes that are not planned for is answered at once by a plan for the CPU alone, which takes some
    /// milliseconds to make, while a thread of the session makes the plan over all devices; runs from then on take that.
    /// [`Session::prepare`](crate::Session::prepare) still waits for the plan over all devices. Where the policy's
    /// devices leave no CPU, or nothing but CPUs, or the CPU cannot compute the model, a run waits as without this. It
    /// is for models with open sizes; the one plan of others is made with their session.
    #[must_use]
    pub fn background_planning(mut self) -> Self {
        self.plans_in_background = true;
        self
    }

    /// Whether a device that refuses a part, or is lost for good, is replaced by a new plan (the default),
    /// which the report then says; else that is an error. A pinned node is never moved.
    #[must_use]
    pub fn replan(mut self, allowed: bool) -> Self {
        self.replan = allowed;
        self
    }

    /// How often a run whose device was lost or hung, or failed in passing, is run again with the same
    /// inputs before its error is given (default 1).
    #[must_use]
    pub fn retry(mut self, times: u32) -> Self {
        self.retries = times;
        self
    }

    /// How long a run may take before its device counts as hung (default two minutes): the run is then
    /// cancelled, and a device that goes on all the same is reset.
    #[must_use]
    pub fn hang_timeout(mut self, timeout: Duration) -> Self {
        self.hang_timeout = timeout;
        self
    }

    /// Plans by what was measured nearest to these conditions, on every device, rather than to those that hold when the
    /// plan is made: for a plan that is made on another machine or at another time than it is used.
    #[must_use]
    pub fn priced_at(mut self, conditions: Conditions) -> Self {
        self.conditions = Some(conditions);
        self
    }

    /// Whether the session learns from its own runs (default: yes, within 5 % of their time): it tries other plans beside
    /// its own and keeps the fastest. [`Learn::No`] freezes the plan. A plan from a file, a governed session, an admitted
    /// one and one for throughput keep their plans in any case.
    #[must_use]
    pub fn learn(mut self, learn: Learn) -> Self {
        self.learn = learn;
        self
    }

    /// Calibrates the devices before a plan is made, those that were not before: four small networks run on each, within 300 ms
    /// altogether, and what a plugin states of a node is multiplied by what they took over what is stated of them. The
    /// figures are kept in the profile. Without this, a session that learns does so by itself before it tries other plans,
    /// unless it has a deadline.
    #[must_use]
    pub fn calibrate(mut self, calibrate: bool) -> Self {
        self.calibrate = calibrate;
        self
    }

    /// Several plans are made ready when the session is made, and a governor changes between them as temperatures,
    /// power, losses and hints demand. A device that is lost for good then is no reason to plan anew as long as
    /// another plan does without it.
    #[must_use]
    pub fn governed(mut self) -> Self {
        self.governed.get_or_insert_default();
        self
    }

    /// As [`Policy::governed`], with settings of its governor.
    #[must_use]
    pub fn governor_settings(mut self, settings: governor::Settings) -> Self {
        self.governed.get_or_insert_default().settings = settings;
        self
    }

    /// As [`Policy::governed`]: how often sensors are read (default: ten times a second). On virtual time they are read
    /// by [`Session::govern`](crate::Session::govern) only.
    #[must_use]
    pub fn sampling(mut self, every: Duration) -> Self {
        self.governed.get_or_insert_default().every = every;
        self
    }

    /// As [`Policy::governed`]: the power of the devices together, averaged over seconds, as far as plans and pace can
    /// keep it.
    #[must_use]
    pub fn max_power(mut self, limit: Milliwatts) -> Self {
        self.governed.get_or_insert_default().max_power = Some(limit);
        self
    }

    /// As [`Policy::governed`]: the temperature of the surface that a hand touches, where a sensor says it (`skin` in the
    /// table of names, [`Rules`](crate::telemetry::Rules)), as far as plans and pace can keep it.
    #[must_use]
    pub fn max_surface_temperature(mut self, limit: MilliCelsius) -> Self {
        self.governed.get_or_insert_default().max_surface = Some(limit);
        self
    }

    /// As [`Policy::governed`]: a run starts so often, so that a plan that is fast enough and takes less energy is
    /// preferred, and frames may be skipped ([`Session::takes_frame`](crate::Session::takes_frame)).
    #[must_use]
    pub fn frame_period(mut self, period: Duration) -> Self {
        self.governed.get_or_insert_default().frame_period = Some(period);
        self
    }

    /// As [`Policy::governed`]: nobody waits for the runs.
    #[must_use]
    pub fn background(mut self) -> Self {
        self.governed.get_or_insert_default().background = true;
        self
    }

    /// As [`Policy::governed`]: energy counts above all, as with a low battery.
    #[must_use]
    pub fn battery_saver(mut self) -> Self {
        self.governed.get_or_insert_default().battery_saver = true;
        self
    }

    /// The same with another aim.
    #[must_use]
    pub fn with_aim(mut self, aim: Aim) -> Self {
        self.aim = aim;
        self
    }

    /// What is minimised.
    #[must_use]
    pub fn aim(&self) -> Aim {
        self.aim
    }

    /// Whether devices compute in the types that the model states ([`Policy::precision`]).
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.settings.precision == Precision::Exact
    }

    /// Threads that a CPU may use ([`Policy::threads`]); none where its plugin chooses.
    #[must_use]
    pub fn thread_limit(&self) -> Option<u32> {
        (self.settings.threads != 0).then_some(self.settings.threads)
    }

    /// What a joule is worth, in time: nothing where energy does not count, and as good as everything where it alone does.
    #[must_use]
    pub fn joule_price(&self) -> Duration {
        match self.aim {
            Aim::Latency | Aim::Makespan | Aim::Throughput => Duration::ZERO,
            Aim::Balanced => self.energy_price.unwrap_or(ENERGY_PRICE),
            Aim::Energy => Duration::from_secs(1_000_000),
        }
    }

    /// The aim within all limits.
    pub(crate) fn objective(&self) -> Objective {
        Objective {
            power_limit: self.power_limit,
            temperature_limit: self.temperature_limit,
            ..self.objective_for(self.aim)
        }
    }

    /// The objective of another aim within the same deadline.
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

    /// Nanoseconds that a joule is worth.
    fn price_ns(&self) -> u64 {
        let most = Duration::from_secs(3600);
        let price = self.energy_price.unwrap_or(ENERGY_PRICE);
        u64::try_from(price.min(most).as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn governing(&self) -> Option<&Governed> {
        self.governed.as_ref()
    }

    /// The limits of what is predicted as those that a governor holds by sensors.
    pub(crate) fn governing_its_limits(mut self) -> Policy {
        let power = self.power_limit.take();
        self.max_temperature = self.temperature_limit.take().or(self.max_temperature);
        let governed = self.governed.get_or_insert_default();
        governed.max_power = power.or(governed.max_power);
        self
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

    /// The period that the app states; zero: back to back.
    pub(crate) fn stated_period(&self) -> Option<Duration> {
        self.period
    }

    pub(crate) fn frame_deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The same for these devices, however hot they are, and another precision.
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

    pub(crate) fn hottest(&self) -> Option<MilliCelsius> {
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

    /// Runs that may be in flight where a plan has so many copies of the model.
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

    pub(crate) fn buckets(&self) -> &[(String, Vec<usize>)] {
        &self.buckets
    }

    pub(crate) fn plans_in_background(&self) -> bool {
        self.plans_in_background
    }

    pub(crate) fn allowed_retries(&self) -> u32 {
        self.retries
    }

    pub(crate) fn longest_run(&self) -> Duration {
        self.hang_timeout
    }

    pub(crate) fn may_replan(&self) -> bool {
        self.replan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_other_threads_or_another_precision_are_told_apart() {
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
    fn energy_has_a_price_where_the_aim_is_balanced() {
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
