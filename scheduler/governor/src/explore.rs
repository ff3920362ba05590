//! Selects the plan of an ungoverned session from its own runs: trials of ready plans within a
//! budget.
//!
//! An [`Explorer`] has an *incumbent*, the current plan, and *arms*, plans that might be faster. It
//! selects the plan of the next run ([`Explorer::next`]) or the arm to run beside the app
//! ([`Explorer::wants_shadow`]), and observes each run time. Comparisons are paired: runs of an arm
//! and of the incumbent alternate, close in time, so that common slowdowns cancel out. An arm is
//! dropped when it is slower, and adopted when it is faster, with statistical confidence.
//!
//! The rule is successive elimination over paired log ratios (Even-Dar et al., JMLR 2006) under the
//! budget of a conservative bandit (Wu et al., arXiv:1602.04282): the excess cost of trials stays
//! below a share of the time so far plus a few runs.
//!
//! Invariants:
//! 1. The incumbent is replaced only by an arm that was faster in paired runs with statistical
//!    confidence, with the same outputs.
//! 2. A trial whose expected excess exceeds the budget waits.
//! 3. Pure: no clock, device or thread; the same observations give the same choices. `ln` and `exp`
//!    are used, unlike in the governor's own state: choices follow real timings, which no two
//!    machines share.
//!
//! Not here: making plans and running them (the session does).

mod arm;
mod statistics;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use arm::Arm;
pub use arm::{ArmState, DropReason};
use statistics::{MEDIAN_OF, Verdict, log_deviation, median, verdict};

/// Runs of the incumbent whose median is compared with what it took before.
const WINDOW: usize = MEDIAN_OF;
/// Counted pairs of a trial's blocks, one after the other: 12 in all.
const BLOCKS: [usize; 5] = [1, 1, 2, 4, 4];
/// Ratio to the incumbent's time at which an arm's counted run ends its trial.
const HOPELESS: f64 = 2.0;
/// Ratio to the incumbent's time after which a first, cold shadow run is abandoned.
pub const GIVEN_UP: f64 = 2.0;
/// Of a gap between two runs, so much is used.
const GAP_SHARE: f64 = 0.8;
/// Standard deviations of a run by which two medians of a window differ when nothing has changed: 1.25 / √16 each, both
/// together four times that.
const NOISE: f64 = 1.8;
/// What is usual follows what is measured so slowly, by check.
const SLOWLY: f64 = 0.1;
/// Ratio to its trial time at which an adopted plan is rolled back.
const REGRESSION: f64 = 1.15;

/// The budget of an explorer, and when it retries arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExplorerSettings {
    /// Extra time of trials, compared with running only the incumbent, in thousandths of the total
    /// run time.
    pub budget_permille: u32,
    /// Additional budget, in run times of the incumbent.
    pub free_runs: u32,
    /// Change of the incumbent's median, in thousandths, after which dropped arms are retried
    /// immediately.
    pub drift_permille: u32,
    /// Interval between retries once every arm has a verdict and the median has not changed, in
    /// nanoseconds.
    pub retry_ns: u64,
}

impl Default for ExplorerSettings {
    fn default() -> Self {
        Self {
            budget_permille: 50,
            free_runs: 4,
            drift_permille: 250,
            retry_ns: 60_000_000_000,
        }
    }
}

/// A change of state: the session acts on it and reports it as an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// An arm was adopted and is the incumbent now.
    Adopted {
        /// The new incumbent.
        arm: usize,
        /// The previous incumbent.
        from: usize,
        /// Geometric mean of the ratios of its times to the previous incumbent's.
        ratio: f64,
        /// Number of counted pairs.
        pairs: usize,
    },
    /// The arm adopted last turned out slower than in its trial, so the previous incumbent runs
    /// again.
    RolledBack {
        /// The restored incumbent.
        arm: usize,
        /// The arm that had been adopted.
        from: usize,
        /// Ratio of its median to its time in the trial.
        ratio: f64,
    },
    /// An arm was dropped.
    Dropped {
        /// The arm.
        arm: usize,
        /// Why.
        reason: DropReason,
    },
    /// The incumbent's times changed, so dropped arms are tried again.
    Reopened {
        /// Ratio of its median to the earlier median.
        ratio: f64,
    },
}

