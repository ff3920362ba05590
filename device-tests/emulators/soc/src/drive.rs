//! One run: frames of an app on the emulated chip, for 30 minutes of virtual time, under a governor or under none.
//!
//! A frame starts at each period unless the one before is still running: then it is dropped. It is in time where its
//! outputs are there within the deadline.
//!
//! Invariants: the same table, scenario and rule give the same run; a governor sees what sensors say, never the
//! chip itself.

use std::collections::HashMap;

use polychip::governor::{
    FinishedRun, Governor, Input, Load as RunLoad, Observation, Place, PolicyLimits, Reading, Reason, takes,
};

use crate::chip::{Chip, Load};
use crate::demand::{Frame, Pace};
use crate::plans::{Levels, Plans};
use crate::scenario::{Lie, OTHERS_POWER, Phase, RUN_NS, Scenario};
use crate::table::{MOST_UNITS, Table};

/// 30 frames a second.
pub const PERIOD_NS: u64 = 33_333_333;
/// Readings of all sensors come this often, in frames.
const READ_EVERY: u64 = 6;
/// What counts as sustained: all after this.
pub const SUSTAINED_FROM_NS: u64 = 10 * 60 * 1_000_000_000;
/// Frames after a switch whose lateness is the switch's.
const AFTER_SWITCH: u64 = 30;

/// Others who use a unit less than this do not ask for its first level.
const NOBODY: f64 = 0.1;

/// What was possible is looked at in one of so many frames.
const SAMPLED: u64 = 30;
/// A lost unit is reset, and works again, so long after its fault is over.
const RESET_NS: u64 = 1_000_000_000;

/// Who chooses.
pub enum Rule<'a> {
    /// One candidate, always.
    Static(usize),
    /// A governor.
    Governed(&'a mut Governor),
}

/// What a run came to. Counts are of frames from [`SUSTAINED_FROM_NS`] on, where not said otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// In time.
    pub in_time: u64,
    /// Completed, in time or not.
    pub completed: u64,
    /// Frames that came.
    pub frames: u64,
    /// Late ones of the whole run: completed after the deadline.
    pub late: u64,
    /// Switches of the whole run.
    pub switches: u64,
    /// Most switches in any minute.
    pub switches_in_a_minute: u64,
    /// Late frames within a second after a switch that some other plan would have had in time, of the whole run.
    pub late_after_switch: u64,
    /// Highest temperature above its limit, in kelvin, over all places and the whole run; negative where all held.
    pub above_limit: f64,
    /// Energy of our runs, in joules, of the whole run.
    pub joules: f64,
    /// Frames completed, of the whole run.
    pub all_completed: u64,
    /// In time, of the whole run.
    pub all_in_time: u64,
    /// Degrees of the surface at the end of each minute.
    pub skin: Vec<f64>,
    /// Frames in time in each minute.
    pub minutes: Vec<u64>,
    /// The switches.
    pub changes: Vec<Change>,
    /// Frames of the whole run that some candidate would have had in time just then, as hot as the chip was, from one
    /// frame of each second.
    pub possible: u64,
    /// Those of them from [`SUSTAINED_FROM_NS`] on.
    pub possible_sustained: u64,
    /// What the least of those candidates would have spent on these frames, in joules.
    pub least_joules: f64,
    /// What was spent on frames that were in time, in joules.
    pub joules_in_time: f64,
    /// Losses that the governor was told of.
    pub losses: u64,
    /// Frames that were due on a unit that the governor was told is lost, though a candidate needs none such.
    pub on_lost: u64,
}

/// A switch, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// When.
    pub time_ns: u64,
    /// From this candidate.
    pub from: usize,
    /// To this one.
    pub to: usize,
    /// Why.
    pub reason: Reason,
    /// The late frames that count as its own (see [`Outcome::late_after_switch`]).
    pub late: u64,
    /// The latest of them, in nanoseconds.
    pub latest_ns: u64,
}

