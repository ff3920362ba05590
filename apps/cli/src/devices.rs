//! `polychip devices`: loaded plugins and devices, and refused ones with the reason.
//!
//! Invariant: an unstated figure or a missing sensor is null, never zero.

use std::fmt::Write as _;
use std::time::Duration;

use polychip::telemetry::{DeviceState, Rules, Sampler, Sensors};
use polychip::{Device, RefusedRun, Runtime};
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::Output;
use crate::setup::RuntimeArguments;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Forget the nodes that devices refused at compile time, so that they are tried again
    #[arg(long, requires = "profile")]
    forget_refusals: bool,
    /// Forget which plugins were quarantined because their processes died, so that their devices are used again
    #[arg(long, requires = "profile")]
    clear_quarantine: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    runtime: RuntimeArguments,
}

/// Output of `devices --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DevicesOutput {
    /// The devices, plugin by plugin.
    devices: Vec<DeviceLine>,
    /// Plugins, folders and devices that are not used.
    refused: Vec<RefusalLine>,
}

/// One device.
#[derive(Debug, Serialize, JsonSchema)]
struct DeviceLine {
    /// Name for `--devices`, `plugin:index`.
    name: String,
    /// What it is.
    kind: &'static str,
    /// Name for people.
    title: String,
    /// Maker.
    vendor: String,
    /// System on chip, or empty.
    soc: String,
    /// Version of the driver or the vendor's library.
    driver: String,
    /// Its plugin.
    plugin: PluginLine,
    /// Memory limit of parts in bytes, if limited.
    memory_bytes: Option<u64>,
    /// Peak f32 rate in multiply-adds per second, if stated.
    peak_macs_per_s: Option<u64>,
    /// Peak memory rate in bytes per second, if stated.
    peak_bytes_per_s: Option<u64>,
    /// Rate of the bus between host and device memory in bytes per second, if there is one.
    link_bytes_per_s: Option<u64>,
    /// Time of the rate measurement in seconds since 1970; null for stated rates.
    rates_measured_s: Option<u64>,
    /// When a part that it has begun gives way to a more urgent one.
    preemption: PreemptionLine,
    /// Useful number of concurrent parts, if stated; otherwise one.
    queue_depth: Option<u32>,
    /// Time to switch between parts of different plans in nanoseconds, if stated.
    switch_ns: Option<u64>,
    /// Other factors of its speed: cores, threads, instruction set, configuration. Part of its profile key.
    settings: String,
    /// Computes on host memory without a copy.
    shares_host_memory: bool,
    /// Imports host memory.
    imports_host_memory: bool,
    /// The figures are not a real chip's.
    emulated: bool,
    /// Lost or hung, and not reset since.
    quarantined: bool,
    /// Runs of nodes that it refused to compile, remembered in the profile.
    remembered_refusals: Vec<RememberedLine>,
    /// Settings of clocks that it can be put to.
    operating_points: Vec<OperatingPointLine>,
    /// Readings of its plugin's sensors; null without sensors or on failure.
    telemetry: Option<TelemetryLine>,
    /// Temperature, power, energy, clock and load: the sensor of each, the plugin's or the system's, or why there is
    /// none.
    sensors: Vec<SensorLine>,
    /// Conditions that select the measured times for a plan made now.
    conditions: String,
}

/// When a part that a device has begun gives way to a more urgent one.
#[derive(Debug, Serialize, JsonSchema)]
struct PreemptionLine {
    /// `none`, `commands` (between two of its commands), `any_time`, or `unknown` if the plugin does not state it.
    when: &'static str,
    /// Maximum time until it yields in nanoseconds; null without a bound.
    bound_ns: Option<u64>,
}

impl PreemptionLine {
    /// The words of people; none where nothing is known.
    fn words(&self) -> Option<String> {
        let when = match self.when {
            "none" => return Some("parts run to completion".to_owned()),
            "commands" => "parts yield between commands",
            "any_time" => "parts yield at any time",
            _ => return None,
        };
        Some(match self.bound_ns {
            Some(bound) => format!("{when}, within {} µs", bound as f64 / 1e3),
            None => format!("{when}, no bound stated"),
        })
    }
}

