//! Options shared by several commands, and the runtime, model and plan that they select.
//!
//! Invariant: an option means the same in every command.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use polychip::bundle::PublicKey;
use polychip::settings::{buckets, bytes, celsius, milliseconds, period, pin, plugin_setting, timeout};
use polychip::telemetry::Sensors;
use polychip::{
    Isolate, Learn, MilliCelsius, Model, ModelFiles, OnMemoryPressure, Planned, PlanningStep, Policy,
    Runtime, Session,
};

use crate::exit::{bad_input, usage, warn};
use crate::input::InputData;
use crate::progress::Progress;
use crate::{file, plan, slow_calls, vendor_output};

/// How long a command waits for a run, with the repetitions on other devices.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
/// When a run counts as hung that is predicted to be short.
const HANG_TIMEOUT: Duration = Duration::from_secs(30);
/// The same, as a multiple of the predicted time.
const HANG_FACTOR: u64 = 50;
/// How often a failed run is repeated: a device may be lost three times before others do its work.
const RETRIES: u32 = 4;

/// Plugin folders, settings and profiles.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Devices")]
pub(crate) struct RuntimeArguments {
    /// Search this folder for plugin libraries before the default locations
    #[arg(long, value_name = "DIR")]
    pub(crate) plugins: Vec<PathBuf>,
    /// Set a plugin option, such as `qnn.soc=57`; each plugin's page lists its options; repeatable
    #[arg(long, value_name = "PLUGIN.KEY=VALUE", value_parser = setting)]
    pub(crate) set: Vec<Setting>,
    /// Run plugins in separate processes, so that a crash of a driver costs a device instead of the
    /// program: those that load a vendor's library (`vendors`; `auto`: if polychip-plugin-host is
    /// installed), or all except the CPU plugin (`all`). `probe` only loads them there first and asks
    /// what they support, and then runs them in this process. Linux only (docs/isolation.md). Default:
    /// `probe` for bench, bench-llm, energy, measure, phases and profile, whose times would contain the
    /// overhead; `auto` for other commands
    #[arg(long, value_name = "none|auto|probe|vendors|all")]
    pub(crate) isolate: Option<Isolate>,
    /// Let the kernel confine the processes of `--isolate`: their drivers write only to devices,
    /// temporary files and caches, and reach no network
    #[arg(long, value_name = "yes|no", default_value = "yes", action = clap::ArgAction::Set,
          value_parser = yes_or_no)]
    pub(crate) sandbox: bool,
    /// Limit the memory of loaded plans, such as `512MiB`, `800MB` or `none`: idle sessions are unloaded first;
    /// default: the limit of the process's control group
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) memory_limit: Option<u64>,
    /// When Linux reports memory pressure, unload sessions that are idle (`follow`), or do nothing (`ignore`)
    #[arg(long, value_name = "follow|ignore", default_value = "follow")]
    pub(crate) memory_pressure: OnMemoryPressure,
    /// Hold model files in memory mapped with a guard against truncation by other processes
    /// (`guard`), copied (`copy`), or mapped without a guard (`map`)
    #[arg(long, value_name = "guard|copy|map", default_value = "guard")]
    pub(crate) model_files: ModelFiles,
    /// Treat a device as hung if a run takes longer than this (`30s`, `500ms`; a number without a
    /// unit is milliseconds), and continue without it; default: 30 s, or 50 times the predicted time
    /// if that is longer
    #[arg(long, value_name = "TIME", value_parser = timeout, help_heading = "Limits")]
    pub(crate) hang_timeout: Option<Duration>,
    /// Treat a plugin as hung if opening a device, asking it for support, compiling or loading takes
    /// longer than this, and continue without it; a plugin in this process ends the command with an
    /// error
    #[arg(long, value_name = "TIME", value_parser = timeout, default_value = "300s", help_heading = "Limits")]
    pub(crate) compile_timeout: Duration,
    /// Put guard bytes around every buffer, to find a plugin that writes outside its tensors; slow
    #[arg(long)]
    pub(crate) guard_buffers: bool,
    /// Profile database: runs record their times in it, and the planner reads them; created if missing
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Load a bundle of farm measurements, written by `polychip farm bundle`; repeatable
    #[arg(long, value_name = "FILE", requires = "trust")]
    pub(crate) bundle: Vec<PathBuf>,
    /// Trust bundles signed with this public key, as `polychip farm keygen` prints it; repeatable
    #[arg(long, value_name = "KEY")]
    pub(crate) trust: Vec<PublicKey>,
}

