//! A governed session on an emulated phone: frames of an app for some minutes of virtual time.
//!
//! The session is the one that apps use; this is the app. In each period it submits a frame, if the
//! session accepts it and the last frame is done. A session on real time has a thread that reads
//! the sensors, and calls the governor after a late run. On virtual time, the app makes these
//! calls.
//!
//! Invariants: the session sees only sensors, fences and errors, never the phone; the same setting
//! and scenario give the same run.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use polychip::telemetry::{Rules, Sampler, Sensors};
use polychip::{EventKind, Hint, Input, Learn, MilliCelsius, Policy, Runtime, Session};

use crate::emulated::{Emulated, PERIOD_NS, READ_NS, Shown};
use crate::fixed::Fixed;
use crate::outcome::{AFTER_SWITCH_NS, Change, Outcome, SAMPLED};
use crate::plugin::{Lent, SocPlugin, lend};
use crate::scenario::Scenario;
use crate::setting::Setting;
use crate::tree::{Battery, Tree};

/// How long the session waits for a unit that hangs.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longer than any frame.
const LONG: Duration = Duration::from_secs(600);

/// State of the app and the battery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stance {
    /// In the foreground, on battery.
    Battery,
    /// In the foreground, on mains power.
    Plugged,
    /// In the background, on mains power.
    Background,
    /// In the foreground, with the battery nearly empty.
    Low,
}

/// Options of a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// State of the app and the battery.
    pub stance: Stance,
    /// The sensors that can be read.
    pub shown: Shown,
    /// Whether the session knows the deadline of frames.
    pub deadline: bool,
    /// Limit of the surface in place of the table's, in thousandths of a degree.
    pub surface_limit: Option<i64>,
    /// The session can set the units' clocks.
    pub points: bool,
    /// Sensors are read from files on disk, not in this program.
    pub on_disk: bool,
    /// Without a governor: the index of the plan that the session keeps, among those of a governed
    /// session.
    pub keep: Option<usize>,
}

impl Options {
    /// All information for the session, in this state.
    #[must_use]
    pub fn at(stance: Stance) -> Self {
        Self {
            stance,
            shown: Shown::all(),
            deadline: true,
            surface_limit: None,
            points: true,
            on_disk: false,
            keep: None,
        }
    }
}

impl Setting {
    /// A governed run.
    ///
    /// # Errors
    /// As [`Live::new`] and [`Live::run`].
    pub fn governed(&self, scenario: &Scenario, options: &Options, until_ns: u64) -> Result<Outcome> {
        Live::new(self, scenario, options)?.run(until_ns)
    }
}

/// A session with its phone.
pub struct Live {
    session: Session,
    input: Input,
    phone: Arc<Emulated>,
    clock: Sampler,
    candidates: Vec<Fixed>,
    disk: Option<(Tree, tempfile::TempDir)>,
    /// The plan in use, and the newest change of it or of the pace that was noted.
    plan: String,
    noted_ns: Option<u64>,
    _runtime: Runtime,
    _lent: Lent,
}

impl Live {
    /// Makes the plans and the session.
    ///
    /// # Errors
    /// The session cannot be created.
    pub fn new(setting: &Setting, scenario: &Scenario, options: &Options) -> Result<Self> {
        let phone = setting.phone(scenario, options.shown);
        let phone = Arc::new(if options.points {
            phone
        } else {
            phone.without_points()
        });
        let lent = lend(Arc::clone(&phone));
        let (percent, charging) = match options.stance {
            Stance::Battery => (70, false),
            Stance::Plugged | Stance::Background => (70, true),
            Stance::Low => (10, false),
        };
        let tree = Tree::new(Arc::clone(&phone), Battery { percent, charging });
        let (sensors, disk) = if options.on_disk {
            let folder = tempfile::tempdir()?;
            tree.write(folder.path())?;
            (tree.sensors_at(folder.path()), Some((tree, folder)))
        } else {
            (tree.sensors(), None)
        };
        let runtime = Runtime::builder()
            .link(polychip_sdk::plugin_query::<SocPlugin>)
            .configure("soc", "phone", lent.name())
            .sensors(sensors)
            .virtual_time()
            .only_given_folders()
            .build()?;
        let model = runtime.load_bytes("frame", setting.model.clone())?;
        let period = Duration::from_nanos(PERIOD_NS);
        let trips = setting.table.units.iter().map(|unit| unit.trip_mc);
        let surface = options
            .surface_limit
            .unwrap_or(setting.table.board.skin_limit_mc as i64);
        let plain = Policy::latency().devices(["soc"]).in_flight(1).learn(Learn::No);
        let mut policy = plain
            .clone()
            .frame_period(period)
            .max_temperature(MilliCelsius::new(trips.fold(f64::INFINITY, f64::min) as i64))
            .max_surface_temperature(MilliCelsius::new(surface));
        if scenario.faults.iter().any(|fault| fault.lie.is_none()) {
            // patience counts real time, too: only where a unit may hang it is short
            policy = policy.hang_timeout(PATIENCE);
        }
        if options.deadline {
            policy = policy.deadline(period);
        }
        if options.stance == Stance::Background {
            policy = policy.background();
        }
        let mut session = runtime.session(&model, policy)?;
        let plans = session.ready_plans();
        if let Some(kept) = options.keep.and_then(|index| plans.get(index)) {
            session = runtime.session_of((*kept.planned).clone(), plain.deadline(period))?;
        }
        let name = session.inputs().next().map(|input| input.name.clone());
        let input = session.input(&name.unwrap_or_default())?;
        let candidates = plans.iter().map(|ready| setting.fixed(ready));
        let candidates = candidates.collect::<Result<Vec<Fixed>>>()?;
        if let Some(kept) = options.keep.and_then(|index| candidates.get(index)) {
            phone.ask(&kept.levels);
        }
        Ok(Self {
            candidates,
            clock: Sampler::new(&runtime, Sensors::at("", &Rules::default())),
            session,
            input,
            phone,
            disk,
            plan: String::new(),
            noted_ns: None,
            _runtime: runtime,
            _lent: lent,
        })
    }