/// A sensor of a device.
#[derive(Debug, Serialize, JsonSchema)]
struct SensorLine {
    /// Quantity and unit: `temperature_mc`, `power_mw`, `energy_uj`, `frequency_khz`, `load_permille`.
    quantity: &'static str,
    /// Its reading; null without a sensor or on failure.
    value: Option<i64>,
    /// Its name; null without a value.
    sensor: Option<String>,
    /// Reason for a missing value; null if there is a value.
    reason: Option<String>,
}

impl SensorLine {
    /// Those of a device.
    fn all(state: &DeviceState) -> Vec<SensorLine> {
        let figures = [
            ("temperature_mc", &state.temperature_mc),
            ("power_mw", &state.power_mw),
            ("energy_uj", &state.energy_uj),
            ("frequency_khz", &state.frequency_khz),
            ("load_permille", &state.load_permille),
        ];
        let lines = figures.into_iter().map(|(quantity, figure)| SensorLine {
            quantity,
            value: figure.value,
            sensor: figure.value.map(|_| figure.from.clone()),
            reason: figure.value.is_none().then(|| figure.from.clone()),
        });
        lines.collect()
    }

    fn words(&self) -> String {
        let (word, shown) = match (self.quantity, self.value.unwrap_or(0) as f64) {
            ("temperature_mc", mc) => ("temperature", format!("{:.1} °C", mc / 1e3)),
            ("power_mw", mw) => ("power", format!("{:.2} W", mw / 1e3)),
            ("energy_uj", uj) => ("energy", format!("{:.3} J", uj / 1e6)),
            ("frequency_khz", khz) => ("clock", format!("{:.0} MHz", khz / 1e3)),
            (_, permille) => ("load", format!("{:.1} %", permille / 10.0)),
        };
        match (&self.sensor, &self.reason) {
            (Some(sensor), _) => format!("{word} {shown} ({sensor})"),
            (None, reason) => format!("{word} ({})", reason.as_deref().unwrap_or_default()),
        }
    }
}

/// The plugin of a device.
#[derive(Debug, Serialize, JsonSchema)]
struct PluginLine {
    /// Short name.
    name: String,
    /// Version.
    version: String,
    /// Changes with every build that may change compiled parts or figures.
    build_id: String,
    /// The library; none for a plugin that is linked in.
    path: Option<String>,
    /// Its process (`--isolate`); null for a plugin in the program's own process.
    process: Option<ProcessLine>,
}

/// How the kernel confines a plugin's process.
#[derive(Debug, Serialize, JsonSchema)]
struct ProcessLine {
    /// Mechanisms of the kernel that hold.
    confined_by: Vec<String>,
    /// Mechanisms that the kernel lacks, with the reason.
    not_confined_by: Vec<String>,
}

impl ProcessLine {
    fn words(&self) -> String {
        let mut words = match self.confined_by.as_slice() {
            [] => "not confined".to_owned(),
            held => format!("confined by {}", held.join(", ")),
        };
        if !self.not_confined_by.is_empty() {
            words = format!("{words}; missing: {}", self.not_confined_by.join(", "));
        }
        words
    }
}

/// A setting of clocks.
#[derive(Debug, Serialize, JsonSchema)]
struct OperatingPointLine {
    /// Name.
    name: String,
    /// Clock in kilohertz.
    frequency_khz: Option<u64>,
    /// Typical power under load in milliwatts.
    power_mw: Option<u64>,
}

/// Sensor readings.
#[derive(Debug, Serialize, JsonSchema)]
struct TelemetryLine {
    /// Temperature in thousandths of a degree Celsius.
    temperature_mc: Option<i64>,
    /// Power in milliwatts.
    power_mw: Option<u64>,
    /// Energy since some fixed moment in microjoules.
    energy_uj: Option<u64>,
    /// Clock in kilohertz.
    frequency_khz: Option<u64>,
    /// Share of time spent computing, in thousandths.
    load_permille: Option<u32>,
    /// Bits of the chip's throttling reasons.
    throttle: Option<u32>,
    /// Memory in use, in bytes.
    memory_used_bytes: Option<u64>,
}

/// A run of nodes that a device refused to compile.
#[derive(Debug, Serialize, JsonSchema)]
struct RememberedLine {
    /// Number of nodes.
    nodes: usize,
    /// The vendor's words, with its code.
    words: String,
}

