//! `polychip partition`: the plan of a model, for people, for programs, and as a file to run later.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use polychip::{Cadence, MeasuredFigure, Planned};
use polychip_partitioner::{self as partitioner, Explanation, Plan, Report};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::{Code, bad_input, failure};
use crate::input::InputArguments;
use crate::limits::LimitArguments;
use crate::output::Output;
use crate::per_op::{self, PerOp};
use crate::progress::Progress;
use crate::setup::{self, ModelArguments, PlanArguments};
use crate::{file, page, plan};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Write the plan to this file, for `polychip run --plan` and `polychip plan diff`
    #[arg(short, long, value_name = "PLAN")]
    output: Option<PathBuf>,
    /// Write an HTML page with the graph, timeline, costs and reasons
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Compare with this plan or lock file on the page: moved nodes, and both plans' times side by side
    #[arg(long, value_name = "PLAN", requires = "html")]
    against: Option<PathBuf>,
    /// Run the plan with generated inputs and show each kernel's measured time on the page
    #[arg(long, requires = "html")]
    per_op: bool,
    /// Write the plan to MODEL.plan.lock, for `--locked`
    #[arg(long)]
    lock: bool,
    /// Plan with the costs in MODEL.plan.lock, and exit with code 1 if a change of the model,
    /// device support or options moves a node
    #[arg(long, conflicts_with = "lock")]
    locked: bool,
    /// Also compute the Pareto front of time and energy, with at most this many plans
    #[arg(long, value_name = "PLANS", num_args = 0..=1, require_equals = true, default_missing_value = "8", value_parser = clap::value_parser!(u16).range(1..=256))]
    front: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    plan: PlanArguments,
}

/// Output of `partition --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PartitionOutput {
    /// Model file.
    model: String,
    /// The plan with names, and the costs of simple heuristics.
    report: Report,
    /// The plan as `-o` writes it.
    plan: Plan,
    /// Measurements behind the plan: number of runs and conditions.
    measured: Vec<MeasuredFigure>,
    /// How the runs that the plan is for follow each other.
    cadence: Cadence,
    /// Doubtful costs, and settings without effect.
    warnings: Vec<polychip::Warning>,
    /// With `--front`: plans from fastest to most frugal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    front: Vec<Plan>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let (plan, limits) = (&arguments.plan, &arguments.limits);
    let (planned, per_op) = if arguments.per_op {
        measured(plan, limits, &arguments.model)?
    } else {
        (planned(plan, limits, &arguments.model, false)?, None)
    };
    let report = report(&planned)?;
    let model = &arguments.model.model;
    if arguments.locked {
        hold(&planned, &plan::lock_of(model))?;
    }
    let against = match &arguments.against {
        Some(path) => Some((path.display().to_string(), plan::read(path)?)),
        None => None,
    };
    let html = match &arguments.html {
        Some(path) => {
            let title = model
                .file_name()
                .unwrap_or(model.as_os_str())
                .to_string_lossy()
                .into_owned();
            let beside = page::Beside {
                per_op: per_op.as_ref(),
                against: against.as_ref().map(|(title, plan)| (title.as_str(), plan)),
            };
            Some((
                path,
                page::page(title, &planned, &report, &explained(&planned)?, beside)?,
            ))
        }
        None => None,
    };
    if let Some(path) = &arguments.output {
        file::write(path, planned.plan_file().to_json().as_bytes())?;
    }
    if arguments.lock {
        file::write(&plan::lock_of(model), planned.lock_file().to_json().as_bytes())?;
    }
    if let Some((path, page)) = &html {
        file::write(path, page.as_bytes())?;
    }
    let front = match arguments.front {
        Some(most) => planned.front(usize::from(most))?,
        None => Vec::new(),
    };
    let front: Vec<Plan> = front.iter().map(|planned| planned.plan().clone()).collect();
    if arguments.json {
        return out.json(&PartitionOutput {
            model: model.display().to_string(),
            report,
            plan: planned.plan_file(),
            measured: planned.measured(),
            cadence: planned.cadence(),
            warnings: planned.warnings().to_vec(),
            front,
        });
    }
    let cadence = match planned.cadence() {
        Cadence::BackToBack => String::new(),
        cadence => format!("planned for cadence {cadence}\n"),
    };
    let warnings: String = planned
        .warnings()
        .iter()
        .map(|warning| format!("{warning}\n"))
        .collect();
    out.text(&(report.to_string() + &cadence + &warnings + &table(&front)))
}