/// Frames at levels and phases, computed once.
pub struct Frames<'a> {
    plans: &'a Plans,
    known: HashMap<(usize, Levels, usize), Frame>,
}

impl<'a> Frames<'a> {
    /// Nothing computed yet.
    #[must_use]
    pub fn new(plans: &'a Plans) -> Self {
        Self {
            plans,
            known: HashMap::new(),
        }
    }

    /// The levels at which a candidate runs: those that it asks for, where heat allows them and nobody else uses the
    /// unit, who asks for the first one.
    fn levels(&self, candidate: usize, chip: &Chip, units: usize, around: &Phase) -> Levels {
        let mut levels = [0; MOST_UNITS];
        for (unit, level) in levels.iter_mut().enumerate().take(units) {
            let asked = match around.others[unit] > NOBODY {
                true => 0,
                false => self.plans.levels[candidate][unit] as usize,
            };
            *level = chip.level_at(unit, asked) as u8;
        }
        levels
    }

    fn of(
        &mut self,
        candidate: usize,
        chip: &Chip,
        units: usize,
        phase: usize,
        scenario: &Scenario,
    ) -> Frame {
        let around = &scenario.phases[phase];
        let levels = self.levels(candidate, chip, units, around);
        let plans = self.plans;
        // what is asked for beside the same plan's levels makes no other frame
        let key = (plans.base[candidate], levels, phase);
        *self.known.entry(key).or_insert_with(|| {
            let mut pace = Pace::full();
            for (unit, &level) in levels.iter().enumerate().take(units) {
                pace.speed[unit] = chip.speed_at(unit, level as usize);
            }
            pace.others = around.others;
            pace.memory = around.memory;
            plans.demands[candidate].frame(&pace)
        })
    }

    /// Energy of a candidate's frame just now, in joules.
    fn joules(
        &mut self,
        candidate: usize,
        chip: &Chip,
        table: &Table,
        phase: usize,
        scenario: &Scenario,
    ) -> f64 {
        let units = table.units.len();
        let frame = self.of(candidate, chip, units, phase, scenario);
        let levels = self.levels(candidate, chip, units, &scenario.phases[phase]);
        let own: f64 = (0..units)
            .map(|unit| chip.busy_watts_at(unit, levels[unit] as usize) * frame.work_ns[unit] / 1e9)
            .sum();
        own + frame.bytes * table.memory.pj_per_byte * 1e-12 + frame.link_nj * 1e-9
    }
}

/// The limits that an app's policy states: the units' trip points, which sysfs shows, and what a hand should feel.
#[must_use]
pub fn limits(table: &Table) -> PolicyLimits {
    PolicyLimits {
        device_mc: table.units.iter().map(|unit| Some(unit.trip_mc as i64)).collect(),
        package_mc: None,
        skin_mc: Some(table.board.skin_limit_mc as i64),
        power_mw: None,
    }
}