/// Something that is not used.
#[derive(Debug, Serialize, JsonSchema)]
struct RefusalLine {
    /// File, folder, plugin or device.
    subject: String,
    /// Why.
    reason: String,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let runtime = if arguments.clear_quarantine {
        arguments.runtime.runtime_without_quarantine()?
    } else {
        arguments.runtime.runtime(None)?
    };
    if arguments.forget_refusals {
        let forgotten = runtime.profile().forget_refusals(None)?;
        eprintln!("forgot {forgotten} refusals");
    }
    let answer = DevicesOutput::new(&runtime)?;
    if arguments.json {
        out.json(&answer)
    } else {
        out.text(&answer.to_string())
    }
}

impl DevicesOutput {
    fn new(runtime: &Runtime) -> anyhow::Result<DevicesOutput> {
        let refused = runtime.refusals().iter();
        let mut devices = Vec::with_capacity(runtime.devices().len());
        let mut sampler = Sampler::new(runtime, Sensors::of_this_machine(&Rules::default()));
        sampler.sample();
        // load needs two readings; Linux counts it in hundredths of a second
        std::thread::sleep(Duration::from_millis(30));
        let states = sampler.sample().devices;
        for (device, state) in runtime.devices().iter().zip(&states) {
            let remembered = runtime.profile().refusals(&device.identity())?;
            let conditions = runtime.conditions(device).to_string();
            devices.push(DeviceLine::new(device, &remembered, state, conditions));
        }
        Ok(DevicesOutput {
            devices,
            refused: refused
                .map(|refusal| RefusalLine {
                    subject: refusal.subject.clone(),
                    reason: refusal.reason.clone(),
                })
                .collect(),
        })
    }
}

impl DeviceLine {
    fn new(
        device: &Device,
        remembered: &[RefusedRun],
        state: &DeviceState,
        conditions: String,
    ) -> DeviceLine {
        let (info, plugin) = (device.info(), device.plugin());
        let points = device.operating_points().unwrap_or_default();
        let telemetry = device.telemetry().ok().map(|found| TelemetryLine {
            temperature_mc: found.temperature_mc,
            power_mw: found.power_mw,
            energy_uj: found.energy_uj,
            frequency_khz: found.frequency_khz,
            load_permille: found.load_permille,
            throttle: found.throttle,
            memory_used_bytes: found.memory_used_bytes,
        });
        DeviceLine {
            name: device.name().to_owned(),
            kind: info.kind.word(),
            title: info.name.clone(),
            vendor: info.vendor.clone(),
            soc: info.soc.clone(),
            driver: info.driver.clone(),
            plugin: PluginLine {
                name: plugin.name.clone(),
                version: plugin.version.clone(),
                build_id: plugin.build_id.clone(),
                path: plugin.path.as_ref().map(|path| path.display().to_string()),
                process: plugin.confinement.as_ref().map(|confinement| ProcessLine {
                    confined_by: confinement.held.clone(),
                    not_confined_by: confinement.missing.clone(),
                }),
            },
            memory_bytes: info.memory_bytes,
            peak_macs_per_s: info.peak_macs_per_s,
            peak_bytes_per_s: info.peak_bytes_per_s,
            link_bytes_per_s: info.link_bytes_per_s,
            rates_measured_s: info.rates_measured_s,
            preemption: PreemptionLine {
                when: info.preemption.word(),
                bound_ns: info.preemption_bound_ns,
            },
            queue_depth: info.queue_depth.map(u32::from),
            switch_ns: info.switch_ns,
            settings: info.settings.clone(),
            shares_host_memory: info.shares_host_memory,
            imports_host_memory: info.imports_memory(),
            emulated: info.emulated,
            quarantined: device.is_quarantined(),
            remembered_refusals: remembered
                .iter()
                .map(|run| RememberedLine {
                    nodes: run.nodes,
                    words: run.words.clone(),
                })
                .collect(),
            operating_points: points
                .into_iter()
                .map(|point| OperatingPointLine {
                    name: point.name,
                    frequency_khz: point.frequency_khz,
                    power_mw: point.power_mw,
                })
                .collect(),
            telemetry: telemetry.filter(TelemetryLine::says_something),
            sensors: SensorLine::all(state),
            conditions,
        }
    }
}

impl DeviceLine {
    /// How parts of several sessions share it, as far as its plugin says.
    fn sharing(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.queue_depth.map(|depth| match depth {
            1 => "one part at a time".to_owned(),
            depth => format!("{depth} concurrent parts"),
        }));
        words.extend(self.preemption.words());
        words.extend(
            self.switch_ns
                .map(|time| format!("{} µs to switch plans", time as f64 / 1e3)),
        );
        words
    }
}

