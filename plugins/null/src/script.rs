//! The script: devices, what they support, what work costs, how they heat up and how they fail.
//!
//! ```toml
//! [[device]]
//! name = "npu"
//! kind = "npu"
//! ops = ["Conv", "Relu"]            # left out: everything the reference computes
//! dtypes = ["f32", "i8"]            # left out: all
//! max_rank = 4
//! memory_bytes = 1048576
//! launch_ns = 20000
//! preemption = "any_time"           # `none` where left out, or `commands`; a serial device then gives way so
//! preemption_bound_ns = 50000       # at once where left out, and then no bound is stated
//! queue_depth = 1
//! switch_ns = 0                     # taken where a part is another one than ran before
//! cost = { fixed_ns = 500, ps_per_mac = 2.0, ps_per_byte = 10.0, pj_per_mac = 1.0 }
//! op.Conv = { ps_per_mac = 0.5 }    # what is left out is that of `cost`
//! actual = [{ time_permille = 1500 }] # what runs take of what `cost` states
//! states_energy = true
//! states_run_energy = true
//! idle_mw = 300.0                   # what its sensors show of an idle device
//! half = true                       # with reduced precision, outputs of parts are 16-bit floats
//! noise_permille = 20
//! refuse = [{ node = "head*", reason = "vendor", detail = "known to be slow" }]
//! compile_waits_for = "/tmp/go"     # a compilation waits until this file exists
//! refuse_compile = [{ node = "gelu*", with = "softmax*", code = 6001, detail = "graph finalize failed" }]
//! operating_point = [{ name = "slow", time_permille = 2000, energy_permille = 500, power_mw = 300 }]
//! idle = { after_ms = 20, time_permille = 4000 } # what runs take after the device did nothing for so long
//! heat = { ambient_mc = 25000, mc_per_mw = 20.0, settle_ms = 5000, throttle_mc = 60000 }
//! fault = [{ kind = "hang", at = 3 }]
//! ```
//!
//! `docs/null-scripts.md` has all keys.
//!
//! Invariants:
//! 1. A key that is not known is an error: a misspelt fault must not pass a test.
//! 2. Numbers are finite and not negative.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use polychip_ops::{DType, Op};
use polychip_sdk::{DeviceKind, ErrorKind, Layout, MemoryKind, Preemption, Reason};
use serde::Deserialize;

/// All devices of the plugin.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Devices, in the order of their index.
    #[serde(default, rename = "device")]
    pub devices: Vec<DeviceScript>,
}

/// Reason why a script is invalid.
#[derive(Debug, thiserror::Error)]
#[error("the script of the null plugin: {0}")]
pub struct ScriptError(String);

