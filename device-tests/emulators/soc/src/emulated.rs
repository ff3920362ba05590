//! The state behind the devices and sensors of an emulated phone: the chip, its surroundings, and
//! the runs on it.
//!
//! Invariants:
//! 1. Time advances in steps of [`STEP_NS`] from [`Emulated::begin`] on, however often callers
//!    query it.
//! 2. The cost of a run depends on the state when the run is requested. Its heat follows as time
//!    passes.
//! 3. Sensors show the chip at the end of the last step, or the fault that the scenario injects.
//!
//! Not here: heat and power (`chip`), the devices (`plugin`) and sensor files (`tree`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_null::{Gone, RunWork, Spent, unit_noise};
use polychip_sdk::{Telemetry, Throttle};

use crate::chip::{Chip, Load};
use crate::network::Network;
use crate::scenario::{Lie, OTHERS_POWER, Phase, Scenario};
use crate::table::{MOST_UNITS, Table};

/// 30 frames a second.
pub const PERIOD_NS: u64 = 33_333_333;
/// Temperatures follow power so often: a third of a frame.
pub const STEP_NS: u64 = PERIOD_NS / 3;
/// Sensors are read this often: every sixth frame.
pub const READ_NS: u64 = 6 * PERIOD_NS;
/// Delay of a late sensor, in steps.
const LAG_STEPS: usize = (2_000_000_000 / STEP_NS) as usize;
/// A lost unit can be reset once this time has passed since the end of its fault.
const RESET_NS: u64 = 1_000_000_000;
/// Share of a unit's time below which its other users do not request its first level.
const NO_USER: f64 = 0.1;
/// Largest relative deviation of a frame's time from its mean.
const NOISE: f64 = 0.02;

/// The sensors that can be read. A sensor whose field is false cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Temperature of the surface, in the tree of files.
    pub surface: bool,
    /// Temperature of the package, likewise.
    pub package: bool,
    /// Temperatures of the units, likewise.
    pub units: bool,
    /// Clocks that the units are allowed, likewise.
    pub clocks: bool,
    /// The load of units that the table marks as readable; by the plugin.
    pub load: bool,
    /// Whether units slow themselves down; by the plugin.
    pub throttling: bool,
    /// Energy of runs on units other than CPUs; from the plugin.
    pub accelerators_energy: bool,
    /// In place of temperatures, the share of the way to severe throttling; from the app.
    pub headroom: bool,
}

impl Shown {
    /// Everything.
    #[must_use]
    pub const fn all() -> Self {
        Self {
            load: true,
            throttling: true,
            accelerators_energy: true,
            ..Self::files()
        }
    }

    /// The sensor files of a phone, and a plugin without sensors.
    #[must_use]
    pub const fn files() -> Self {
        Self {
            surface: true,
            package: true,
            units: true,
            clocks: true,
            load: false,
            throttling: false,
            accelerators_energy: true,
            headroom: false,
        }
    }
}

/// An emulated phone.
#[derive(Debug)]
pub struct Emulated {
    pub(crate) table: Table,
    /// The network with a cost for each node, and the number of its runs in a frame.
    pub(crate) network: Option<(Arc<Network>, usize)>,
    pub(crate) shown: Shown,
    /// Units offer their levels as operating points.
    pub(crate) points: bool,
    state: Mutex<State>,
}

impl Emulated {
    /// A phone with a network of the corpus, in a scenario.
    #[must_use]
    pub fn new(
        table: Table,
        network: Arc<Network>,
        inferences: usize,
        scenario: Scenario,
        shown: Shown,
    ) -> Self {
        Self {
            state: Mutex::new(State::new(&table, scenario, true, 0)),
            network: Some((network, inferences)),
            table,
            shown,
            points: true,
        }
    }

    /// A phone for any model, without other users, at an air temperature in degrees. Its plugin
    /// reports all sensors.
    #[must_use]
    pub fn alone(table: Table, air: f64) -> Self {
        Self {
            state: Mutex::new(State::new(&table, Scenario::quiet(air), false, 0)),
            network: None,
            table,
            shown: Shown::all(),
            points: false,
        }
    }