/// Whether sessions learn.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Devices")]
pub(crate) struct LearnArguments {
    /// Let the session learn from its own runs: `no` keeps the plan, `watch` measures it but keeps it, and `yes` (5
    /// %) or a budget of `2%` to `20%` of the total run time tries other plans and keeps the fastest
    #[arg(long, value_name = "no|watch|yes|2%…20%", default_value_t = Learn::default())]
    pub(crate) learn: Learn,
}

/// A setting of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    plugin: String,
    key: String,
    value: String,
}

/// Devices and objective.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Devices")]
pub(crate) struct PlanArguments {
    /// Use only these devices, separated by commas: `plugin:index`, or `plugin` for all devices of a plugin
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) devices: Vec<String>,
    /// Pin nodes to a device, by node name or by a pattern (`*`: any text, `?`: any character); repeatable
    #[arg(long, value_name = "PATTERN=DEVICE", value_parser = pin)]
    pub(crate) pin: Vec<(String, String)>,
    /// Objective to minimise
    #[arg(long, value_enum, default_value_t = Aim::Latency)]
    pub(crate) policy: Aim,
    /// With `--policy balanced`, the price of one joule in milliseconds, without a limit on the run's time; default:
    /// 200, within 1.5 times the fastest plan's time
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) energy_price: Option<Duration>,
    /// Period between the app's runs, used for measuring and planning: `33ms`, `30fps`, or `0` for back to back;
    /// default: the period of the model's earlier sessions in the profile, else back to back
    #[arg(long, value_name = "MS|FPS", value_parser = period)]
    pub(crate) period: Option<Duration>,
    /// Before planning, calibrate devices that have no calibration yet: run small networks on each,
    /// for at most 300 ms in total, scale the stated times by the measured ones, and store the
    /// result in the profile
    #[arg(long)]
    pub(crate) calibrate: bool,
    /// Maximum number of CPU threads; default: the plugin's choice
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Numeric precision
    #[arg(long, value_enum, default_value_t = PrecisionArgument::Auto)]
    pub(crate) precision: PrecisionArgument,
    /// Priority of the runs on a device that several sessions share
    #[arg(long, value_enum, default_value_t = Priority::Normal)]
    pub(crate) priority: Priority,
    #[command(flatten)]
    pub(crate) runtime: RuntimeArguments,
}

/// How parts are compiled and run.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Devices")]
pub(crate) struct SessionArguments {
    #[command(flatten)]
    pub(crate) plan_arguments: PlanArguments,
    /// Run the plan in this file, written by `polychip partition -o`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["devices", "policy", "pin"])]
    pub(crate) plan: Option<PathBuf>,
    /// Run the plan in MODEL.plan.lock, written by `polychip partition --lock`
    #[arg(long, conflicts_with_all = ["plan", "devices", "policy", "pin"])]
    pub(crate) locked: bool,
    /// Cache compiled parts in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Fail if a device refuses its part or is lost permanently, instead of replanning without it
    #[arg(long)]
    pub(crate) no_replan: bool,
    /// Seed of the random numbers of nodes without a seed of their own
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) learn: LearnArguments,
    /// Deadline of a run in milliseconds (`33` or `33ms`): the planner picks a plan predicted to meet it if there is
    /// one, and a slower run counts as late
    #[arg(long, value_name = "MS", value_parser = milliseconds, help_heading = "Limits")]
    pub(crate) deadline: Option<Duration>,
    /// Exclude devices hotter than this, in degrees Celsius; they return once they have cooled
    #[arg(long, value_name = "CELSIUS", value_parser = celsius, help_heading = "Limits")]
    pub(crate) max_temperature: Option<MilliCelsius>,
    #[arg(long = "hottest", hide = true, value_parser = |_: &str| crate::limits::renamed("--max-temperature"))]
    _hottest: Option<std::convert::Infallible>,
}