impl TelemetryLine {
    fn says_something(&self) -> bool {
        let sensors = [
            self.power_mw,
            self.energy_uj,
            self.frequency_khz,
            self.memory_used_bytes,
        ];
        self.temperature_mc.is_some()
            || sensors.iter().any(Option::is_some)
            || self.load_permille.is_some()
            || self.throttle.is_some()
    }

    /// What [`SensorLine`] does not say.
    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.throttle.map(|bits| match bits {
            0 => "not throttled".to_owned(),
            bits => format!("throttled (bits {bits:#x})"),
        }));
        words.extend(
            self.memory_used_bytes
                .map(|bytes| format!("{} MiB in use", bytes >> 20)),
        );
        words
    }
}

impl std::fmt::Display for DevicesOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        if self.devices.is_empty() {
            text.push_str("no devices\n");
        }
        for device in &self.devices {
            let emulated = if device.emulated { ", emulated" } else { "" };
            writeln!(
                text,
                "{}: {} ({}{emulated})",
                device.name, device.title, device.kind
            )?;
            let plugin = &device.plugin;
            let place = plugin.path.as_deref().unwrap_or("linked in");
            writeln!(text, "  plugin {} {} ({place})", plugin.name, plugin.version)?;
            if let Some(process) = &plugin.process {
                writeln!(text, "  in a process of its own, {}", process.words())?;
            }
            let mut facts = Vec::new();
            for (word, value) in [
                ("", &device.vendor),
                ("", &device.soc),
                ("driver ", &device.driver),
            ] {
                if !value.is_empty() {
                    facts.push(format!("{word}{value}"));
                }
            }
            facts.extend(device.memory_bytes.map(|bytes| format!("{} MiB", bytes >> 20)));
            let source = if device.rates_measured_s.is_some() {
                "measured"
            } else {
                "stated"
            };
            facts.extend(
                device
                    .peak_macs_per_s
                    .map(|rate| format!("{:.1} GMAC/s {source}", rate as f64 / 1e9)),
            );
            facts.extend(
                device
                    .peak_bytes_per_s
                    .map(|rate| format!("{:.1} GB/s {source}", rate as f64 / 1e9)),
            );
            facts.extend(
                device
                    .link_bytes_per_s
                    .map(|rate| format!("{:.1} GB/s over the bus {source}", rate as f64 / 1e9)),
            );
            let memory = match (device.shares_host_memory, device.imports_host_memory) {
                (true, _) => "computes on host memory",
                (false, true) => "imports host memory",
                (false, false) => "separate memory",
            };
            facts.push(memory.to_owned());
            if device.quarantined {
                facts.push("lost or hung, and not reset since".to_owned());
            }
            writeln!(text, "  {}", facts.join(", "))?;
            let shared = device.sharing();
            if !shared.is_empty() {
                writeln!(text, "  shared: {}", shared.join("; "))?;
            }
            let words = |lines: Vec<&SensorLine>| -> String {
                let words: Vec<String> = lines.into_iter().map(SensorLine::words).collect();
                words.join(", ")
            };
            let (with, without): (Vec<_>, Vec<_>) =
                device.sensors.iter().partition(|line| line.value.is_some());
            if !with.is_empty() {
                writeln!(text, "  sensors: {}", words(with))?;
            }
            if !without.is_empty() {
                writeln!(text, "  without: {}", words(without))?;
            }
            let now = device
                .telemetry
                .as_ref()
                .map(TelemetryLine::words)
                .unwrap_or_default();
            if !now.is_empty() {
                writeln!(text, "  now: {}", now.join(", "))?;
            }
            if !device.settings.is_empty() {
                writeln!(text, "  settings: {}", device.settings)?;
            }
            if !device.conditions.is_empty() {
                writeln!(text, "  conditions: {}", device.conditions)?;
            }
            for run in &device.remembered_refusals {
                writeln!(text, "  refused {} nodes earlier: {}", run.nodes, run.words)?;
            }
            for point in &device.operating_points {
                writeln!(text, "  operating point {}", point.name)?;
            }
        }
        if !self.refused.is_empty() {
            text.push_str("not used:\n");
        }
        for refusal in &self.refused {
            writeln!(text, "  {}: {}", refusal.subject, refusal.reason)?;
        }
        f.write_str(&text)
    }
}