    /// The same phone, whose clocks no app can set.
    #[must_use]
    pub fn without_points(self) -> Self {
        Self {
            points: false,
            ..self
        }
    }

    /// Requests a level of each unit, as an app does with operating points.
    pub(crate) fn ask(&self, levels: &[usize]) {
        let mut state = self.state();
        for (unit, &level) in levels.iter().enumerate() {
            state.asked[unit] = level;
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The scenario begins at this time of the clock, with a chip at rest.
    pub fn begin(&self, now_ns: u64) {
        let mut state = self.state();
        let (scenario, asked) = (state.scenario.clone(), state.asked);
        *state = State::new(&self.table, scenario, state.is_disturbed, now_ns);
        state.asked = asked;
    }

    /// What sensors say of a place (a unit, then package and surface), in thousandths of a degree; none where they say
    /// nothing.
    pub(crate) fn temperature(&self, place: usize) -> Option<i64> {
        self.state().said(place)
    }
}

impl Emulated {
    /// The clock of a unit in use and the highest that it is allowed, in megahertz.
    pub(crate) fn clocks(&self, unit: usize) -> [u64; 2] {
        let state = self.state();
        [state.chip.level(unit), state.chip.allowed_level(unit)]
            .map(|level| self.table.units[unit].levels[level][0])
    }
}

impl polychip_null::Chip for Emulated {
    fn gone(&self, unit: usize, now_ns: u64) -> Option<Gone> {
        self.state().gone(unit, now_ns)
    }

    fn set_operating_point(&self, unit: usize, index: u32) {
        self.state().asked[unit] = index as usize;
    }

    fn spend(&self, unit: usize, work: RunWork, now_ns: u64, ready_ns: u64) -> Spent {
        self.state().spend(unit, work, now_ns, ready_ns)
    }

    fn telemetry(&self, unit: usize, now_ns: u64) -> Telemetry {
        let mut state = self.state();
        state.pass(now_ns);
        let about = &self.table.units[unit];
        // an app that runs a model of its own reads everything here; the study has files for that
        let everything = self.network.is_none();
        Telemetry {
            time_ns: now_ns,
            temperature_mc: everything.then(|| state.said(unit)).flatten(),
            power_mw: everything.then(|| (state.chip.watts(unit) * 1e3).round() as u64),
            energy_uj: everything.then(|| state.units[unit].microjoules.round() as u64),
            frequency_khz: everything.then(|| about.levels[state.chip.level(unit)][0] * 1000),
            memory_used_bytes: None,
            load_permille: (self.shown.load && about.load_is_read && !everything)
                .then(|| state.load_permille(unit, now_ns)),
            throttle: self.shown.throttling.then(|| Throttle {
                heat: state.chip.allowed_level(unit) > 0,
                power: false,
            }),
        }
    }
}

/// A run, or the rest of it.
#[derive(Debug, Clone, Copy)]
struct OnUnit {
    unit: usize,
    start_ns: u64,
    end_ns: u64,
    /// Share of that time in which the unit works for it.
    share: f64,
    bytes_per_s: f64,
}

#[derive(Debug, Clone, Default)]
struct UnitState {
    free_ns: u64,
    microjoules: f64,
    /// Time that it has worked for us, and that and the time at the last look.
    worked_ns: f64,
    looked: (u64, f64),
}

/// Record of a phone since it began.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Energy of our runs, in joules.
    pub joules: f64,
    /// Highest temperature above its limit, in kelvin, over the surface and all units; negative if
    /// all limits were kept.
    pub above_limit: f64,
    /// Degrees of the surface at the end of each minute.
    pub surface: Vec<f64>,
}

/// The phone at a time.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) chip: Chip,
    scenario: Scenario,
    /// Frames differ by noise, and the first run of a plan is longer.
    is_disturbed: bool,
    phase: usize,
    /// By unit, the level that an app asks for.
    asked: [usize; MOST_UNITS],
    begun_ns: u64,
    /// Until here steps were made.
    done_ns: u64,
    runs: Vec<OnUnit>,
    units: Vec<UnitState>,
    /// Loaded parts, and the last frame of each.
    warm: Vec<((usize, u64), u64)>,
    /// The frame that has paid for a cold plan.
    cold_frame: Option<u64>,
    /// What sensors would say without lies, of the last steps, the oldest first.
    truths: VecDeque<[i64; MOST_UNITS + 2]>,
    /// By fault: what its sensor said last before.
    stuck: Vec<Option<i64>>,
    pub(crate) seen: Seen,
    /// Energy of the runs that were asked for, as they were priced.
    pub(crate) spent_joules: f64,
    limits: Vec<f64>,
    surface_limit: f64,
    ps_per_byte: Vec<f64>,
    joule_per_byte: f64,
    switch_ns: f64,
}