/// One device.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceScript {
    /// Human-readable name.
    pub name: String,
    /// `cpu`, `gpu`, `npu` or `dsp`.
    pub kind: String,
    /// Whether runs compute: `false` leaves outputs as they are, for studies of time and heat alone. Then it runs ops
    /// that the reference does not know, too.
    pub answers: bool,
    /// ONNX op types that it runs; if omitted, all that the reference computes.
    pub ops: Option<Vec<String>>,
    /// ONNX op types that it does not run.
    pub without_ops: Vec<String>,
    /// Element types that it accepts; if omitted, all.
    pub dtypes: Option<Vec<String>>,
    /// Highest rank that it accepts.
    pub max_rank: Option<usize>,
    /// Whether it runs nodes with body graphs.
    pub bodies: bool,
    /// Whether it runs nodes whose output shapes depend on data.
    pub dynamic_shapes: bool,
    /// Kinds of encodings that it takes: `tensor`, `axis`, `block`, `blocks` (that hold their own scales).
    pub encodings: Vec<String>,
    /// Nodes that it refuses by name.
    pub refuse: Vec<Refuse>,
    /// Nodes that it reports as supported but refuses when a part with them is compiled.
    pub refuse_compile: Vec<RefuseCompile>,
    /// A file for which compilations wait, to simulate long ones.
    pub compile_waits_for: Option<std::path::PathBuf>,
    /// A file that receives a line per call of the device, in order, with the calling thread.
    pub record: Option<std::path::PathBuf>,
    /// Memory limit, in bytes; 0: none.
    pub memory_bytes: u64,
    /// Layouts that it grants at ports on request: `row_major`, `channels_last`.
    pub layouts: Vec<String>,
    /// Memory kinds that it imports: `host`, `memfd`.
    pub imports: Vec<String>,
    /// Alignment that host memory needs to be imported, in bytes: a power of two.
    pub import_alignment: u32,
    /// Whether runs execute one after the other.
    pub serial: bool,
    /// When a run yields to one of a higher priority, on a serial device.
    pub preemption: Giving,
    /// Time until it has yielded, in nanoseconds; 0: at once, and no bound is stated.
    pub preemption_bound_ns: u64,
    /// Number of parts that the device reports to benefit from having at once; 0: not reported.
    pub queue_depth: u32,
    /// Time to switch to another part than the previous one, in nanoseconds.
    pub switch_ns: u64,
    /// Time to start a run, in nanoseconds.
    pub launch_ns: u64,
    /// Energy to start a run, in nanojoules.
    pub launch_nj: f64,
    /// Cost of a node.
    pub cost: Work,
    /// Cost of the nodes of an op; omitted values are those of `cost`.
    pub op: BTreeMap<String, PartialWork>,
    /// Ratio of actual run times to those of `cost`; the last matching entry counts.
    pub actual: Vec<Actual>,
    /// Whether it reports power and energy, in estimates, runs and sensors. A real device without sensors does not.
    pub states_energy: bool,
    /// Whether each run reports its energy. Most real devices have only a sensor.
    pub states_run_energy: bool,
    /// Power of the idle device, which its sensors also show during runs, in milliwatts.
    pub idle_mw: f64,
    /// Whether f32 outputs of parts compiled with reduced precision have the range and precision of 16-bit floats.
    pub half: bool,
    /// Greatest relative noise of a run's time, in thousandths.
    pub noise_permille: u32,
    /// Seed of the noise.
    pub seed: u64,
    /// Settings; index 0 is the first one in use.
    pub operating_point: Vec<Point>,
    /// Clocks that fall while the device is idle; if omitted, they stay constant.
    pub idle: Option<Idle>,
    /// Heating; if omitted, it has no temperature.
    pub heat: Option<Heat>,
    /// Faults.
    pub fault: Vec<Fault>,
}

impl Default for DeviceScript {
    fn default() -> Self {
        DeviceScript {
            name: "null".into(),
            kind: "npu".into(),
            answers: true,
            ops: None,
            without_ops: Vec::new(),
            dtypes: None,
            max_rank: None,
            bodies: true,
            dynamic_shapes: true,
            encodings: vec!["tensor".into(), "axis".into(), "block".into(), "blocks".into()],
            refuse: Vec::new(),
            refuse_compile: Vec::new(),
            compile_waits_for: None,
            record: None,
            memory_bytes: 0,
            layouts: vec!["row_major".into()],
            imports: vec!["host".into(), "memfd".into()],
            import_alignment: 1,
            serial: true,
            preemption: Giving::None,
            preemption_bound_ns: 0,
            queue_depth: 1,
            switch_ns: 0,
            launch_ns: 0,
            launch_nj: 0.0,
            cost: Work::default(),
            op: BTreeMap::new(),
            actual: Vec::new(),
            states_energy: true,
            states_run_energy: true,
            idle_mw: 0.0,
            half: false,
            noise_permille: 0,
            seed: 0,
            operating_point: Vec::new(),
            idle: None,
            heat: None,
            fault: Vec::new(),
        }
    }
}

/// Nodes that are refused by name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refuse {
    /// Pattern of node names; `*` matches any text.
    pub node: String,
    /// `op`, `dtype`, `shape`, `rank`, `attribute`, `layout`, `memory`, `quarantined` or `vendor`.
    #[serde(default = "vendor")]
    pub reason: String,
    /// Words.
    #[serde(default)]
    pub detail: String,
}