/// The model.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelArguments {
    /// ONNX model; `-` reads standard input
    pub(crate) model: PathBuf,
    /// Set the size of a named dimension
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dimension)]
    pub(crate) dims: Vec<(String, usize)>,
    /// Set the shape of an input, and with it the model's open dimensions
    #[arg(long = "shape", value_name = "INPUT=1x3x48x192", value_parser = shape)]
    pub(crate) shapes: Vec<(String, Vec<usize>)>,
}

/// Sizes that runs are padded to.
#[derive(Debug, clap::Args)]
pub(crate) struct BucketArguments {
    /// Plan only for these sizes of an open dimension, and pad each run to the next larger one; repeatable
    #[arg(long, value_name = "NAME=1,4,16", value_parser = buckets, conflicts_with_all = ["plan", "locked"])]
    pub(crate) buckets: Vec<(String, Vec<usize>)>,
}

/// Numeric precision as requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PrecisionArgument {
    /// For language models reduced if its measured error is small, otherwise exact
    Auto,
    /// Compute in the model's own types
    Exact,
    /// Allow f32 to be computed in 16-bit floats, and activations of language models in 8-bit integers
    Reduced,
}

impl PrecisionArgument {
    /// The precision of a model that is not a language model.
    pub(crate) fn resolved(self) -> Precision {
        match self {
            PrecisionArgument::Auto | PrecisionArgument::Exact => Precision::Exact,
            PrecisionArgument::Reduced => Precision::Reduced,
        }
    }
}

impl From<Precision> for PrecisionArgument {
    fn from(precision: Precision) -> PrecisionArgument {
        match precision {
            Precision::Exact => PrecisionArgument::Exact,
            Precision::Reduced => PrecisionArgument::Reduced,
        }
    }
}

/// Numeric precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Precision {
    /// Compute in the model's own types
    Exact,
    /// Allow f32 to be computed in 16-bit floats
    Reduced,
}

impl Precision {
    /// The library's value.
    pub(crate) fn of_library(self) -> polychip::Precision {
        match self {
            Precision::Exact => polychip::Precision::Exact,
            Precision::Reduced => polychip::Precision::Reduced,
        }
    }

    /// The name as arguments have it.
    pub(crate) fn name(precision: polychip::Precision) -> &'static str {
        match precision {
            polychip::Precision::Exact => "exact",
            polychip::Precision::Reduced => "reduced",
        }
    }
}

/// How urgent runs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Priority {
    /// Background work
    Batch,
    /// Default
    Normal,
    /// Interactive work, such as a video frame
    Urgent,
}

/// Objective to minimise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Aim {
    /// The time of a run
    Latency,
    /// The energy of a run
    Energy,
    /// Time and energy, with a joule at its price in time; within 1.5 times the fastest plan's time unless
    /// `--energy-price` is set
    Balanced,
    /// The time of a run whose branches run on several devices concurrently
    Makespan,
    /// The time between consecutive runs
    Throughput,
}

/// Reads `NAME=N`.
pub(crate) fn dimension(text: &str) -> Result<(String, usize), String> {
    let (name, size) = text.rsplit_once('=').ok_or("write NAME=N")?;
    if name.is_empty() {
        return Err("the name is empty; write NAME=N".into());
    }
    let size = size
        .parse()
        .map_err(|_| format!("invalid size {size:?}; write NAME=N"))?;
    Ok((name.to_owned(), size))
}

/// Reads `INPUT=1x3x48x192`.
pub(crate) fn shape(text: &str) -> Result<(String, Vec<usize>), String> {
    const FORM: &str = "write INPUT=1x3x48x192";
    let (name, shape) = text.rsplit_once('=').ok_or(FORM)?;
    if name.is_empty() {
        return Err(format!("the input's name is empty; {FORM}"));
    }
    let sizes = shape.split('x').map(|size| {
        size.parse()
            .map_err(|_| format!("invalid shape {shape:?}: {size:?} is not a size; {FORM}"))
    });
    Ok((name.to_owned(), sizes.collect::<Result<Vec<usize>, String>>()?))
}

/// Reads `PLUGIN.KEY=VALUE`.
fn setting(text: &str) -> Result<Setting, String> {
    let (plugin, key, value) = plugin_setting(text)?;
    Ok(Setting { plugin, key, value })
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected yes or no".to_owned()),
    }
}

