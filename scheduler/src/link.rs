//! Measures device launches and transfers between devices, with a model of two nodes.
//!
//! Three sessions run in turns: both nodes on the one device, both on the other, and one on each.
//! The run time beyond the devices' own part times is the launch of each device and the transfer.
//!
//! Invariants:
//! 1. The sessions are those that apps use, so that waking threads are part of the measurement.
//! 2. A pair that cannot be measured keeps the plugin's estimate, and the reason is reported.
//!
//! Not here: the use of links in a plan (`partitioner`), the estimates (`cost_model`), earlier
//! measurements (`known`).

pub(crate) mod energy;
pub(crate) mod known;

use std::time::{Duration, Instant};

use polychip_graph::{Graph, Node, Tensor};
use polychip_host::Device;
use polychip_ops::{DType, Op, TensorType};
use polychip_partitioner::Time;
use polychip_profile::{LinkCost, Profile};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;
use crate::planned::choose_devices;
use crate::policy::Policy;
use crate::runtime::Runtime;
use crate::session::Session;

/// Sizes of the tensor that is transferred, in elements of four bytes: one where only the transfer counts, one
/// that is larger than most tensors of a network.
const SIZES: [usize; 2] = [256, 1 << 20];
/// Runs of each session at each size that are not counted, and that are.
const WARM: usize = 3;
const RUNS: [usize; 2] = [40, 12];
/// Longest that a run of two nodes may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The measurement of a link between two devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LinkMeasurement {
    /// Device that writes.
    pub from: String,
    /// Device that reads.
    pub to: String,
    /// Transfer time of a small tensor, in nanoseconds, without the launches of the two devices.
    pub latency_ns: u64,
    /// Bytes per second of larger tensors, after that latency; none if the size made no difference.
    pub bytes_per_second: Option<u64>,
    /// Launch time of the writing device, in nanoseconds: the time of a run minus the time that the
    /// device computes.
    pub from_launch_ns: u64,
    /// The same for the reading device.
    pub to_launch_ns: u64,
}

/// A link that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnmeasuredLink {
    /// Device that writes.
    pub from: String,
    /// Device that reads.
    pub to: String,
    /// The reason.
    pub reason: String,
}

impl Runtime {
    /// Measures every link between the devices that the policy allows, and their launches. The
    /// profile keeps the results, and later plans use them.
    ///
    /// # Errors
    /// A device that the policy names does not exist, or the profile cannot be written.
    pub fn measure_links(&self, policy: &Policy) -> Result<(Vec<LinkMeasurement>, Vec<UnmeasuredLink>)> {
        let devices = choose_devices(&self.0, policy)?;
        let (mut measured, mut not) = (Vec::new(), Vec::new());
        for from in &devices {
            for to in devices.iter().filter(|to| to.name() != from.name()) {
                let found = if self.0.host.clock().is_virtual() {
                    Err("the clock is virtual, but a transfer takes real time".to_owned())
                } else {
                    measure(self, policy, from, to).map_err(|error| error.to_string())
                };
                match found {
                    Ok(found) => {
                        keep(self.profile(), from, to, &found)?;
                        measured.push(found.stated(from, to));
                    }
                    Err(reason) => not.push(UnmeasuredLink {
                        from: from.name().to_owned(),
                        to: to.name().to_owned(),
                        reason,
                    }),
                }
            }
        }
        Ok((measured, not))
    }
}

/// Medians in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    launch: [u64; 2],
    transfer: [u64; 2],
}

impl Found {
    fn stated(&self, from: &Device, to: &Device) -> LinkMeasurement {
        let points = SIZES.map(bytes);
        let link = known::fit(&[
            (
                points[0],
                LinkCost::of_time(Time::from_nanoseconds(self.transfer[0])),
            ),
            (
                points[1],
                LinkCost::of_time(Time::from_nanoseconds(self.transfer[1])),
            ),
        ]);
        LinkMeasurement {
            from: from.name().to_owned(),
            to: to.name().to_owned(),
            latency_ns: link.map_or(0, |(latency, _)| latency.nanoseconds()),
            bytes_per_second: link.and_then(|(_, speed)| speed),
            from_launch_ns: self.launch[0],
            to_launch_ns: self.launch[1],
        }
    }
}