/// Plans from fastest to most frugal, a line each; nothing without plans.
fn table(front: &[Plan]) -> String {
    let mut text = String::new();
    if !front.is_empty() {
        text += &format!("\n{:>12} {:>12} {:>6}  devices\n", "time", "energy", "parts");
    }
    for plan in front {
        let energy = plan
            .totals
            .energy
            .map_or_else(String::new, |energy| energy.to_string());
        let mut devices: Vec<&str> = plan
            .parts
            .iter()
            .map(|part| plan.devices[part.device.index()].as_str())
            .collect();
        devices.sort_unstable();
        devices.dedup();
        text += &format!(
            "{:>12} {energy:>12} {:>6}  {}\n",
            plan.totals.time.to_string(),
            plan.parts.len(),
            devices.join(" ")
        );
    }
    text
}

/// Fails where planning with a lock file's own costs places nodes elsewhere than it does: where the model, what devices
/// support or what is asked for changed. What is measured since is no difference.
fn hold(planned: &Planned, lock: &Path) -> anyhow::Result<()> {
    let locked = plan::read(lock)?;
    let again = planned
        .replanned_as(&locked)
        .map_err(|error| anyhow::Error::from(error).context(lock.display().to_string()))?;
    let found = partitioner::diff(&locked, &again);
    if found.moved.is_empty() && found.added.is_empty() && found.removed.is_empty() {
        return Ok(());
    }
    let words = format!(
        "{}: the new plan differs at the lock's costs; accept it with `polychip partition --lock`\n{found}",
        lock.display()
    );
    Err(failure(Code::Differs, words.trim_end()))
}

/// Why each node is where it is.
pub(crate) fn explained(planned: &Planned) -> anyhow::Result<Explanation> {
    let _progress = Progress::of("explaining the plan");
    partitioner::explain(planned.request(), planned.plan())
        .map_err(|error| bad_input(format!("explaining the plan: {error}")))
}

/// The plan of a model; where it is to be compiled, the one that the devices accept.
pub(crate) fn planned(
    arguments: &PlanArguments,
    limits: &LimitArguments,
    model: &ModelArguments,
    compile: bool,
) -> anyhow::Result<Planned> {
    let runtime = arguments.runtime(None)?;
    let model = model.load(&runtime)?;
    let policy = limits.limited(arguments.policy().in_flight(1));
    let planned = setup::planned(&runtime, &model, &policy)?;
    if !compile {
        return Ok(planned);
    }
    let _progress = Progress::of("compiling");
    let session = runtime.session_of(planned, policy)?;
    let planned = session.planned().context("the session has no plan yet")?;
    Ok(planned.as_ref().clone())
}

/// The plan of a model as the devices accept it, and what its kernels took in runs with inputs made from a seed.
pub(crate) fn measured(
    arguments: &PlanArguments,
    limits: &LimitArguments,
    model: &ModelArguments,
) -> anyhow::Result<(Planned, Option<PerOp>)> {
    let runtime = arguments.runtime(None)?;
    let (model, given) = InputArguments::of_seed().read(&model.load(&runtime)?)?;
    let policy = limits.limited(arguments.policy().in_flight(1));
    let planned = setup::planned(&runtime, &model, &policy)?;
    let session = {
        let _progress = Progress::of("compiling");
        runtime.session_of(planned, policy)?
    };
    let per_op = per_op::of_session(&session, &given)?;
    let planned = session.planned().context("the session has no plan yet")?;
    Ok((planned.as_ref().clone(), Some(per_op)))
}

/// The report of a plan, compared with what simple rules would have cost.
pub(crate) fn report(planned: &Planned) -> anyhow::Result<Report> {
    Ok(planned.compared()?)
}