/// Runs a scenario under a rule, for so long.
pub fn drive(
    table: &Table,
    plans: &Plans,
    scenario: &Scenario,
    mut rule: Rule<'_>,
    until_ns: u64,
) -> Outcome {
    let units = table.units.len();
    let mut chip = Chip::new(table, scenario.phases[0].air);
    let mut frames = Frames::new(plans);
    let mut out = Outcome {
        above_limit: f64::NEG_INFINITY,
        ..Outcome::default()
    };
    let mut phase = 0;
    // units that the governor was told are lost; and a frame that waits for one, until when
    let mut told = [false; MOST_UNITS];
    let mut stuck: Option<(u64, usize)> = None;
    let mut current = match &rule {
        Rule::Static(candidate) => *candidate,
        Rule::Governed(governor) => governor.plan(),
    };
    let mut pace_permille = 1000;
    // whose levels are asked for
    let mut asking = current;
    // what runs: its load per unit, bytes a second, and when it ends
    let mut running: Option<(Frame, usize, u64, u64)> = None;
    let mut switched_at: Vec<u64> = Vec::new();
    let mut fresh = false;
    let mut sensors = Sensors::new(units);
    let mut observation = Observation {
        time_ns: 0,
        input: Input::Tick,
    };
    let (mut minute_in_time, mut next_minute) = (0, 60_000_000_000);
    for number in 0..until_ns / PERIOD_NS {
        let now = number * PERIOD_NS;
        while scenario
            .phases
            .get(phase + 1)
            .is_some_and(|next| next.start_ns <= now)
        {
            phase += 1;
        }
        let around = &scenario.phases[phase];
        let sustained = now >= SUSTAINED_FROM_NS;
        out.frames += u64::from(sustained);
        let uses = |candidate: usize, unit: usize| plans.frames[candidate].busy_ns[unit] > 0.0;
        let gone = |unit: usize| scenario.loss(unit, now);
        let lost = |candidate: usize| (0..units).any(|unit| uses(candidate, unit) && gone(unit).is_some());
        if matches!(rule, Rule::Governed(_)) && stuck.is_none() {
            // a frame of a lost unit, running or about to, ends with an error, or hangs until patience is over
            let candidate = running.map_or(current, |(_, candidate, _, _)| candidate);
            let hit = (0..units).filter(|&unit| uses(candidate, unit) && !told[unit]);
            stuck = hit
                .filter_map(|unit| gone(unit).map(|fault| (now + fault.silent_ns, unit)))
                .next();
            if stuck.is_some() {
                running = None;
            }
        }
        let is_due = running.is_none() && stuck.is_none() && takes(number, pace_permille);
        if is_due {
            let on_told = |candidate: usize| (0..units).any(|unit| uses(candidate, unit) && told[unit]);
            let free = (0..plans.demands.len()).any(|candidate| !on_told(candidate));
            out.on_lost += u64::from(free && on_told(current));
        }
        if is_due && !lost(current) {
            // the first run of a plan is at the highest clock
            let begun = if fresh { plans.base[current] } else { current };
            asking = begun;
            let frame = frames.of(begun, &chip, units, phase, scenario);
            let noise = 1.0 + 0.02 * noise(number);
            let extra = if fresh { table.board.switch_ns as f64 } else { 0.0 };
            fresh = false;
            let latency = frame.latency_ns * noise + extra;
            running = Some((frame, current, now, now + latency.round() as u64));
        }
        if matches!(rule, Rule::Governed(_)) && number.is_multiple_of(SAMPLED) {
            let mut least: Option<f64> = None;
            for candidate in 0..plans.demands.len() {
                let frame = frames.of(candidate, &chip, units, phase, scenario);
                if frame.latency_ns <= PERIOD_NS as f64 && !lost(candidate) {
                    let joules = frames.joules(candidate, &chip, table, phase, scenario);
                    least = Some(least.map_or(joules, |least| least.min(joules)));
                }
            }
            if let Some(least) = least {
                out.possible += SAMPLED;
                out.possible_sustained += SAMPLED * u64::from(sustained);
                out.least_joules += least * SAMPLED as f64;
            }
        }
        let levels = frames.levels(asking, &chip, units, around);
        for (unit, &level) in levels.iter().enumerate().take(units) {
            chip.ask(unit, level as usize);
        }
        // power over this period
        let mut load = Load {
            air: around.air,
            charging: around.charging,
            ..Load::default()
        };
        for unit in 0..units {
            load.busy[unit] = around.others[unit] * OTHERS_POWER;
        }
        let mut ours = [0.0; MOST_UNITS];
        if let Some((frame, _, start, end)) = &running {
            // what a frame takes is spread over the periods that it lasts
            let span = ((end - start) as f64).max(PERIOD_NS as f64);
            let share = ((end - now) as f64).min(PERIOD_NS as f64).max(0.0);
            let share = if *end - *start <= PERIOD_NS {
                1.0
            } else {
                share / span
            };
            for (unit, ours) in ours.iter_mut().enumerate().take(units) {
                *ours = frame.work_ns[unit] * share / PERIOD_NS as f64;
                load.busy[unit] += *ours;
            }
            load.bytes_per_s = frame.bytes * share / (PERIOD_NS as f64 / 1e9);
            let seconds = PERIOD_NS as f64 / 1e9;
            let shared =
                load.bytes_per_s * seconds * table.memory.pj_per_byte * 1e-12 + frame.link_nj * share * 1e-9;
            let own: f64 = (0..units)
                .map(|unit| chip.busy_watts(unit) * ours[unit] * seconds)
                .sum();
            out.joules += own + shared;
        }
        chip.pass(PERIOD_NS, &load);
        for (unit, about) in table.units.iter().enumerate() {
            let above = chip.degrees(unit) - about.trip_mc / 1e3;
            out.above_limit = out.above_limit.max(above);
        }
        out.above_limit = out
            .above_limit
            .max(chip.skin_degrees() - table.board.skin_limit_mc / 1e3);

        let after = now + PERIOD_NS;
        let mut ended = None;
        if let Some((frame, candidate, start, end)) = running
            && end <= after
        {
            let latency = end - start;
            let late = latency > PERIOD_NS;
            out.completed += u64::from(sustained);
            out.in_time += u64::from(sustained && !late);
            out.late += u64::from(late);
            out.all_completed += 1;
            out.all_in_time += u64::from(!late);
            if !late {
                out.joules_in_time += frames.joules(candidate, &chip, table, phase, scenario);
            }
            minute_in_time += u64::from(!late);
            let after_switch = switched_at
                .last()
                .is_some_and(|&at| now.saturating_sub(at) <= AFTER_SWITCH * PERIOD_NS);
            if late && after_switch {
                let mut others = 0..plans.demands.len();
                let avoidable = others.any(|other| {
                    frames.of(other, &chip, units, phase, scenario).latency_ns <= PERIOD_NS as f64
                });
                out.late_after_switch += u64::from(avoidable);
                if let Some(change) = out.changes.last_mut().filter(|_| avoidable) {
                    change.late += 1;
                    change.latest_ns = change.latest_ns.max(latency);
                }
            }
            ended = Some((frame, candidate, latency, end));
            running = None;
        }
        if let Rule::Governed(governor) = &mut rule {
            let before = current;
            let mut decide = |observation: &Observation| {
                let decision = governor.step(observation);
                pace_permille = decision.pace_permille;
                if governor.plan() != current {
                    out.changes.push(Change {
                        time_ns: observation.time_ns,
                        from: current,
                        to: governor.plan(),
                        reason: decision.reason,
                        late: 0,
                        latest_ns: 0,
                    });
                    current = governor.plan();
                    switched_at.push(observation.time_ns);
                }
            };
            if let Some((frame, candidate, latency, end)) = ended {
                observation.time_ns = end;
                let mut loads = match std::mem::replace(&mut observation.input, Input::Tick) {
                    Input::Run(run) => run.loads,
                    _ => Vec::new(),
                };
                loads.clear();
                for unit in 0..units {
                    if frame.busy_ns[unit] > 0.0 {
                        loads.push(RunLoad {
                            device: unit,
                            busy_ns: frame.busy_ns[unit] as u64,
                            energy_uj: Some((chip.busy_watts(unit) * frame.work_ns[unit] / 1e3) as u64),
                        });
                    }
                }
                observation.input = Input::Run(FinishedRun {
                    candidate,
                    runs: 1,
                    latency_ns: latency,
                    energy_uj: None,
                    late: latency > PERIOD_NS,
                    loads,
                });
                decide(&observation);
            }
            if let Some((until, unit)) = stuck.filter(|&(until, _)| until <= after) {
                told[unit] = true;
                stuck = None;
                out.losses += 1;
                decide(&Observation {
                    time_ns: until.max(now),
                    input: Input::Lost { device: unit },
                });
            }
            for (unit, told) in told.iter_mut().enumerate().take(units) {
                if *told
                    && scenario.loss(unit, after.saturating_sub(RESET_NS)).is_none()
                    && gone(unit).is_none()
                {
                    *told = false;
                    decide(&Observation {
                        time_ns: after,
                        input: Input::Back { device: unit },
                    });
                }
            }
            if number.is_multiple_of(READ_EVERY) {
                for place in 0..units + 2 {
                    if let Some(reading) = sensors.read(place, &chip, table, scenario, around.others, after) {
                        let reading = Observation {
                            time_ns: after,
                            input: Input::Reading(reading),
                        };
                        decide(&reading);
                    }
                }
            }
            if current != before {
                // the same plan at another clock is as warm as it was
                fresh |= plans.base[current] != plans.base[before];
                out.switches = switched_at.len() as u64;
                let last = switched_at.last().copied().unwrap_or(0);
                let recent = switched_at
                    .iter()
                    .rev()
                    .take_while(|&&at| last - at < 60_000_000_000);
                out.switches_in_a_minute = out.switches_in_a_minute.max(recent.count() as u64);
            }
        }
        if after >= next_minute {
            next_minute += 60_000_000_000;
            out.minutes.push(minute_in_time);
            out.skin.push(chip.skin_degrees());
            minute_in_time = 0;
        }
    }
    out
}