    /// The plans that the session keeps ready.
    #[must_use]
    pub fn candidates(&self) -> &[Fixed] {
        &self.candidates
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Runs until this time.
    ///
    /// # Errors
    /// The sensor files cannot be written.
    pub fn run(&mut self, until_ns: u64) -> Result<Outcome> {
        let mut out = Outcome::of(until_ns);
        let begun = self.clock.now_ns();
        self.phone.begin(begun);
        let (mut number, mut next_read, mut failed) = (0, READ_NS, 0);
        while number < until_ns / PERIOD_NS {
            let since = number * PERIOD_NS;
            let now = self.clock.now_ns();
            self.clock
                .wait(Duration::from_nanos((begun + since).saturating_sub(now)));
            if since >= next_read {
                self.look(begun + since)?;
                self.note_switches(&mut out, since);
                next_read = since - since % READ_NS + READ_NS;
            }
            let is_sampled = number.is_multiple_of(SAMPLED);
            let is_after_switch = (out.changes.last())
                .is_some_and(|change| since.saturating_sub(change.time_ns) <= AFTER_SWITCH_NS);
            let least = if is_sampled || is_after_switch {
                self.least_joules(begun + since)
            } else {
                None
            };
            if let Some(least) = least.filter(|_| is_sampled) {
                out.count_possible(since, least);
            }
            number += 1;
            if !self.session.takes_frame() {
                continue;
            }
            let before = self.phone.state().spent_joules;
            let run = self.session.submit(&[&self.input]);
            match run.and_then(|run| run.wait(LONG)) {
                Err(_) => failed += 1,
                Ok(outputs) => {
                    let latency = u64::try_from(outputs.latency().as_nanos()).unwrap_or(u64::MAX);
                    let is_late = outputs.late_by().is_some();
                    drop(outputs);
                    let joules = self.phone.state().spent_joules - before;
                    out.count(since, latency, joules);
                    if latency > PERIOD_NS && is_after_switch && least.is_some() {
                        out.late_after_switch += 1;
                        if let Some(change) = out.changes.last_mut() {
                            change.late += 1;
                            change.latest_ns = change.latest_ns.max(latency);
                        }
                    }
                    if is_late {
                        self.session.govern_runs();
                        let since = self.clock.now_ns() - begun;
                        self.note_switches(&mut out, since);
                    }
                }
            }
            // frames that came while it ran are dropped
            number = number.max((self.clock.now_ns() - begun).div_ceil(PERIOD_NS));
        }
        let report = self.session.report();
        out.losses = report.count(EventKind::Lost);
        out.on_lost = (report.count(EventKind::Retried) + failed).saturating_sub(out.losses);
        let mut state = self.phone.state();
        state.pass(begun + until_ns);
        out.finish(&state.seen);
        Ok(out)
    }

    /// Does the work of the session's own thread.
    fn look(&mut self, now_ns: u64) -> Result<()> {
        self.phone.state().pass(now_ns);
        if let Some((tree, folder)) = &self.disk {
            tree.write(folder.path())?;
        }
        if self.phone.shown.headroom {
            let headroom = self.phone.state().headroom_permille();
            self.session.hint(Hint::ThermalHeadroom(Some(headroom)));
        }
        self.session.govern();
        Ok(())
    }

    fn note_switches(&mut self, out: &mut Outcome, since_ns: u64) {
        let Some(report) = self.session.governed() else {
            return;
        };
        // the list has changes of the pace alone, too
        for change in report
            .changes
            .iter()
            .filter(|change| Some(change.time_ns) > self.noted_ns)
        {
            if change.plan != self.plan {
                self.plan.clone_from(&change.plan);
                out.changes.push(Change {
                    time_ns: since_ns,
                    to: change.plan.clone(),
                    words: change.words.clone(),
                    late: 0,
                    latest_ns: 0,
                });
            }
        }
        self.noted_ns = report.changes.last().map(|change| change.time_ns);
        out.switches = report.switches;
    }

    /// Of the candidates that would be in time now, the energy of the most frugal one's frame; none where none would be.
    fn least_joules(&self, now_ns: u64) -> Option<f64> {
        let mut state = self.phone.state();
        let frames = self
            .candidates
            .iter()
            .filter_map(|candidate| state.frame(&candidate.parts, &candidate.levels, now_ns));
        let in_time = frames.filter(|&(latency, _)| latency <= PERIOD_NS as f64);
        in_time.map(|(_, joules)| joules).reduce(f64::min)
    }
}