/// A part of a plan.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) unit: usize,
    pub(crate) work: RunWork,
    /// Parts that it waits for.
    pub(crate) after: Vec<usize>,
}

/// Cost of a part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Priced {
    /// Time for which the unit is occupied, until the fence signals.
    pub(crate) busy_ns: f64,
    /// Time for which the unit works on the part, without other users' time.
    pub(crate) work_ns: f64,
    pub(crate) bytes: f64,
    pub(crate) joules: f64,
}

impl State {
    fn new(table: &Table, scenario: Scenario, is_disturbed: bool, begun_ns: u64) -> Self {
        let chip = Chip::new(table, scenario.phases[0].air);
        let mut state = Self {
            chip,
            is_disturbed,
            phase: 0,
            asked: [0; MOST_UNITS],
            begun_ns,
            done_ns: begun_ns,
            runs: Vec::new(),
            units: vec![UnitState::default(); table.units.len()],
            warm: Vec::new(),
            cold_frame: None,
            truths: VecDeque::with_capacity(LAG_STEPS + 1),
            stuck: vec![None; scenario.faults.len()],
            scenario,
            seen: Seen {
                joules: 0.0,
                above_limit: f64::NEG_INFINITY,
                surface: Vec::new(),
            },
            spent_joules: 0.0,
            limits: table.units.iter().map(|unit| unit.trip_mc / 1e3).collect(),
            surface_limit: table.board.skin_limit_mc / 1e3,
            ps_per_byte: table.units.iter().map(|unit| unit.ps_per_byte).collect(),
            joule_per_byte: table.memory.pj_per_byte * 1e-12,
            switch_ns: table.board.switch_ns as f64,
        };
        state.remember();
        state
    }

    /// How much of the way to severe slowing down is used up, as Android's service says it: 1 there, 30 K below that 0. The
    /// board's limit of the surface is where 0.85 is.
    pub(crate) fn headroom_permille(&self) -> u32 {
        let severe = self.surface_limit + 0.15 * 30.0;
        let headroom = 1.0 - (severe - self.chip.skin_degrees()) / 30.0;
        // `as` saturates
        (headroom.max(0.0) * 1e3).round() as u32
    }

