//! The options, and sessions that they describe.

use std::path::{Path, PathBuf};
use std::time::Duration;

use polychip::{DType, Input, Isolate, Outputs, Policy, Runtime, Session};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The options.
pub(crate) struct World {
    pub(crate) plugins: PathBuf,
    pub(crate) device: String,
    model: PathBuf,
    pub(crate) deaths: usize,
    /// The library that dies in other ways than by signals.
    pub(crate) faults: Option<PathBuf>,
    /// Kinds of deaths; empty: all.
    pub(crate) kinds: Vec<String>,
    /// After this a run, or a call of the plugin, has hung.
    hang: Duration,
    /// Before a process is started again.
    restart_delay: Duration,
    pub(crate) rounds: usize,
    pub(crate) seed: u64,
    settings: Vec<(String, String)>,
    configuration: Vec<String>,
}

impl World {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<World> {
        let mut world = World {
            plugins: PathBuf::from("target/release"),
            device: "openvino:0".to_owned(),
            model: PathBuf::new(),
            deaths: 100,
            faults: None,
            kinds: Vec::new(),
            hang: Duration::from_secs(1),
            restart_delay: Duration::ZERO,
            rounds: 15,
            seed: 0,
            settings: Vec::new(),
            configuration: Vec::new(),
        };
        while let Some(name) = arguments.next() {
            if !name.starts_with("--") {
                world.model = name.into();
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--plugins" => world.plugins = value.into(),
                "--device" => world.device = value,
                "--deaths" => world.deaths = value.parse()?,
                "--faults" => world.faults = Some(value.into()),
                "--kinds" => world.kinds = value.split(',').map(str::to_owned).collect(),
                "--hang-timeout" => world.hang = polychip::settings::timeout(&value)?,
                "--restart-delay" => world.restart_delay = Duration::from_millis(value.parse()?),
                "--seed" => world.seed = value.parse()?,
                // a setting of plugins, such as null.script=FILE
                "--set" => world.configuration.push(value),
                "--rounds" => world.rounds = value.parse()?,
                // a setting of sessions, such as pin=NODE=DEVICE; without any, all nodes are pinned to the device
                "--setting" => {
                    let (name, value) = value.split_once('=').ok_or("expected --setting NAME=VALUE")?;
                    world.settings.push((name.to_owned(), value.to_owned()));
                }
                _ => return Err(format!("{name} is not an option").into()),
            }
        }
        if world.model.as_os_str().is_empty() {
            return Err("no model is given".into());
        }
        Ok(world)
    }

    /// A session on the device and the CPU, with the plugins of a folder.
    pub(crate) fn session(&self, plugins: &Path, isolate: Isolate) -> Result<Ready> {
        let mut builder = Runtime::builder()
            .only_given_folders()
            .plugins(plugins)
            .isolate(isolate)
            .death_limit(u32::MAX)
            .restart_delay(self.restart_delay)
            .call_timeout(self.hang);
        for one in &self.configuration {
            builder = builder.with_setting("set", one)?;
        }
        let runtime = builder.build()?;
        if !runtime
            .devices()
            .iter()
            .any(|device| device.name() == self.device)
        {
            let refusals: Vec<String> = runtime.refusals().iter().map(ToString::to_string).collect();
            return Err(format!("there is no device {}: {}", self.device, refusals.join("; ")).into());
        }
        // a hang ends soon
        let mut policy = Policy::latency()
            .devices([self.device.as_str(), "cpu:0"])
            .hang_timeout(self.hang)
            .retry(8);
        if self.settings.is_empty() {
            policy = policy.pin("*", &self.device);
        }
        for (name, value) in &self.settings {
            policy = policy.with_setting(name, value)?;
        }
        let ready = Ready::new(runtime, self, policy)?;
        let parts = ready.session.report().parts;
        if !parts.iter().any(|part| part.device == self.device) {
            return Err(format!("the plan does not use {}: pin nodes with --setting", self.device).into());
        }
        Ok(ready)
    }

    /// A session on the CPU.
    pub(crate) fn reference(&self) -> Result<Ready> {
        Ready::new(
            Runtime::builder().only_given_folders().build()?,
            self,
            Policy::latency(),
        )
    }
}

/// A session with its inputs in place.
pub(crate) struct Ready {
    pub(crate) session: Session,
    inputs: Vec<Input>,
    _runtime: Runtime,
}

impl Ready {
    fn new(runtime: Runtime, world: &World, policy: Policy) -> Result<Ready> {
        let model = runtime.load(&world.model)?;
        let session = runtime.session(&model, policy)?;
        let mut inputs = Vec::new();
        for spec in session.inputs() {
            let mut input = session.input(&spec.name)?;
            let count: usize = input.shape().iter().product();
            match spec.dtype {
                DType::F32 => {
                    let values: Vec<f32> = (0..count)
                        .map(|index| (index * 7 % 23) as f32 / 23.0 - 0.5)
                        .collect();
                    input.write(&values)?;
                }
                DType::I64 => input.write(&vec![1i64; count])?,
                other => return Err(format!("input {} holds {}", &spec.name, other.name()).into()),
            }
            inputs.push(input);
        }
        Ok(Ready {
            session,
            inputs,
            _runtime: runtime,
        })
    }

    pub(crate) fn run(&self) -> Result<Outputs> {
        let inputs: Vec<&Input> = self.inputs.iter().collect();
        Ok(self.session.submit(&inputs)?.wait(PATIENCE)?)
    }

    /// The first output of a run.
    pub(crate) fn output(&self) -> Result<Vec<f32>> {
        let name = self
            .session
            .outputs()
            .next()
            .ok_or("the model has no output")?
            .name
            .clone();
        let outputs = self.run()?;
        Ok(outputs.get(&name)?.values::<f32>()?.into_owned())
    }
}