/// The whole run.
pub fn drive_all(table: &Table, plans: &Plans, scenario: &Scenario, rule: Rule<'_>) -> Outcome {
    drive(table, plans, scenario, rule, RUN_NS)
}

/// What sensors say of true temperatures: tenths of a degree, and the faults of the scenario.
struct Sensors {
    units: usize,
    last: Vec<Option<i64>>,
    old: Vec<[i64; 10]>,
    reads: u64,
}

impl Sensors {
    fn new(units: usize) -> Self {
        Self {
            units,
            last: vec![None; units + 2],
            old: vec![[0; 10]; units + 2],
            reads: 0,
        }
    }

    fn read(
        &mut self,
        place: usize,
        chip: &Chip,
        table: &Table,
        scenario: &Scenario,
        others: [f64; MOST_UNITS],
        now: u64,
    ) -> Option<Reading> {
        let (at, degrees) = match place.checked_sub(self.units) {
            None => (Place::Device(place), chip.degrees(place)),
            Some(0) => (Place::Package, chip.package_degrees()),
            Some(_) => (Place::Skin, chip.skin_degrees()),
        };
        self.reads += 1;
        let truth = (degrees * 10.0).round() as i64 * 100;
        let slot = (self.reads / (self.units as u64 + 2)) as usize % 10;
        let late = std::mem::replace(&mut self.old[place][slot], truth);
        let fault = scenario.faults.iter().find(|fault| {
            fault.place == place && fault.lie.is_some() && (fault.start_ns..fault.end_ns).contains(&now)
        });
        let said = match fault.and_then(|fault| fault.lie) {
            None => Some(truth),
            Some(Lie::Stuck) => self.last[place],
            Some(Lie::Missing) => None,
            Some(Lie::Absurd) => Some(if self.reads.is_multiple_of(2) {
                -273_000
            } else {
                4_000_000
            }),
            Some(Lie::Late) => Some(late),
            Some(Lie::Jumping(by)) => Some(if self.reads.is_multiple_of(2) {
                truth + by
            } else {
                truth - by
            }),
        };
        if fault.is_none() {
            self.last[place] = said;
        }
        let mut reading = Reading::of(at);
        reading.temperature_mc = said;
        if let Place::Device(unit) = at {
            let about = &table.units[unit];
            // what heat allows, not what was asked for
            reading.frequency_khz = Some(about.levels[chip.allowed_level(unit)][0] * 1000);
            reading.throttled = Some(chip.allowed_level(unit) > 0);
            reading.others_permille = about.load_is_read.then(|| (others[unit] * 1e3).round() as u32);
        }
        Some(reading)
    }
}

/// A number between −1 and 1 for a frame, by the SplitMix64 generator.
fn noise(frame: u64) -> f64 {
    let mut z = frame.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}