/// Nodes that are refused by name when a part is compiled.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefuseCompile {
    /// Pattern of node names; `*` matches any text.
    pub node: String,
    /// Only if the part also holds a node of this pattern.
    #[serde(default)]
    pub with: Option<String>,
    /// `transient`, `persistent`, `unsupported` or `out_of_memory`.
    #[serde(default)]
    pub class: Class,
    /// The vendor's code.
    #[serde(default)]
    pub code: i64,
    /// Words.
    #[serde(default)]
    pub detail: String,
    /// Whether the error names the node.
    #[serde(default)]
    pub names_node: bool,
}

fn vendor() -> String {
    "vendor".into()
}

/// Cost of a node.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Work {
    /// Time independent of its size, in nanoseconds.
    pub fixed_ns: f64,
    /// Time of a multiply-add, in picoseconds.
    pub ps_per_mac: f64,
    /// Time of an element written by a node without multiply-adds, in picoseconds.
    pub ps_per_element: f64,
    /// Time of a byte read or written, in picoseconds.
    pub ps_per_byte: f64,
    /// Energy independent of its size, in nanojoules.
    pub fixed_nj: f64,
    /// Energy of a multiply-add, in picojoules.
    pub pj_per_mac: f64,
    /// Energy of a byte, in picojoules.
    pub pj_per_byte: f64,
}

impl Default for Work {
    fn default() -> Self {
        Work {
            fixed_ns: 1000.0,
            ps_per_mac: 1.0,
            ps_per_element: 0.0,
            ps_per_byte: 10.0,
            fixed_nj: 100.0,
            pj_per_mac: 1.0,
            pj_per_byte: 10.0,
        }
    }
}

/// What the nodes of one op cost, as far as it differs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs)] // as in `Work`
pub struct PartialWork {
    pub fixed_ns: Option<f64>,
    pub ps_per_mac: Option<f64>,
    pub ps_per_element: Option<f64>,
    pub ps_per_byte: Option<f64>,
    pub fixed_nj: Option<f64>,
    pub pj_per_mac: Option<f64>,
    pub pj_per_byte: Option<f64>,
}

impl PartialWork {
    pub(crate) fn over(&self, base: &Work) -> Work {
        Work {
            fixed_ns: self.fixed_ns.unwrap_or(base.fixed_ns),
            ps_per_mac: self.ps_per_mac.unwrap_or(base.ps_per_mac),
            ps_per_element: self.ps_per_element.unwrap_or(base.ps_per_element),
            ps_per_byte: self.ps_per_byte.unwrap_or(base.ps_per_byte),
            fixed_nj: self.fixed_nj.unwrap_or(base.fixed_nj),
            pj_per_mac: self.pj_per_mac.unwrap_or(base.pj_per_mac),
            pj_per_byte: self.pj_per_byte.unwrap_or(base.pj_per_byte),
        }
    }
}

/// What runs take against what is stated of them, from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actual {
    /// It holds from here on, in milliseconds of the clock.
    #[serde(default)]
    pub after_ms: u64,
    /// Time of a run, in thousandths of that of the script's costs.
    #[serde(default = "thousand")]
    pub time_permille: u32,
    /// Energy of a run, in thousandths of that of the script's costs.
    #[serde(default = "thousand")]
    pub energy_permille: u32,
}

/// A setting of clocks and voltage.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Name.
    pub name: String,
    /// Clock, in kilohertz.
    #[serde(default)]
    pub frequency_khz: u64,
    /// Typical power, in milliwatts.
    #[serde(default)]
    pub power_mw: u64,
    /// Time of a run against that of the script's costs, in thousandths.
    #[serde(default = "thousand")]
    pub time_permille: u32,
    /// Energy of a run against that of the script's costs, in thousandths.
    #[serde(default = "thousand")]
    pub energy_permille: u32,
}

fn thousand() -> u32 {
    1000
}