/// The result of a shadow run of an arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShadowRun {
    /// Time of the arm.
    pub arm_ns: f64,
    /// Time of the incumbent, if it ran too.
    pub incumbent_ns: Option<f64>,
    /// Whether both gave the same outputs.
    pub same_answers: bool,
    /// Whether it fitted into a gap between the app's runs, so that the app did not wait for it.
    pub in_gap: bool,
    /// Whether its time counts: the plan was warm, or the run was abandoned.
    pub is_counted: bool,
}

/// The total cost of trials so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    /// Runs of the app.
    pub runs: u64,
    /// Runs of arms: runs of the app and shadow runs.
    pub trials: u64,
    /// Time that all runs would have taken on the incumbent, in nanoseconds.
    pub time_ns: f64,
    /// Extra time of trials in which an arm was slower, in nanoseconds.
    pub excess_ns: f64,
}

impl Spent {
    /// The excess as a share of the time.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.time_ns > 0.0 {
            self.excess_ns / self.time_ns
        } else {
            0.0
        }
    }
}

/// A trial under way in the app's own runs.
#[derive(Debug, Clone)]
struct Block {
    arm: usize,
    /// Counted pairs wanted.
    pairs: usize,
    /// Runs assigned to the arm and to the incumbent, including the first of each, which is not counted.
    asked: [usize; 2],
    times: [Vec<f64>; 2],
    /// Runs that ended, including the uncounted ones.
    ended: [usize; 2],
    /// Runs of the incumbent that ended while others were waited for.
    waited: usize,
}

impl Block {
    fn new(arm: usize, pairs: usize) -> Block {
        Block {
            arm,
            pairs,
            asked: [0; 2],
            times: [Vec::with_capacity(pairs), Vec::with_capacity(pairs)],
            ended: [0; 2],
            waited: 0,
        }
    }
}

/// An arm adopted lately.
#[derive(Debug, Clone)]
struct Probation {
    before: usize,
    expected_ns: f64,
    times: Vec<f64>,
}

/// Chooses among ready plans.
#[derive(Debug, Clone)]
pub struct Explorer {
    settings: ExplorerSettings,
    arms: Vec<Arm>,
    incumbent: usize,
    block: Option<Block>,
    probation: Option<Probation>,
    /// The incumbent's newest times.
    recent: VecDeque<f64>,
    /// Its median when arms were last judged.
    baseline_ns: Option<f64>,
    /// Its runs since the last check of the median.
    since_check: usize,
    /// The last check found that it had moved.
    drifted: bool,
    last_trial_ns: u64,
    spent: Spent,
}

impl Explorer {
    /// An explorer whose only plan is the incumbent. Plans are compared by value: run time times
    /// `value_per_ns`.
    #[must_use]
    pub fn new(settings: ExplorerSettings, name: &str, value_per_ns: f64) -> Explorer {
        let mut arm = Arm::new(name, 0.0, value_per_ns);
        arm.state = ArmState::Incumbent;
        Explorer {
            settings,
            arms: vec![arm],
            incumbent: 0,
            block: None,
            probation: None,
            recent: VecDeque::with_capacity(WINDOW),
            baseline_ns: None,
            since_check: 0,
            drifted: false,
            last_trial_ns: 0,
            spent: Spent {
                runs: 0,
                trials: 0,
                time_ns: 0.0,
                excess_ns: 0.0,
            },
        }
    }

    /// Adds a plan to try, with its expected run time, and returns its index.
    pub fn add(&mut self, name: &str, expected_ns: f64, value_per_ns: f64) -> usize {
        self.arms.push(Arm::new(name, expected_ns, value_per_ns));
        self.arms.len() - 1
    }

    /// Sets the budget of trials, in thousandths of the total run time.
    pub fn set_budget(&mut self, budget_permille: u32) {
        self.settings.budget_permille = budget_permille;
    }

    /// Index of the incumbent.
    #[must_use]
    pub fn incumbent(&self) -> usize {
        self.incumbent
    }

    /// Number of plans.
    #[must_use]
    pub fn len(&self) -> usize {
        self.arms.len()
    }