fn bytes(elements: usize) -> u64 {
    4 * elements as u64
}

/// `z = Relu(x) + Relu(x)`, the nodes named `first` and `second`.
fn probe(elements: usize) -> Model {
    let mut graph = Graph::new("link");
    let mut add =
        |name: &str| graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[1, elements])));
    let [x, y, z] = ["x", "y", "z"].map(&mut add);
    let mut first = Node::new(Op::Relu, vec![Some(x)], vec![Some(y)]);
    first.name = "first".into();
    let mut second = Node::new(Op::Add, vec![Some(y), Some(y)], vec![Some(z)]);
    second.name = "second".into();
    graph.add_node(first);
    graph.add_node(second);
    graph.inputs = vec![x];
    graph.outputs = vec![z];
    Model::made("a model of two nodes", graph)
}

/// A session that is timed.
struct Timed {
    session: Session,
    input: crate::Input,
    /// What each run took, in nanoseconds.
    took: Vec<u64>,
}

impl Timed {
    fn new(runtime: &Runtime, policy: &Policy, model: &Model, places: [&Device; 2]) -> Result<Timed> {
        let [first, second] = places.map(Device::name);
        let policy = policy
            .clone()
            .devices([first, second])
            .pin("first", first)
            .pin("second", second)
            .in_flight(1)
            .replan(false);
        let session = runtime.session(model, policy)?;
        let mut input = session.input("x")?;
        input.bytes_mut()?.fill(0);
        Ok(Timed {
            session,
            input,
            took: Vec::new(),
        })
    }

    fn run(&mut self) -> Result<()> {
        let start = Instant::now();
        self.session.submit(&[&self.input])?.wait(PATIENCE)?;
        self.took
            .push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        Ok(())
    }

    /// What a run takes beside the times that the devices state of their parts, in nanoseconds.
    fn beside(&mut self) -> Result<u64> {
        self.took.sort_unstable();
        let took = self.took.get(self.took.len() / 2).copied().unwrap_or(0);
        let mut parts = 0;
        for part in self.session.report().parts {
            parts += part.measured_ns.ok_or_else(|| {
                let words = format!("{} does not report the times of its parts", part.device);
                Error::new(ErrorKind::DeviceFailed, words)
            })?;
        }
        Ok(took.saturating_sub(parts))
    }
}

fn measure(runtime: &Runtime, policy: &Policy, from: &Device, to: &Device) -> Result<Found> {
    let mut found = Found {
        launch: [0; 2],
        transfer: [0; 2],
    };
    for (size, elements) in SIZES.into_iter().enumerate() {
        let model = probe(elements);
        let mut turns = [
            Timed::new(runtime, policy, &model, [from, from])?,
            Timed::new(runtime, policy, &model, [to, to])?,
            Timed::new(runtime, policy, &model, [from, to])?,
        ];
        for round in 0..WARM + RUNS[size] {
            for timed in &mut turns {
                timed.run()?;
                if round < WARM {
                    timed.took.clear();
                }
            }
        }
        let [first, second, across] = &mut turns;
        let launch = [first.beside()?, second.beside()?];
        if size == 0 {
            found.launch = launch;
        }
        found.transfer[size] = across.beside()?.saturating_sub(launch[0] + launch[1]);
    }
    Ok(found)
}

fn keep(profile: &Profile, from: &Device, to: &Device, found: &Found) -> Result<()> {
    let (writer, reader) = (from.identity(), to.identity());
    let cost = |ns| LinkCost::of_time(Time::from_nanoseconds(ns));
    profile.record_link(&writer, &writer, 0, cost(found.launch[0]))?;
    profile.record_link(&reader, &reader, 0, cost(found.launch[1]))?;
    for (elements, time) in SIZES.into_iter().zip(found.transfer) {
        profile.record_link(&writer, &reader, bytes(elements), cost(time))?;
    }
    Ok(())
}