/// Clocks that fall while the device does nothing, and rise again while it computes.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idle {
    /// They have fallen after so long without a run, in milliseconds, and before the first one.
    pub after_ms: f64,
    /// Time of a run while they are low, in thousandths of that of the script's costs.
    pub time_permille: u32,
    /// They are up again after so long of computing, in milliseconds, from the next run on.
    #[serde(default)]
    pub rise_ms: f64,
}

/// How the device heats up: one thermal resistance and one capacity.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Heat {
    /// Temperature of the surroundings, in thousandths of a degree Celsius.
    pub ambient_mc: f64,
    /// Rise at steady power, in thousandths of a degree per milliwatt.
    pub mc_per_mw: f64,
    /// Time constant, in milliseconds.
    pub settle_ms: f64,
    /// From here on clocks are lowered; left out: never.
    pub throttle_mc: Option<f64>,
    /// Below here they are raised again; left out: 5 degrees below `throttle_mc`.
    pub release_mc: Option<f64>,
    /// Time of a run while clocks are lowered, in thousandths.
    pub throttle_permille: u32,
}

impl Default for Heat {
    fn default() -> Self {
        Heat {
            ambient_mc: 25_000.0,
            mc_per_mw: 20.0,
            settle_ms: 5000.0,
            throttle_mc: None,
            release_mc: None,
            throttle_permille: 2000,
        }
    }
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Number of the run (of the compilation, of the load, of the reset) that fails first, from 0.
    #[serde(default)]
    pub at: u64,
    /// How many fail in a row.
    #[serde(default = "one")]
    pub times: u64,
    /// For `compile` and `error`: `transient`, `persistent`, `unsupported` or `out_of_memory`.
    #[serde(default)]
    pub class: Class,
    /// For `slow`: time against the usual, in thousandths.
    #[serde(default = "tenfold")]
    pub time_permille: u32,
}

fn one() -> u64 {
    1
}

fn tenfold() -> u32 {
    10_000
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// `compile` refuses.
    Compile,
    /// The run ends with an error.
    Error,
    /// The run never ends, unless it is cancelled or the device is reset.
    Hang,
    /// The run never ends, unless the device is reset.
    Stuck,
    /// The run ends with the device lost; nothing runs until it is reset.
    Lost,
    /// The executable states an output that is larger than the model says.
    WrongSize,
    /// The run takes longer.
    Slow,
    /// The plugin panics in `execute`.
    Panic,
    /// The reset of this number fails.
    Reset,
}

/// When a run gives way to a more urgent one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Giving {
    /// It does not.
    #[default]
    None,
    /// Between two commands.
    Commands,
    /// At any time.
    AnyTime,
}

/// Class of a scripted error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A temporary fault.
    Transient,
    /// It fails again.
    #[default]
    Persistent,
    /// It cannot do this.
    Unsupported,
    /// Memory ran out.
    OutOfMemory,
    /// The device is gone until it is reset.
    DeviceLost,
}

impl Class {
    pub(crate) fn kind(self) -> ErrorKind {
        match self {
            Class::Transient => ErrorKind::Transient,
            Class::Persistent => ErrorKind::Persistent,
            Class::Unsupported => ErrorKind::Unsupported,
            Class::OutOfMemory => ErrorKind::OutOfMemory,
            Class::DeviceLost => ErrorKind::DeviceLost,
        }
    }
}

impl Fault {
    /// Whether it strikes the event of this number.
    pub(crate) fn strikes(&self, number: u64) -> bool {
        number >= self.at && number - self.at < self.times
    }
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// If a key or name is not known, or a number is out of range.
    pub fn parse(text: &str) -> Result<Script, ScriptError> {
        let script: Script = toml::from_str(text).map_err(|error| ScriptError(error.to_string()))?;
        for (index, device) in script.devices.iter().enumerate() {
            device
                .check()
                .map_err(|what| ScriptError(format!("device {index} ({}): {what}", device.name)))?;
        }
        Ok(script)
    }
}