/// Loads the plugins. An unusable named bundle is an error here, not a warning.
fn made(builder: polychip::Builder) -> anyhow::Result<Runtime> {
    let runtime = vendor_output::withheld(
        || builder.build(),
        |runtime| {
            let mut refusals = runtime.refusals().iter();
            refusals.all(|refusal| refusal.is_absent_chip)
        },
    )?;
    let mut bundles = runtime.bundles().iter();
    match bundles.find(|bundle| bundle.manifest().is_err()) {
        Some(refused) => Err(bad_input(format!("bundle {refused}"))),
        None => Ok(runtime),
    }
}

/// An error where a bundle cannot be loaded because no key is trusted.
pub(crate) fn check_trust(bundle: &Path, trust: &[PublicKey]) -> anyhow::Result<()> {
    if trust.is_empty() {
        return Err(usage(format!(
            "{} is a bundle: name the key that signed it with --trust KEY, as `polychip farm keygen` printed it",
            bundle.display()
        )));
    }
    Ok(())
}

impl RuntimeArguments {
    /// Whether `--profile` names a bundle, which is only read.
    pub(crate) fn has_bundle_for_profile(&self) -> bool {
        self.profile
            .as_deref()
            .is_some_and(polychip::LoadedBundle::is_one)
    }

    /// Loads the plugins, those of vendors in processes of their own by default.
    pub(crate) fn runtime(&self, cache: Option<&PathBuf>) -> anyhow::Result<Runtime> {
        made(self.builder(cache, Isolate::Auto)?)
    }

    /// As [`RuntimeArguments::runtime`], after the quarantines of earlier programs are forgotten.
    pub(crate) fn runtime_without_quarantine(&self) -> anyhow::Result<Runtime> {
        made(self.builder(None, Isolate::Auto)?.clear_quarantine())
    }

    /// Loads the plugins, all into this process by default: for a command that measures times.
    fn timed_runtime(&self, cache: Option<&PathBuf>) -> anyhow::Result<Runtime> {
        made(self.builder(cache, Isolate::Probe)?)
    }

    /// As [`RuntimeArguments::timed_runtime`], with plugins that measure their rates if the given profile has none.
    fn measuring_runtime(&self) -> anyhow::Result<Runtime> {
        let builder = self.builder(None, Isolate::Probe)?;
        let builder = match self.profile {
            // the rates are measured for the database
            Some(_) if !self.has_bundle_for_profile() => builder.measure_rates(),
            _ => builder,
        };
        made(builder)
    }

    /// `isolate`: where plugins run if the arguments do not say.
    fn builder(&self, cache: Option<&PathBuf>, isolate: Isolate) -> anyhow::Result<polychip::Builder> {
        slow_calls::watch(slow_calls::Limits {
            execute: self.hang_timeout.unwrap_or(HANG_TIMEOUT),
            other: self.compile_timeout,
        });
        let mut builder = Runtime::builder()
            .isolate(self.isolate.unwrap_or(isolate))
            .sandbox(self.sandbox)
            .model_files(self.model_files)
            .memory_pressure(self.memory_pressure)
            .compile_timeout(self.compile_timeout);
        if let Some(limit) = self.memory_limit {
            builder = builder.memory_limit(limit);
        }
        if let Some(limit) = self.hang_timeout {
            builder = builder.call_timeout(limit);
        }
        if self.guard_buffers {
            builder = builder.guard_buffers();
        }
        for folder in &self.plugins {
            if !folder.is_dir() {
                return Err(usage(format!(
                    "--plugins {}: there is no such folder",
                    folder.display()
                )));
            }
            builder = builder.plugins(folder);
        }
        for Setting { plugin, key, value } in &self.set {
            builder = builder.configure(plugin, key, value);
        }
        if let Some(file) = &self.profile {
            if self.has_bundle_for_profile() {
                check_trust(file, &self.trust)?;
            } else {
                // an unusable named file is an error here, not a warning
                drop(polychip::Profile::open(file)?);
            }
            builder = builder.profiles(file);
        }
        builder = self
            .trust
            .iter()
            .fold(builder, |builder, key| builder.trust(*key));
        builder = self.bundle.iter().fold(builder, polychip::Builder::profiles);
        if let Some(folder) = cache {
            file::check_folder(folder)?;
            builder = builder.cache(folder);
        }
        Ok(builder)
    }