    fn since(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.begun_ns)
    }

    fn around(&self) -> &Phase {
        &self.scenario.phases[self.phase]
    }

    /// Notes what sensors would say now.
    fn remember(&mut self) {
        let mut truth = [0; MOST_UNITS + 2];
        let units = self.units.len();
        for (place, truth) in truth.iter_mut().enumerate().take(units + 2) {
            let degrees = match place.checked_sub(units) {
                None => self.chip.degrees(place),
                Some(0) => self.chip.package_degrees(),
                Some(_) => self.chip.skin_degrees(),
            };
            // tenths of a degree
            *truth = (degrees * 10.0).round() as i64 * 100;
        }
        if self.truths.len() > LAG_STEPS {
            self.truths.pop_front();
        }
        self.truths.push_back(truth);
    }

    /// Lets whole steps pass, up to a time.
    pub(crate) fn pass(&mut self, until_ns: u64) {
        while self.done_ns + STEP_NS <= until_ns {
            self.step();
        }
    }

    fn step(&mut self) {
        let (from, to) = (self.done_ns, self.done_ns + STEP_NS);
        self.enter_phase(from);
        let units = self.units.len();
        let around = *self.around();
        let mut load = Load {
            air: around.air,
            charging: around.charging,
            ..Load::default()
        };
        let mut ours = [0.0; MOST_UNITS];
        for run in &self.runs {
            let overlap = run.end_ns.min(to).saturating_sub(run.start_ns.max(from)) as f64 / STEP_NS as f64;
            ours[run.unit] += overlap * run.share;
            load.bytes_per_s += overlap * run.bytes_per_s;
        }
        let seconds = STEP_NS as f64 / 1e9;
        self.seen.joules += load.bytes_per_s * seconds * self.joule_per_byte;
        for (unit, ours) in ours.into_iter().enumerate().take(units) {
            load.busy[unit] = ours + around.others[unit] * OTHERS_POWER;
            self.units[unit].worked_ns += ours * STEP_NS as f64;
            self.seen.joules += self.chip.busy_watts(unit) * ours * seconds;
        }
        self.chip.pass(STEP_NS, &load);
        self.done_ns = to;
        self.runs.retain(|run| run.end_ns > to);
        let above = |(unit, limit): (usize, &f64)| self.chip.degrees(unit) - limit;
        let hottest = self.limits.iter().enumerate().map(above);
        let hottest = hottest.fold(self.chip.skin_degrees() - self.surface_limit, f64::max);
        self.seen.above_limit = self.seen.above_limit.max(hottest);
        if self.since(to) / 60_000_000_000 > self.since(from) / 60_000_000_000 {
            self.seen.surface.push(self.chip.skin_degrees());
        }
        self.remember();
        let (since, last) = (self.since(from), self.truths.len() - 1);
        for (fault, stuck) in self.scenario.faults.iter().zip(&mut self.stuck) {
            if stuck.is_none() && fault.start_ns <= since {
                *stuck = Some(self.truths[last][fault.place]);
            }
        }
    }

    fn enter_phase(&mut self, now_ns: u64) {
        let since = self.since(now_ns);
        let starts = |index: usize| self.scenario.phases.get(index).map(|phase| phase.start_ns);
        let mut phase = self.phase;
        while starts(phase + 1).is_some_and(|start| start <= since) {
            phase += 1;
        }
        self.phase = phase;
        for unit in 0..self.units.len() {
            self.chip.ask(unit, self.level_for(unit, self.asked[unit]));
        }
    }

    /// The requested level of a unit if an app requests this one: other users request its first level.
    fn level_for(&self, unit: usize, asked: usize) -> usize {
        if self.around().others[unit] > NO_USER {
            0
        } else {
            asked
        }
    }

    fn said(&self, place: usize) -> Option<i64> {
        let since = self.since(self.done_ns);
        let truth = self.truths.back()?[place];
        let is_lying = |fault: &&crate::scenario::Fault| {
            fault.place == place && fault.lie.is_some() && (fault.start_ns..fault.end_ns).contains(&since)
        };
        let odd = !(since / READ_NS).is_multiple_of(2);
        let index = self.scenario.faults.iter().position(|fault| is_lying(&fault));
        match index.and_then(|index| Some((index, self.scenario.faults[index].lie?))) {
            None => Some(truth),
            Some((index, Lie::Stuck)) => self.stuck[index],
            Some((_, Lie::Missing)) => None,
            Some((_, Lie::Absurd)) => Some(if odd { -273_000 } else { 4_000_000 }),
            Some((_, Lie::Late)) => self.truths.front().map(|truth| truth[place]),
            Some((_, Lie::Jumping(by))) => Some(if odd { truth - by } else { truth + by }),
        }
    }

    /// How busy a unit was since this was last asked for, others' work and ours.
    fn load_permille(&mut self, unit: usize, now_ns: u64) -> u32 {
        self.enter_phase(now_ns);
        let others = self.around().others[unit];
        let state = &mut self.units[unit];
        let (at, worked) = std::mem::replace(&mut state.looked, (now_ns, state.worked_ns));
        let ours = (state.worked_ns - worked) / (now_ns.saturating_sub(at) as f64).max(1.0);
        ((ours + others).clamp(0.0, 1.0) * 1e3).round() as u32
    }

    pub(crate) fn gone(&self, unit: usize, now_ns: u64) -> Option<Gone> {
        let since = self.since(now_ns);
        let lost = |since| self.scenario.loss(unit, since);
        // it can be reset, and so used, only some time after its fault is over
        match lost(since) {
            Some(fault) if fault.silent_ns > 0 => Some(Gone::Hung),
            Some(_) => Some(Gone::Lost),
            None => lost(since.saturating_sub(RESET_NS)).map(|_| Gone::Lost),
        }
    }

    /// Cost of a part on a unit in the current state.
    pub(crate) fn price(&self, unit: usize, work: &RunWork, asked: usize) -> Priced {
        let around = self.around();
        let level = self.chip.level_at(unit, self.level_for(unit, asked));
        let work_ns = work.launch_ns
            + work.compute_ns / self.chip.speed_at(unit, level)
            + work.memory_ns / (1.0 - around.memory);
        let bytes = match self.ps_per_byte[unit] {
            ps if ps > 0.0 => work.memory_ns * 1e3 / ps,
            _ => 0.0,
        };
        Priced {
            busy_ns: work_ns / (1.0 - around.others[unit]),
            work_ns,
            bytes,
            joules: self.chip.busy_watts_at(unit, level) * work_ns / 1e9 + bytes * self.joule_per_byte,
        }
    }

    /// Time and energy that a frame of a plan's parts at these levels would take now, were it the plan in use: nanoseconds
    /// and joules. None where a unit of it is gone.
    pub(crate) fn frame(
        &mut self,
        parts: &[Part],
        levels: &[usize; MOST_UNITS],
        now_ns: u64,
    ) -> Option<(f64, f64)> {
        self.pass(now_ns);
        self.enter_phase(now_ns);
        let mut free = [0.0f64; MOST_UNITS];
        let mut ends = Vec::with_capacity(parts.len());
        let (mut latency, mut joules) = (0.0f64, 0.0);
        for part in parts {
            if self.gone(part.unit, now_ns).is_some() {
                return None;
            }
            let priced = self.price(part.unit, &part.work, levels[part.unit]);
            let start = part.after.iter().map(|&before| ends[before]);
            let end = start.fold(free[part.unit], f64::max) + priced.busy_ns;
            free[part.unit] = end;
            ends.push(end);
            latency = latency.max(end);
            joules += priced.joules;
        }
        Some((latency, joules))
    }

    /// Whether a part begins a plan that ran in no frame since another did: caches are cold then.
    fn is_cold(&mut self, part: (usize, u64), frame: u64) -> bool {
        let known = self.warm.iter().position(|(other, _)| *other == part);
        let before = known.map(|index| self.warm[index].1);
        let since = |&&(other, at): &&((usize, u64), u64)| {
            other != part && at < frame && before.is_none_or(|before| at > before)
        };
        let is_cold = self.warm.iter().any(|one| since(&one));
        match known {
            Some(index) => self.warm[index].1 = frame,
            None => self.warm.push((part, frame)),
        }
        is_cold
    }

    pub(crate) fn spend(&mut self, unit: usize, work: RunWork, now_ns: u64, ready_ns: u64) -> Spent {
        self.pass(now_ns);
        self.enter_phase(now_ns);
        let priced = self.price(unit, &work, self.asked[unit]);
        let start_ns = ready_ns.max(self.units[unit].free_ns);
        let mut ns = priced.busy_ns;
        if self.is_disturbed {
            let frame = self.since(now_ns) / PERIOD_NS;
            ns *= 1.0 + NOISE * unit_noise(0, frame);
            if self.is_cold((unit, work.executable), frame) && self.cold_frame != Some(frame) {
                self.cold_frame = Some(frame);
                ns += self.switch_ns;
            }
        }
        let end_ns = start_ns + ns.round() as u64;
        let microjoules = priced.joules * 1e6;
        self.units[unit].free_ns = end_ns;
        self.units[unit].microjoules += microjoules;
        self.spent_joules += priced.joules;
        if end_ns > start_ns {
            self.runs.push(OnUnit {
                unit,
                start_ns,
                end_ns,
                share: priced.work_ns / ns,
                bytes_per_s: priced.bytes / (ns / 1e9),
            });
        }
        Spent {
            start_ns,
            end_ns,
            energy_uj: microjoules.round() as u64,
        }
    }
}