impl DeviceScript {
    /// What holds at a time: time and energy of a run in thousandths of what is stated.
    pub(crate) fn actual(&self, now_ns: u64) -> (u32, u32) {
        let holds = |actual: &&Actual| actual.after_ms.saturating_mul(1_000_000) <= now_ns;
        let last = self.actual.iter().rfind(holds);
        last.map_or((1000, 1000), |actual| {
            (actual.time_permille, actual.energy_permille)
        })
    }

    fn check(&self) -> Result<(), String> {
        self.device_kind()?;
        let listed = self.ops.iter().flatten().chain(&self.without_ops);
        for op in listed.chain(self.op.keys()) {
            Op::from_name(op).ok_or_else(|| format!("op {op} is not known"))?;
        }
        for dtype in self.dtypes.iter().flatten() {
            DType::from_name(dtype).ok_or_else(|| format!("data type {dtype} is not known"))?;
        }
        for encoding in &self.encodings {
            if !["tensor", "axis", "block", "blocks"].contains(&encoding.as_str()) {
                return Err(format!("encoding {encoding} is not known"));
            }
        }
        for refuse in &self.refuse {
            refuse.reason()?;
        }
        for layout in &self.layouts {
            layout_of(layout)?;
        }
        self.import_kinds()?;
        if self.preemption != Giving::None && !self.serial {
            return Err("its runs go beside each other (serial = false), and none gives way".to_owned());
        }
        if self.preemption == Giving::None && self.preemption_bound_ns > 0 {
            return Err("preemption_bound_ns is for a device whose runs give way (preemption)".to_owned());
        }
        if !self.import_alignment.is_power_of_two() {
            return Err(format!(
                "import_alignment {} is not a power of two",
                self.import_alignment
            ));
        }
        let works = std::iter::once(self.cost).chain(self.op.values().map(|work| work.over(&self.cost)));
        let numbers = works.flat_map(|work| {
            [
                work.fixed_ns,
                work.ps_per_mac,
                work.ps_per_element,
                work.ps_per_byte,
                work.fixed_nj,
                work.pj_per_mac,
                work.pj_per_byte,
            ]
        });
        let heat = self.heat.into_iter().flat_map(|heat| {
            [
                heat.mc_per_mw,
                heat.settle_ms,
                heat.throttle_mc.unwrap_or(0.0),
                heat.release_mc.unwrap_or(0.0),
            ]
        });
        let idle = self
            .idle
            .into_iter()
            .flat_map(|idle| [idle.after_ms, idle.rise_ms]);
        for number in numbers
            .chain(heat)
            .chain(idle)
            .chain([self.launch_nj, self.idle_mw])
        {
            if !number.is_finite() || number < 0.0 {
                return Err(format!("{number} is out of range"));
            }
        }
        Ok(())
    }

    /// The preemption that the device states.
    pub(crate) fn preemption(&self) -> Preemption {
        let bound_ns = NonZeroU64::new(self.preemption_bound_ns);
        match self.preemption {
            Giving::None => Preemption::None,
            Giving::Commands => Preemption::Commands { bound_ns },
            Giving::AnyTime => Preemption::AnyTime { bound_ns },
        }
    }

    pub(crate) fn device_kind(&self) -> Result<DeviceKind, String> {
        Ok(match self.kind.as_str() {
            "cpu" => DeviceKind::Cpu,
            "gpu" => DeviceKind::Gpu,
            "npu" => DeviceKind::Npu,
            "dsp" => DeviceKind::Dsp,
            other => return Err(format!("kind {other} is not known")),
        })
    }

    pub(crate) fn import_kinds(&self) -> Result<Vec<MemoryKind>, String> {
        self.imports
            .iter()
            .map(|kind| match kind.as_str() {
                "host" => Ok(MemoryKind::Host),
                "memfd" => Ok(MemoryKind::Memfd),
                other => Err(format!("memory kind {other} is not known")),
            })
            .collect()
    }

    /// Whether a layout is granted.
    pub(crate) fn grants(&self, layout: Layout) -> bool {
        self.layouts.iter().any(|name| layout_of(name) == Ok(layout))
    }