    /// Reports unused plugins of the given folders on standard error.
    pub(crate) fn say_refusals(&self, runtime: &Runtime) {
        // of a device, `npu:0`: its plugin works, so somebody wants it
        let is_device = |subject: &str| {
            let number = subject.rsplit_once(':').map(|(_, number)| number.parse::<u32>());
            number.is_some_and(|number| number.is_ok())
        };
        for refusal in runtime.refusals() {
            let mut folders = self.plugins.iter();
            let is_given = folders.any(|folder| refusal.subject.starts_with(&*folder.to_string_lossy()));
            if is_given || is_device(&refusal.subject) {
                warn(format!("not used: {refusal}"));
            }
        }
    }
}

impl PlanArguments {
    /// Reports unused plugins of the given folders on standard error, unless a requested device is missing, so that
    /// the following error stands alone.
    fn say_refusals(&self, runtime: &Runtime) {
        let is_there = |name: &String| {
            let mut devices = runtime.devices().iter();
            devices.any(|device| device.name() == name || device.plugin().name == *name)
        };
        if self.devices.iter().all(is_there) {
            self.runtime.say_refusals(runtime);
        }
    }

    /// Loads the plugins, and reports unused ones.
    pub(crate) fn runtime(&self, cache: Option<&PathBuf>) -> anyhow::Result<Runtime> {
        let runtime = self.runtime.runtime(cache)?;
        self.say_refusals(&runtime);
        Ok(runtime)
    }

    /// As [`PlanArguments::runtime`], whose governed sessions read these sensors.
    pub(crate) fn runtime_reading(&self, sensors: Sensors) -> anyhow::Result<Runtime> {
        let runtime = made(self.runtime.builder(None, Isolate::Auto)?.sensors(sensors))?;
        self.say_refusals(&runtime);
        Ok(runtime)
    }

    /// As [`PlanArguments::runtime`], for a command that measures times.
    pub(crate) fn timed_runtime(&self, cache: Option<&PathBuf>) -> anyhow::Result<Runtime> {
        let runtime = self.runtime.timed_runtime(cache)?;
        self.say_refusals(&runtime);
        Ok(runtime)
    }

    /// As [`PlanArguments::timed_runtime`], with plugins that measure their rates if the given profile has none.
    pub(crate) fn measuring_runtime(&self) -> anyhow::Result<Runtime> {
        let runtime = self.runtime.measuring_runtime()?;
        self.say_refusals(&runtime);
        Ok(runtime)
    }

    /// Names of the requested devices, by name or by plugin.
    pub(crate) fn names_of_devices(&self, runtime: &Runtime) -> Vec<String> {
        let is_asked = |name: &str| {
            let plugin = name.split(':').next().unwrap_or(name);
            self.devices.is_empty() || self.devices.iter().any(|one| one == name || one == plugin)
        };
        let names = runtime.devices().iter().map(|device| device.name().to_owned());
        names.filter(|name| is_asked(name)).collect()
    }

    /// The requested policy with its threads.
    pub(crate) fn policy(&self) -> Policy {
        self.policy_of(match self.policy {
            Aim::Latency => Policy::latency(),
            Aim::Energy => Policy::energy(),
            Aim::Balanced => Policy::balanced(),
            Aim::Makespan => Policy::makespan(),
            Aim::Throughput => Policy::throughput(),
        })
    }

    /// The same for another objective.
    pub(crate) fn policy_of(&self, policy: Policy) -> Policy {
        let policy = match self.threads {
            Some(threads) => policy.threads(threads),
            None => policy,
        };
        let policy = match self.period {
            Some(period) => policy.period(period),
            None => policy,
        };
        let policy = match self.energy_price {
            Some(price) => policy.energy_price(price),
            None => policy,
        };
        let policy = policy
            .precision(self.precision.resolved().of_library())
            .calibrate(self.calibrate);
        let policy = policy.priority(match self.priority {
            Priority::Batch => polychip::Priority::Batch,
            Priority::Normal => polychip::Priority::Normal,
            Priority::Urgent => polychip::Priority::Urgent,
        });
        let policy = match self.runtime.hang_timeout {
            Some(limit) => policy.hang_timeout(limit),
            None => policy,
        };
        let pins = self.pin.iter();
        let policy = pins.fold(policy, |policy, (pattern, device)| policy.pin(pattern, device));
        if self.devices.is_empty() {
            policy
        } else {
            policy.devices(&self.devices)
        }
    }
}

