//! A plan with its compiled parts, made ahead of the sessions that run it.
//!
//! Invariants:
//! 1. A plan made by another version, or for another model, device, plugin, driver or policy, is
//!    refused, and the error names the difference.
//! 2. A plan passes the independent checker before its parts are compiled, and again before they
//!    are loaded.
//! 3. If a blob is refused, nothing is compiled in its place.
//! 4. Blobs may be lean: what a device makes of the model's constants, such as packed weights, is made again from them
//!    when the blob is loaded.
//!
//! Not here: the file format (serde serializes everything except the blobs), the folder of compiled
//! parts (`session::compile`).

use std::collections::BTreeMap;

use bytes::Bytes;
use polychip_graph::fingerprint;
use polychip_host::{CONTRACT, CompileOptions, Device, FlatGraph};
use polychip_partitioner::{Objective, Plan};
use serde::{Deserialize, Serialize};

use crate::cost_model::part_graph;
use crate::error::{Error, ErrorKind, Result};
use crate::loaded_part::{LoadedPart, PartMemory};
use crate::model::Model;
use crate::planned::{self, Planned};
use crate::policy::{Policy, Precision, Settings};
use crate::replan;
use crate::session::compile::{DeviceResult, Loaded, in_parallel, options};
use crate::shared::Shared;

/// A plan with its compiled parts. [`Runtime::precompile`](crate::Runtime::precompile) makes it,
/// and [`Runtime::session_precompiled`](crate::Runtime::session_precompiled) runs it. Serde
/// serializes everything except the blobs: save [`Precompiled::blobs`], and restore them with
/// [`Precompiled::with_blobs`]. Keep the model: blobs omit weights that the device packs again from it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use polychip::{Policy, Runtime};
/// # let runtime = Runtime::builder().only_given_folders().build()?;
/// # let mut graph = polychip_graph::Graph::new("relu");
/// # let ty = polychip_ops::TensorType::known(polychip_ops::DType::F32, &[4]);
/// # let x = graph.add_tensor(polychip_graph::Tensor::new("x", ty.clone()));
/// # let y = graph.add_tensor(polychip_graph::Tensor::new("y", ty));
/// # graph.add_node(polychip_graph::Node::new(polychip_ops::Op::Relu, vec![Some(x)], vec![Some(y)]));
/// # (graph.inputs, graph.outputs) = (vec![x], vec![y]);
/// # let model = runtime.load_graph("relu", graph);
/// let policy = Policy::latency().threads(1);
/// let made = runtime.precompile(&model, &policy, &[])?;
/// let session = runtime.session_precompiled(&model, policy, &[made.clone()])?;
/// assert!(session.report().parts.iter().all(|part| part.cached));
/// // another policy would give another plan
/// let error = runtime.session_precompiled(&model, Policy::latency().threads(2), &[made]).unwrap_err();
/// assert!(error.to_string().contains("threads"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precompiled {
    /// Of this library.
    version: String,
    /// Of the contract between host and plugins: major and minor.
    contract: [u32; 2],
    threads: u32,
    reduced_precision: bool,
    /// What the policy asked for: devices, if any, and pins.
    devices_asked: Option<Vec<String>>,
    pins: Vec<(String, String)>,
    longest_part_ns: Option<u64>,
    /// Of the model's open dimensions; none where all its sizes are known.
    sizes: BTreeMap<String, usize>,
    /// Those of the plan.
    devices: Vec<Stamp>,
    #[serde(with = "plan_text")]
    plan: Plan,
    /// By part: hash of what it computes, with its constants.
    parts: Vec<[u8; 32]>,
    /// By part; none where its plugin gives no bytes: such a part is compiled when it is loaded.
    #[serde(skip)]
    blobs: Vec<Option<Bytes>>,
}

/// What a device was when parts were compiled for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stamp {
    name: String,
    plugin_version: String,
    plugin_build: String,
    vendor: String,
    model: String,
    soc: String,
    driver: String,
    settings: String,
}

