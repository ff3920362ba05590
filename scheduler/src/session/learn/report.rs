//! The learning state of a session, for people and programs.

use polychip_governor::explore::{ArmState, DropReason};
use schemars::JsonSchema;
use serde::Serialize;

use super::Learning;

/// The results of a session's learning from its own runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LearningReport {
    /// The mode: `watch`, the budget, such as `5%`, or `no` if the session was later set to it.
    pub mode: String,
    /// The current plan, by its devices.
    pub plan: String,
    /// Whether all other plans are judged; false if none was tried.
    pub settled: bool,
    /// Runs of other plans: the app's own and shadow runs.
    pub trial_runs: u64,
    /// Cost of trials beyond the current plan, in thousandths of the time of all runs.
    pub excess_permille: f64,
    /// Allowed cost of trials in thousandths, besides four runs; none if no plans are tried.
    pub budget_permille: Option<u32>,
    /// The other plans.
    pub trials: Vec<TrialReport>,
    /// Summary in one sentence.
    pub words: String,
}

/// A plan on trial.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrialReport {
    /// Its devices.
    pub plan: String,
    /// Its state.
    pub state: TrialState,
    /// Its time relative to the plan that was current during its trial. If the objective contains
    /// energy, the ratio of the objective values.
    pub ratio: Option<f64>,
    /// Number of counted run pairs.
    pub pairs: usize,
}

/// The state of a plan on trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TrialState {
    /// Its outputs are not compared yet.
    Unchecked,
    /// It is being tried.
    Trying,
    /// It is slower.
    Slower,
    /// It is not faster with statistical confidence.
    NotFaster,
    /// Its outputs differ.
    OtherAnswers,
    /// It failed to run.
    Failed,
    /// It was adopted, and then slower than in its trial.
    Regressed,
}

impl From<ArmState> for TrialState {
    fn from(state: ArmState) -> Self {
        match state {
            ArmState::Unchecked => TrialState::Unchecked,
            ArmState::Open | ArmState::Incumbent => TrialState::Trying,
            ArmState::Dropped(reason) => match reason {
                DropReason::Slower => TrialState::Slower,
                DropReason::NoFaster => TrialState::NotFaster,
                DropReason::OtherAnswers => TrialState::OtherAnswers,
                DropReason::Failed => TrialState::Failed,
                DropReason::Regressed => TrialState::Regressed,
            },
        }
    }
}

impl Learning {
    /// The current state.
    pub(crate) fn report(&self) -> LearningReport {
        let state = self.lock();
        let (explorer, spent) = (&state.explorer, state.explorer.spent());
        let others = (0..explorer.len()).filter(|&arm| arm != explorer.incumbent());
        let trials: Vec<TrialReport> = others
            .map(|arm| {
                let (ratio, pairs) = explorer.ratio(arm).unzip();
                TrialReport {
                    plan: explorer.name(arm).to_owned(),
                    state: (*explorer.state(arm)).into(),
                    ratio,
                    pairs: pairs.unwrap_or(0),
                }
            })
            .collect();
        let mut report = LearningReport {
            mode: state.mode.to_string(),
            plan: explorer.name(explorer.incumbent()).to_owned(),
            settled: state.is_settled() && (state.tries() || explorer.len() > 1),
            trial_runs: spent.trials,
            excess_permille: spent.share() * 1e3,
            budget_permille: state.mode.budget_permille(),
            trials,
            words: String::new(),
        };
        report.words = words(&report, state.is_prepared);
        report
    }
}

fn words(report: &LearningReport, is_prepared: bool) -> String {
    let on = format!("on {}", report.plan);
    let Some(budget) = report.budget_permille else {
        return format!("{on}; runs are measured, other plans are not tried");
    };
    if !is_prepared && report.settled {
        return format!("{on}, on which an earlier session settled");
    }
    if !is_prepared {
        return format!("{on}; other plans are not made yet");
    }
    let mut judged: Vec<&TrialReport> = report
        .trials
        .iter()
        .filter(|trial| trial.ratio.is_some())
        .collect();
    judged.sort_by(|a, b| a.ratio.unwrap_or(0.0).total_cmp(&b.ratio.unwrap_or(0.0)));
    let tried = match judged.first() {
        None if report.trials.is_empty() => "no other plan is worth trying".to_owned(),
        None => format!("{} other plans wait for a trial", report.trials.len()),
        Some(best) => {
            let nearest = format!("{} takes {:.2}×", best.plan, best.ratio.unwrap_or(0.0));
            match judged.len() {
                1 => format!("{nearest} in {} trial runs", report.trial_runs),
                tried => format!(
                    "fastest of {} measured plans, {nearest} ({} trial runs)",
                    tried + 1,
                    report.trial_runs
                ),
            }
        }
    };
    format!(
        "{on}; {tried}; excess so far {:.1} % of {:.1} %",
        report.excess_permille / 10.0,
        f64::from(budget) / 10.0
    )
}