impl SessionArguments {
    /// Loads the plugins, and reports unused ones.
    pub(crate) fn runtime(&self) -> anyhow::Result<Runtime> {
        self.plan_arguments.runtime(self.cache.as_ref())
    }

    /// The same for a command that measures times.
    pub(crate) fn timed_runtime(&self) -> anyhow::Result<Runtime> {
        self.plan_arguments.timed_runtime(self.cache.as_ref())
    }

    /// The requested policy, with one run in flight. A run counts as hung as late as the command stops waiting for it,
    /// unless the arguments say otherwise: nothing predicts it.
    pub(crate) fn policy(&self) -> Policy {
        let mut policy = self.plan_arguments.policy().in_flight(1);
        if let Some(deadline) = self.deadline {
            policy = policy.deadline(deadline);
        }
        if let Some(limit) = self.max_temperature {
            policy = policy.max_temperature(limit);
        }
        policy
            .replan(!self.no_replan)
            .learn(self.learn.learn)
            .seed(self.seed)
            .retry(RETRIES)
            .hang_timeout(self.plan_arguments.runtime.hang_timeout.unwrap_or(PATIENCE))
    }

    /// The policy for runs of a plan, which count as hung by the time that it predicts.
    pub(crate) fn policy_for(&self, planned: &Planned) -> Policy {
        let policy = self.policy();
        if self.plan_arguments.runtime.hang_timeout.is_some() {
            return policy;
        }
        let predicted = planned.plan().totals.time.nanoseconds();
        let longest = Duration::from_nanos(predicted.saturating_mul(HANG_FACTOR)).min(PATIENCE);
        let limit = HANG_TIMEOUT.max(longest);
        slow_calls::allow_execute(limit);
        policy.hang_timeout(limit)
    }

    /// Plans the model, or checks the given plan.
    pub(crate) fn planned(&self, runtime: &Runtime, model: &Model) -> anyhow::Result<Planned> {
        let policy = self.policy();
        let lock = self.locked.then(|| plan::lock_of(model.path()));
        let Some(path) = self.plan.as_ref().or(lock.as_ref()) else {
            return planned(runtime, model, &policy);
        };
        let _progress = Progress::of("planning");
        let plan = plan::read(path)?;
        Ok(runtime.with_plan(model, &policy, plan)?)
    }

    /// Plans, compiles and loads.
    pub(crate) fn session(&self, runtime: &Runtime, model: &Model) -> anyhow::Result<Session> {
        Ok(self.session_of(runtime, model, |_| 1)?.0)
    }

    /// The same with a number of runs in flight that depends on the plan; returns that number.
    pub(crate) fn session_of(
        &self,
        runtime: &Runtime,
        model: &Model,
        in_flight: impl Fn(&Planned) -> usize,
    ) -> anyhow::Result<(Session, usize)> {
        let planned = self.planned(runtime, model)?;
        let runs = in_flight(&planned);
        let _progress = Progress::of("compiling");
        let policy = self.policy_for(&planned).in_flight(runs);
        Ok((runtime.session_of(planned, policy)?, runs))
    }

    /// As [`SessionArguments::session`], for a model with open sizes and buckets, prepared for these inputs.
    pub(crate) fn bucketed(
        &self,
        runtime: &Runtime,
        model: &ModelArguments,
        buckets: &BucketArguments,
        given: &[InputData],
        in_flight: usize,
    ) -> anyhow::Result<Session> {
        let has_buckets = |name: &str| buckets.buckets.iter().any(|(other, _)| other == name);
        let dims = model.dims.iter().filter(|(name, _)| !has_buckets(name));
        let model = runtime.load(&model.model)?.bind(dims.cloned())?;
        let policy = buckets
            .buckets
            .iter()
            .fold(self.policy().in_flight(in_flight), |policy, (name, sizes)| {
                policy.shapes(name, sizes.iter().copied())
            });
        let _progress = Progress::of("planning and compiling");
        let session = runtime.session(&model, policy)?;
        session.prepare(given.iter().map(|given| (&given.name, &given.array.shape)))?;
        Ok(session)
    }
}