impl Stamp {
    fn of(device: &Device) -> Stamp {
        let (plugin, info) = (device.plugin(), device.info());
        Stamp {
            name: device.name().to_owned(),
            plugin_version: plugin.version.clone(),
            plugin_build: plugin.build_id.clone(),
            vendor: info.vendor.clone(),
            model: info.name.clone(),
            soc: info.soc.clone(),
            driver: info.driver.clone(),
            settings: info.settings.clone(),
        }
    }

    /// What is another one now.
    fn change(&self, now: &Stamp) -> Option<String> {
        let fields = [
            ("plugin's version", &self.plugin_version, &now.plugin_version),
            ("plugin's build", &self.plugin_build, &now.plugin_build),
            ("vendor", &self.vendor, &now.vendor),
            ("model", &self.model, &now.model),
            ("chip", &self.soc, &now.soc),
            ("driver", &self.driver, &now.driver),
            ("settings", &self.settings, &now.settings),
        ];
        let changed = fields.into_iter().find(|(_, then, now)| then != now);
        changed.map(|(what, then, now)| then_and_now(&format!("device {}: the {what}", self.name), then, now))
    }
}

fn then_and_now(what: &str, then: impl std::fmt::Debug, now: impl std::fmt::Debug) -> String {
    format!("{what} was {then:?} when it was compiled and is {now:?} now")
}

impl Precompiled {
    /// Plans a model and compiles its parts.
    pub(crate) fn new(
        shared: &Shared,
        model: &Model,
        policy: &Policy,
        sizes: BTreeMap<String, usize>,
    ) -> Result<Precompiled> {
        let sized = if sizes.is_empty() {
            model.clone()
        } else {
            specialised(shared, model, policy, &sizes)?
        };
        // blobs are those of one copy
        let policy = &policy.clone().replicas(false);
        let mut planned = Planned::new(shared, &sized, policy, &|_| {})?;
        let settings = policy.settings();
        let mut made = compiled(&planned, settings);
        if made.iter().any(|answer| answer.is_err()) {
            // what a device refuses goes to others as it does for a session
            (planned, _) = replan::compile(shared, planned, policy, Loaded::default())?;
            made = compiled(&planned, settings);
        }
        let (mut parts, mut blobs) = (Vec::new(), Vec::new());
        for (part, answer) in planned.plan().parts.iter().zip(made) {
            let (content, blob) = answer.map_err(|error| replan::failed_at(planned.graph(), part, error))?;
            parts.push(content);
            blobs.push(blob);
        }
        Ok(Precompiled {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            contract: CONTRACT,
            threads: settings.threads,
            reduced_precision: settings.precision == Precision::Reduced,
            devices_asked: policy.wanted_devices().map(<[String]>::to_vec),
            pins: policy.pins().to_vec(),
            longest_part_ns: longest_part_ns(policy),
            sizes,
            devices: planned.devices().iter().map(Stamp::of).collect(),
            plan: planned.plan().clone(),
            parts,
            blobs,
        })
    }