    /// Always false: there is always an incumbent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.arms.is_empty()
    }

    /// A plan's name.
    #[must_use]
    pub fn name(&self, arm: usize) -> &str {
        &self.arms[arm].name
    }

    /// The state of a plan.
    #[must_use]
    pub fn state(&self, arm: usize) -> &ArmState {
        &self.arms[arm].state
    }

    /// Ratio of an arm's value to the incumbent's in its trial (geometric mean), and the number of
    /// counted pairs.
    #[must_use]
    pub fn ratio(&self, arm: usize) -> Option<(f64, usize)> {
        self.arms[arm].ratio
    }

    /// The total cost of trials so far.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// Whether every arm has a verdict.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let open = |arm: &Arm| matches!(arm.state, ArmState::Unchecked | ArmState::Open);
        self.block.is_none() && self.probation.is_none() && !self.arms.iter().any(open)
    }

    /// The incumbent's time: the median of its newest runs.
    #[must_use]
    pub fn incumbent_ns(&self) -> Option<f64> {
        (!self.recent.is_empty()).then(|| median(self.recent.iter().copied()))
    }

    fn budget_left_ns(&self) -> f64 {
        let Some(run) = self.incumbent_ns() else {
            return 0.0;
        };
        let share = f64::from(self.settings.budget_permille) / 1e3 * self.spent.time_ns;
        share + f64::from(self.settings.free_runs) * run - self.spent.excess_ns
    }

    /// The plan for the next run of the app; the incumbent if `may_try` is false.
    pub fn next(&mut self, may_try: bool) -> usize {
        if !may_try {
            return self.incumbent;
        }
        if self.block.is_none() {
            self.block = self.new_block();
        }
        let Some(block) = &mut self.block else {
            return self.incumbent;
        };
        // the first of each is not counted: tensors are bound to other devices, caches are cold
        let wanted = block.pairs + 1;
        let side = usize::from(block.asked[0] >= wanted);
        if block.asked[side] >= wanted {
            // the rest is in flight
            return self.incumbent;
        }
        block.asked[side] += 1;
        if side == 0 { block.arm } else { self.incumbent }
    }

    fn new_block(&self) -> Option<Block> {
        if self.probation.is_some() {
            return None;
        }
        let run = self.incumbent_ns()?;
        let (arm, found) = self.best_open(|arm| arm.state == ArmState::Open)?;
        let pairs = BLOCKS[found.blocks.min(BLOCKS.len() - 1)];
        let excess = (found.expected_ns - run).max(0.0) * (pairs + 1) as f64;
        (excess <= self.budget_left_ns()).then(|| Block::new(arm, pairs))
    }

    /// The most promising arm of some.
    fn best_open(&self, is_meant: impl Fn(&Arm) -> bool) -> Option<(usize, &Arm)> {
        let arms = self.arms.iter().enumerate().filter(|(_, arm)| is_meant(arm));
        arms.min_by(|(_, a), (_, b)| a.expected_value().total_cmp(&b.expected_value()))
    }

    /// The arm to run beside the app on earlier inputs: an arm whose outputs were not compared yet
    /// or, if the app leaves a gap of `gap_ns` between its runs, an arm whose trial fits into the
    /// gap.
    #[must_use]
    pub fn wants_shadow(&self, gap_ns: Option<u64>) -> Option<usize> {
        let run = self.incumbent_ns()?;
        if self.block.is_some() || self.probation.is_some() {
            return None;
        }
        let room = gap_ns.map(|gap| gap as f64 * GAP_SHARE);
        let (index, arm) = match self.best_open(|arm| arm.state == ArmState::Unchecked) {
            Some(found) => found,
            None => self
                .best_open(|arm| arm.state == ArmState::Open)
                .filter(|_| gap_ns.is_some())?,
        };
        // in a gap both run once; else an arm that is new runs twice; one that takes longer is given up
        let (own, runs) = match (gap_ns, arm.state) {
            (Some(_), _) => (run, 1.0),
            (None, ArmState::Unchecked) => (0.0, 2.0),
            (None, _) => (0.0, 1.0),
        };
        let cost = own + runs * arm.expected_ns.min(GIVEN_UP * run);
        let fits = match room {
            Some(room) => cost <= room,
            None => cost <= self.budget_left_ns(),
        };
        fits.then_some(index)
    }

    /// Processes the result of a shadow run of an arm. The run was warm unless it was abandoned
    /// ([`GIVEN_UP`]). The incumbent's time is absent if its outputs were known already. The cost
    /// of the run counts against the budget unless it was in a gap.
    pub fn shadow(&mut self, arm: usize, told: ShadowRun) -> Option<Change> {
        self.spent.trials += 1;
        let usual = self.incumbent_ns()?;
        let incumbent_ns = told.incumbent_ns.unwrap_or(usual);
        if !told.in_gap {
            // an arm that is new runs twice
            let runs = if self.arms[arm].state == ArmState::Unchecked {
                2.0
            } else {
                1.0
            };
            let cost = (runs * told.arm_ns).min(runs * GIVEN_UP * incumbent_ns);
            self.spent.excess_ns += cost + told.incumbent_ns.unwrap_or(0.0);
        }
        if !told.same_answers {
            return Some(self.drop_arm(arm, DropReason::OtherAnswers));
        }
        let (own, other) = (
            self.arms[arm].value_per_ns,
            self.arms[self.incumbent].value_per_ns,
        );
        let found = &mut self.arms[arm];
        found.expected_ns = told.arm_ns;
        found.state = ArmState::Open;
        if !told.is_counted {
            return None;
        }
        let log = ((told.arm_ns * own).max(1.0) / (incumbent_ns * other).max(1.0)).ln();
        found.pairs.push(log);
        self.judge(arm)
    }

    /// Reports that an arm failed to run.
    pub fn failed(&mut self, arm: usize) -> Option<Change> {
        self.block.take_if(|block| block.arm == arm);
        if arm == self.incumbent {
            return None;
        }
        Some(self.drop_arm(arm, DropReason::Failed))
    }

    /// Reports that the session replaced its plan by itself: the new plan is the incumbent, and all
    /// comparisons start again.
    pub fn replace_incumbent(&mut self, name: &str, value_per_ns: f64) {
        self.arms.clear();
        *self = Explorer {
            spent: self.spent,
            ..Explorer::new(self.settings, name, value_per_ns)
        };
    }

    /// Reports that a run of the app on a plan ended. A run that overlapped another one is not
    /// counted.
    pub fn ended(&mut self, arm: usize, ns: f64, is_alone: bool, now_ns: u64) -> Option<Change> {
        self.spent.runs += 1;
        let usual = self.incumbent_ns().unwrap_or(ns);
        self.spent.time_ns += usual;
        if arm != self.incumbent {
            self.spent.trials += 1;
            self.spent.excess_ns += (ns - usual).max(0.0);
        }
        if self
            .block
            .as_ref()
            .is_some_and(|block| block.arm == arm || arm == self.incumbent)
        {
            return self.add_to_block(arm, ns, is_alone, now_ns);
        }
        if arm != self.incumbent || !is_alone {
            return None;
        }
        self.keep_recent(ns);
        self.watch(ns, now_ns)
    }

    fn keep_recent(&mut self, ns: f64) {
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(ns);
    }

    fn add_to_block(&mut self, arm: usize, ns: f64, is_alone: bool, now_ns: u64) -> Option<Change> {
        let is_incumbent = arm == self.incumbent;
        let usual = self.incumbent_ns().unwrap_or(ns);
        let block = self.block.as_mut()?;
        let side = usize::from(is_incumbent);
        if block.ended[side] >= block.asked[side] {
            // a run from before the block, or runs of the block failed or were dropped and never reported their end
            block.waited += 1;
            if block.waited >= WINDOW {
                self.block = None;
            }
            return None;
        }
        block.ended[side] += 1;
        if !is_alone {
            // overlapped runs tell nothing: the trial waits for quieter times
            self.block = None;
            return None;
        }
        let is_counted = block.ended[side] > 1;
        if is_counted {
            block.times[side].push(ns);
        }
        let index = block.arm;
        if !is_incumbent && is_counted && ns > HOPELESS * usual {
            self.block = None;
            self.arms[index].expected_ns = ns;
            self.arms[index].ratio = Some((ns / usual, 1));
            return Some(self.drop_arm(index, DropReason::Slower));
        }
        let block = self.block.as_ref()?;
        if block.times.iter().any(|times| times.len() < block.pairs) {
            return None;
        }
        let block = self.block.take()?;
        self.last_trial_ns = now_ns;
        for &ns in &block.times[1] {
            self.keep_recent(ns);
        }
        let (own, other) = (
            self.arms[index].value_per_ns,
            self.arms[self.incumbent].value_per_ns,
        );
        let found = &mut self.arms[index];
        found.blocks += 1;
        found.expected_ns = median(block.times[0].iter().copied());
        for (own_ns, other_ns) in block.times[0].iter().zip(&block.times[1]) {
            found
                .pairs
                .push(((own_ns * own).max(1.0) / (other_ns * other).max(1.0)).ln());
        }
        self.judge(index)
    }

    /// What the pairs of an arm say.
    fn judge(&mut self, index: usize) -> Option<Change> {
        let (said, mean) = verdict(&self.arms[index].pairs);
        let pairs = self.arms[index].pairs.len();
        self.arms[index].ratio = Some((mean.exp(), pairs));
        match said {
            Verdict::Open => None,
            Verdict::Slower => Some(self.drop_arm(index, DropReason::Slower)),
            Verdict::Alike => Some(self.drop_arm(index, DropReason::NoFaster)),
            Verdict::Faster => {
                let from = self.incumbent;
                let expected_ns = self.arms[index].expected_ns;
                self.arms[from].state = ArmState::Dropped(DropReason::Slower);
                self.arms[from].expected_ns = self.incumbent_ns().unwrap_or(expected_ns);
                self.arms[from].ratio = Some(((-mean).exp(), pairs));
                self.install(index);
                self.probation = Some(Probation {
                    before: from,
                    expected_ns,
                    times: Vec::with_capacity(WINDOW),
                });
                Some(Change::Adopted {
                    arm: index,
                    from,
                    ratio: mean.exp(),
                    pairs,
                })
            }
        }
    }

    /// Makes an arm the incumbent; comparisons with the old one are void.
    fn install(&mut self, index: usize) {
        self.incumbent = index;
        for arm in &mut self.arms {
            arm.pairs.clear();
            arm.blocks = 0;
        }
        self.arms[index].state = ArmState::Incumbent;
        self.recent.clear();
        self.baseline_ns = None;
        let expected = self.arms[index].expected_ns;
        self.keep_recent(expected);
    }

    fn drop_arm(&mut self, arm: usize, reason: DropReason) -> Change {
        self.arms[arm].state = ArmState::Dropped(reason);
        self.arms[arm].pairs.clear();
        self.arms[arm].blocks = 0;
        Change::Dropped { arm, reason }
    }

    /// Looks after an incumbent: a regression after adoption, a drift, and the trial that is due now and then.
    fn watch(&mut self, ns: f64, now_ns: u64) -> Option<Change> {
        if let Some(probation) = &mut self.probation {
            probation.times.push(ns);
            if probation.times.len() < WINDOW {
                return None;
            }
            let probation = self.probation.take()?;
            let took = median(probation.times.iter().copied());
            self.baseline_ns = Some(took);
            let before = self.arms[probation.before].expected_value();
            let now = took * self.arms[self.incumbent].value_per_ns;
            if took > REGRESSION * probation.expected_ns && now > before {
                let from = self.incumbent;
                self.arms[from].state = ArmState::Dropped(DropReason::Regressed);
                self.arms[from].expected_ns = took;
                self.install(probation.before);
                return Some(Change::RolledBack {
                    arm: probation.before,
                    from,
                    ratio: took / probation.expected_ns,
                });
            }
            return None;
        }
        self.since_check += 1;
        if self.recent.len() < WINDOW || self.since_check < WINDOW / 2 {
            return None;
        }
        self.since_check = 0;
        let now = self.incumbent_ns()?;
        let baseline = *self.baseline_ns.get_or_insert(now);
        let least = (1.0 + f64::from(self.settings.drift_permille) / 1e3).ln();
        let moved = (now / baseline).ln();
        // medians of noisy runs move by themselves
        if moved.abs() > least.max(NOISE * log_deviation(self.recent.iter().copied())) {
            // twice, so that one disturbance is none
            if !std::mem::replace(&mut self.drifted, true) {
                return None;
            }
            self.drifted = false;
            self.baseline_ns = Some(now);
            let reopened = self.reopen(usize::MAX);
            return reopened.then_some(Change::Reopened { ratio: moved.exp() });
        }
        self.drifted = false;
        self.baseline_ns = Some(baseline * f64::exp(moved * SLOWLY));
        if self.is_settled() && now_ns.saturating_sub(self.last_trial_ns) >= self.settings.retry_ns {
            self.last_trial_ns = now_ns;
            self.reopen(1);
        }
        None
    }

    /// Lets the most promising dropped arms be tried again.
    fn reopen(&mut self, most: usize) -> bool {
        let mut dropped: Vec<usize> = (0..self.arms.len())
            .filter(|&arm| match self.arms[arm].state {
                ArmState::Dropped(reason) => reason.may_pass(),
                _ => false,
            })
            .collect();
        dropped.sort_by(|&a, &b| {
            let value = |arm: usize| self.arms[arm].expected_value();
            value(a).total_cmp(&value(b))
        });
        dropped.truncate(most);
        for &arm in &dropped {
            self.arms[arm].state = ArmState::Open;
        }
        !dropped.is_empty()
    }
}