/// Plans a model, and shows progress if it takes long.
pub(crate) fn planned(runtime: &Runtime, model: &Model, policy: &Policy) -> anyhow::Result<Planned> {
    let progress = Progress::told("planning");
    let start = Instant::now();
    let watch = |step: PlanningStep<'_>| {
        let left = match step.number {
            0 => String::new(),
            // steps take about as long as each other: each walks over the whole model
            done => {
                let left = start.elapsed() / done as u32 * (step.steps - done) as u32;
                format!(", about {} s left", left.as_secs())
            }
        };
        progress.at(
            step.number as u64,
            step.steps as u64,
            format!("planning: {}{left}", step.words),
        );
    };
    Ok(runtime.plan_watched(model, policy, &watch)?)
}

impl ModelArguments {
    /// Reads the model and sets the named dimensions.
    pub(crate) fn load(&self, runtime: &Runtime) -> anyhow::Result<Model> {
        let _progress = Progress::of("reading the model");
        for (index, (name, _)) in self.dims.iter().enumerate() {
            if self.dims[..index].iter().any(|(other, _)| other == name) {
                return Err(usage(format!("--dim {name} is given twice")));
            }
        }
        for (index, (name, _)) in self.shapes.iter().enumerate() {
            if self.shapes[..index].iter().any(|(other, _)| other == name) {
                return Err(usage(format!("--shape {name} is given twice")));
            }
        }
        let model = if self.model.as_os_str() == "-" {
            runtime.load_bytes("standard input", file::read(&self.model)?)?
        } else {
            runtime.load(&self.model)?
        };
        let model = model.bind(self.dims.iter().cloned())?;
        Ok(model.bind_shapes(self.shapes.iter().map(|(name, shape)| (name, shape)))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_a_name_and_a_size() {
        assert_eq!(dimension("batch=4"), Ok(("batch".into(), 4)));
        assert_eq!(dimension("a=b=2"), Ok(("a=b".into(), 2)));
        for bad in ["batch", "=4", "batch=", "batch=-1", "batch=x"] {
            assert!(dimension(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn buckets_are_a_dimension_and_sizes_above_zero() {
        assert_eq!(buckets("x.3=1,4,16"), Ok(("x.3".into(), vec![1, 4, 16])));
        for bad in ["n", "=4", "n=", "n=0,4", "n=1,,4", "n=1x4"] {
            assert!(buckets(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shapes_are_an_input_and_sizes() {
        assert_eq!(shape("x=1x3x48x192"), Ok(("x".into(), vec![1, 3, 48, 192])));
        assert_eq!(shape("a=b=7"), Ok(("a=b".into(), vec![7])));
        for bad in ["x", "=1", "x=", "x=1x", "x=1,3", "x=1x-3"] {
            assert!(shape(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pins_are_a_pattern_and_a_device() {
        assert_eq!(pin("a*=cpu:0"), Ok(("a*".into(), "cpu:0".into())));
        assert_eq!(pin("a=b=cpu:0"), Ok(("a=b".into(), "cpu:0".into())));
        for bad in ["a", "=cpu:0", "a=", ""] {
            assert!(pin(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn settings_are_a_plugin_a_key_and_a_value() {
        let made = |plugin: &str, key: &str, value: &str| Setting {
            plugin: plugin.into(),
            key: key.into(),
            value: value.into(),
        };
        assert_eq!(setting("qnn.soc=57"), Ok(made("qnn", "soc", "57")));
        assert_eq!(
            setting("qnn.lib_dir=/a.b=c"),
            Ok(made("qnn", "lib_dir", "/a.b=c"))
        );
        assert_eq!(setting("null.script="), Ok(made("null", "script", "")));
        for bad in ["qnn", "qnn.soc", "soc=57", ".soc=57", "qnn.=57", ""] {
            assert!(setting(bad).is_err(), "{bad}");
        }
    }
}