    /// What the nodes of an op cost.
    pub(crate) fn work(&self, op: &str) -> Work {
        self.op
            .get(op)
            .map_or(self.cost, |partial| partial.over(&self.cost))
    }
}

fn layout_of(name: &str) -> Result<Layout, String> {
    match name {
        "row_major" => Ok(Layout::RowMajor),
        "channels_last" => Ok(Layout::ChannelsLast),
        other => Err(format!("layout {other} is not known")),
    }
}

impl Refuse {
    pub(crate) fn reason(&self) -> Result<Reason, String> {
        Ok(match self.reason.as_str() {
            "op" => Reason::Op,
            "dtype" => Reason::DType,
            "shape" => Reason::Shape,
            "rank" => Reason::Rank,
            "attribute" => Reason::Attribute,
            "layout" => Reason::Layout,
            "memory" => Reason::Memory,
            "quarantined" => Reason::Quarantined,
            "vendor" => Reason::Vendor,
            other => return Err(format!("reason {other} is not known")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_keys_have_defaults() {
        let script = Script::parse(
            r#"
            [[device]]
            name = "a"
            op.Conv = { ps_per_mac = 0.5 }
            fault = [{ kind = "hang", at = 2 }]
            [[device]]
            kind = "gpu"
            "#,
        )
        .unwrap();
        assert_eq!(script.devices.len(), 2);
        let first = &script.devices[0];
        assert_eq!(first.work("Conv").ps_per_mac, 0.5);
        assert_eq!(first.work("Conv").fixed_ns, first.work("Relu").fixed_ns);
        assert!(first.fault[0].strikes(2) && !first.fault[0].strikes(3));
    }

    #[test]
    fn scripts_page_documents_every_key_and_its_examples_parse() {
        let page = include_str!("../../../docs/null-scripts.md");
        let blocks: Vec<&str> = page
            .split("```toml\n")
            .skip(1)
            .filter_map(|rest| rest.split_once("```"))
            .map(|(block, _)| block)
            .collect();
        assert_eq!(blocks.len(), 3);
        for block in &blocks {
            Script::parse(block).unwrap_or_else(|error| panic!("{error}\n{block}"));
        }
        // the keys are the fields of what is read: of a device, its refusals, costs, points, heat and faults
        let source = include_str!("script.rs").split("#[cfg(test)]").next().unwrap();
        let fields = source.lines().filter_map(|line| line.strip_prefix("    pub "));
        let names = fields.filter_map(|field| field.split_once(": ").map(|(name, _)| name));
        let names: Vec<&str> = names
            .filter(|name| !name.contains('(') && *name != "devices")
            .collect();
        assert!(names.len() > 40, "{names:?}");
        let all = blocks.concat();
        for name in names {
            let is_there = all.contains(&format!("{name} = ")) || all.contains(&format!("{name}."));
            assert!(is_there, "docs/null-scripts.md does not show {name}");
        }
        for kind in [
            "error",
            "slow",
            "hang",
            "stuck",
            "lost",
            "panic",
            "compile",
            "wrong_size",
            "reset",
        ] {
            let text = format!("[[device]]\nfault = [{{ kind = \"{kind}\" }}]");
            assert!(
                Script::parse(&text).is_ok() && page.contains(&format!("| `{kind}` |")),
                "{kind}"
            );
        }
    }

    #[test]
    fn misspelt_keys_are_errors() {
        for (text, word) in [
            ("[[device]]\nlatency = 3", "latency"),
            ("[[device]]\nkind = \"tpu\"", "tpu"),
            ("[[device]]\nops = [\"Konv\"]", "Konv"),
            ("[[device]]\nfault = [{ kind = \"explode\" }]", "explode"),
            ("[[device]]\ncost = { ps_per_mac = -1.0 }", "-1"),
            (
                "[[device]]\nrefuse = [{ node = \"*\", reason = \"mood\" }]",
                "mood",
            ),
        ] {
            let error = Script::parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