    /// The sizes of the model's open dimensions; empty if all sizes are known.
    #[must_use]
    pub fn sizes(&self) -> &BTreeMap<String, usize> {
        &self.sizes
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The compiled parts, in the plan's order; `None` for a part whose plugin cannot serialize it.
    #[must_use]
    pub fn blobs(&self) -> &[Option<Bytes>] {
        &self.blobs
    }

    /// Restores the compiled parts from [`Precompiled::blobs`].
    ///
    /// # Errors
    /// The number of blobs differs from the number of parts.
    pub fn with_blobs(self, blobs: Vec<Option<Bytes>>) -> Result<Precompiled> {
        if blobs.len() != self.parts.len() || blobs.len() != self.plan.parts.len() {
            let words = format!(
                "a plan of {} parts comes with {} hashes and {} compiled parts",
                self.plan.parts.len(),
                self.parts.len(),
                blobs.len()
            );
            return Err(Error::new(ErrorKind::BadPlan, words));
        }
        Ok(Precompiled { blobs, ..self })
    }

    /// The sizes of a model's open dimensions, by these names.
    pub(crate) fn sizes_of(&self, names: &[String], model: &Model) -> Result<Vec<usize>> {
        let sizes: Option<Vec<usize>> = names.iter().map(|name| self.sizes.get(name).copied()).collect();
        sizes
            .filter(|sizes| sizes.len() == self.sizes.len())
            .ok_or_else(|| {
                let words = format!(
                    "{}: what was compiled ahead has sizes of {:?}, and {names:?} are open",
                    model.path().display(),
                    self.sizes.keys().collect::<Vec<_>>()
                );
                Error::new(ErrorKind::BadPlan, words)
            })
    }

    /// Why it is not what would be made now, if so.
    fn stale(&self, shared: &Shared, policy: &Policy) -> Option<String> {
        let precision = |reduced: bool| if reduced { "reduced" } else { "exact" };
        let settings = policy.settings();
        let reduced = settings.precision == Precision::Reduced;
        let now = env!("CARGO_PKG_VERSION");
        if self.version != now {
            return Some(then_and_now("the version of Polychip", &self.version, now));
        }
        if self.contract != CONTRACT {
            let words = |[major, minor]: [u32; 2]| format!("{major}.{minor}");
            return Some(then_and_now(
                "the version of the contract with plugins",
                words(self.contract),
                words(CONTRACT),
            ));
        }
        if self.threads != settings.threads {
            return Some(then_and_now(
                "the number of threads",
                self.threads,
                settings.threads,
            ));
        }
        if self.reduced_precision != reduced {
            let (then, now) = (precision(self.reduced_precision), precision(reduced));
            return Some(then_and_now("the precision", then, now));
        }
        let objective = policy.objective();
        if let Some(words) = objective_change(&self.plan.objective, &objective) {
            return Some(words);
        }
        let asked = policy.wanted_devices();
        if self.devices_asked.as_deref() != asked {
            let all = |asked: Option<&[String]>| asked.map_or("all".to_owned(), |asked| asked.join(", "));
            let (then, now) = (all(self.devices_asked.as_deref()), all(asked));
            return Some(then_and_now("the list of devices asked for", then, now));
        }
        if self.pins != policy.pins() {
            return Some(then_and_now(
                "the list of pinned nodes",
                &self.pins,
                policy.pins(),
            ));
        }
        let longest = longest_part_ns(policy);
        if self.longest_part_ns != longest {
            return Some(then_and_now(
                "the longest part in ns",
                self.longest_part_ns,
                longest,
            ));
        }
        let listed = self.devices.iter().map(|stamp| &stamp.name);
        if !listed.eq(&self.plan.devices) {
            return Some("its list of devices is not that of its plan".to_owned());
        }
        self.devices.iter().find_map(|stamp| {
            let mut devices = shared.host.devices().iter();
            match devices.find(|device| device.name() == stamp.name) {
                None => Some(format!("device {} is not there any more", stamp.name)),
                Some(device) => stamp.change(&Stamp::of(device)),
            }
        })
    }

    /// The plan of a model, and its parts, loaded.
    pub(crate) fn loaded(
        &self,
        shared: &Shared,
        model: &Model,
        policy: &Policy,
    ) -> Result<(Planned, Vec<LoadedPart>)> {
        let stale = |why: &dyn std::fmt::Display| {
            let words = format!(
                "{}: what was compiled ahead is stale: {why}; compile it anew",
                model.path().display()
            );
            Error::new(ErrorKind::BadPlan, words)
        };
        if let Some(why) = self.stale(shared, policy) {
            return Err(stale(&why));
        }
        let sized = if self.sizes.is_empty() {
            model.clone()
        } else {
            specialised(shared, model, policy, &self.sizes)?
        };
        let planned = Planned::with_plan(shared, &sized, policy, self.plan.clone());
        let planned = planned.map_err(|error| match error.kind() {
            ErrorKind::BadPlan => stale(&error),
            _ => error,
        })?;
        let settings = policy.settings();
        let descriptors = sized.descriptors(planned.graph());
        let parts = &planned.plan().parts;
        let one = |index: usize| -> Result<LoadedPart> {
            let (part, made) = (&parts[index], self.parts.get(index).zip(self.blobs.get(index)));
            let device = &planned.devices()[part.device.index()];
            let part_of = format!("part {index} on {}", device.name());
            let (content, blob) = made.ok_or_else(|| stale(&format!("it has no {part_of}")))?;
            let graph = part_graph(planned.graph(), part);
            let (structure, now) = (fingerprint::structure(&graph), sized.content(&graph));
            if now != *content {
                return Err(stale(&format!("{part_of} has other nodes or constants now")));
            }
            let answer = || -> DeviceResult<LoadedPart> {
                let flat = FlatGraph::new(&graph, &descriptors)?.with_fingerprints(structure, now);
                let executable = match blob {
                    Some(blob) => device.load_bytes(blob.clone(), &flat, settings.threads)?,
                    None => device.load(
                        device.compile(&flat, &options(settings))?,
                        &flat,
                        settings.threads,
                    )?,
                };
                Ok(LoadedPart {
                    // the blob is the app's
                    memory: PartMemory::new(
                        sized.weights(),
                        device,
                        &executable,
                        graph.constant_bytes(),
                        None,
                    ),
                    device: part.device,
                    executable,
                    structure,
                    cached: blob.is_some(),
                    blob: blob.clone().filter(|_| device.offers_reset()),
                })
            };
            answer().map_err(|error| match error.kind() {
                polychip_host::ErrorKind::BadBlob => stale(&format!("{part_of}: {error}")),
                _ => replan::failed(part, error),
            })
        };
        let loaded: Result<Vec<LoadedPart>> = in_parallel(parts.len(), one).into_iter().collect();
        let loaded = loaded?;
        Ok((planned, loaded))
    }
}

/// The model with these sizes, as a session of it makes it.
fn specialised(
    shared: &Shared,
    model: &Model,
    policy: &Policy,
    sizes: &BTreeMap<String, usize>,
) -> Result<Model> {
    let keep_halves = planned::keeps_halves(&planned::choose_devices(shared, policy)?, policy);
    model.specialised(sizes, keep_halves, || {
        planned::canonical(shared, model, keep_halves)
    })
}

fn longest_part_ns(policy: &Policy) -> Option<u64> {
    let longest = policy.longest_device_time()?;
    Some(u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX))
}

/// What is asked for now, and was not, or the other way round.
fn objective_change(then: &Objective, now: &Objective) -> Option<String> {
    if then == now {
        return None;
    }
    let words = |objective: &Objective| {
        let Objective {
            time_weight,
            energy_weight,
            deadline,
            energy_budget,
            max_predicted_power,
            max_predicted_temperature,
            slowest_permille,
            goal,
        } = objective;
        format!(
            "goal {goal:?}, weights {time_weight} a ns and {energy_weight} a µJ, deadline {deadline:?}, energy {energy_budget:?}, \
             power {max_predicted_power:?}, temperature {max_predicted_temperature:?}, thousandths of the fastest plan's time \
             {slowest_permille:?}"
        )
    };
    Some(format!(
        "the objective was [{}] when the plan was compiled and is [{}] now",
        words(then),
        words(now)
    ))
}

/// What each part of a plan computes, as a hash, and its blob.
fn compiled(planned: &Planned, settings: Settings) -> Vec<DeviceResult<([u8; 32], Option<Bytes>)>> {
    let descriptors = planned.model().descriptors(planned.graph());
    let parts = &planned.plan().parts;
    in_parallel(parts.len(), |index| {
        let part = &parts[index];
        let device = &planned.devices()[part.device.index()];
        let graph = part_graph(planned.graph(), part);
        let content = planned.model().content(&graph);
        let flat =
            FlatGraph::new(&graph, &descriptors)?.with_fingerprints(fingerprint::structure(&graph), content);
        let options = CompileOptions {
            lean_blob: true,
            ..options(settings)
        };
        let mut blob = device.compile(&flat, &options)?;
        let bytes = match blob.bytes() {
            Ok(bytes) => Some(Bytes::copy_from_slice(bytes)),
            Err(error) => {
                tracing::warn!("{error}; the part is compiled again by each session");
                None
            }
        };
        Ok((content, bytes))
    })
}

/// A plan as the text of its file, whose version is checked.
mod plan_text {
    use polychip_partitioner::Plan;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(plan: &Plan, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&plan.to_json())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Plan, D::Error> {
        let text = String::deserialize(deserializer)?;
        Plan::from_json(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests;
