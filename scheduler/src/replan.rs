//! Turns a plan into loaded parts. If a device refuses a part when it is compiled or loaded, a new
//! plan moves the refused nodes to other devices.
//!
//! Invariants:
//! 1. Every move has an event with the device and its message; with `Policy::replan(false)` no node
//!    moves.
//! 2. A pinned node is never moved: a device that refuses it is an error.
//! 3. The rounds and the attempts of each are bounded, and depend only on the devices' answers.
//!
//! Not here: which nodes to try (`bisect`), stored refusals (`refusal`), losses of a running
//! session.

use std::collections::{BTreeMap, BTreeSet};

use polychip_graph::Graph;
use polychip_host::ErrorKind as HostKind;
use polychip_partitioner::{DeviceIndex, Part};
use polychip_profile::RefusedRun;
use polychip_profile::extract::{run_graph, structure_of};
use polychip_profile::refusal::{mark, mark_known};

use crate::bisect::smallest_refused;
use crate::cost_model::part_graph;
use crate::error::{Error, ErrorKind, Result, kind_of_host};
use crate::event::{Event, EventKind};
use crate::loaded_part::LoadedPart;
use crate::planned::Planned;
use crate::policy::Policy;
use crate::refusal::{self, words_of};
use crate::session::compile::{self, Loaded};
use crate::shared::Shared;

/// Plans that are tried. A device that refuses more patterns than that is left out altogether.
const ROUNDS: u32 = 16;

/// Compiles and loads all parts of a plan, or of the plan that the devices accept instead; those of further copies of
/// the model follow those of the first, in the order of the copies.
pub(crate) fn compile(
    shared: &Shared,
    planned: Planned,
    policy: &Policy,
    have: Loaded,
) -> Result<(Planned, Vec<LoadedPart>)> {
    let first = planned.clone();
    let mut search = Search {
        shared,
        policy,
        have,
        words: BTreeMap::new(),
        resets: BTreeSet::new(),
        reset_now: BTreeSet::new(),
        events: Vec::new(),
    };
    let mut planned = planned;
    for round in 1.. {
        let settings = policy.settings();
        let replicas = planned.plan().replicas.len();
        let copies: Vec<Planned> = (0..replicas).map(|index| planned.copy(index)).collect();
        let plans: Vec<&Planned> = std::iter::once(&planned).chain(&copies).collect();
        let cache = shared.cache.as_ref();
        let answers: Vec<_> = plans
            .iter()
            .map(|planned| compile::all(planned, settings, cache, &search.have))
            .collect();
        let mut refused: Vec<(usize, usize, polychip_host::Error)> = Vec::new();
        let mut loaded = Vec::new();
        search.have.clear();
        search.reset_now.clear();
        for (copy, answers) in answers.into_iter().enumerate() {
            for (index, answer) in answers.into_iter().enumerate() {
                match answer {
                    Ok(part) => {
                        search.have.add(&plans[copy].plan().parts[index], part.clone());
                        loaded.push(part);
                    }
                    Err(error) => refused.push((copy, index, error)),
                }
            }
        }
        if refused.is_empty() {
            search.tell_moves(&first, &mut planned);
            return Ok((planned, loaded));
        }
        drop(loaded);
        // what a device read from a truncated file is not its fault
        planned.model().check_files()?;
        let mut changes = Vec::new();
        for (copy, index, error) in refused {
            changes.extend(search.refused(plans[copy], index, error, round >= ROUNDS)?);
        }
        if !changes.is_empty() {
            planned = search.without(&planned, &changes)?;
        }
    }
    unreachable!("the last round leaves a device out, and there are finitely many")
}

/// The plan without the device that failed when a loaded plan was given its memory.
///
/// # Errors
/// The error itself: it is not of a device that others can replace, or the policy forbids a new plan.
pub(crate) fn without_failed(
    shared: &Shared,
    planned: &Planned,
    policy: &Policy,
    error: Error,
) -> Result<Planned> {
    let name = error.device().filter(|_| policy.may_replan());
    let mut used = planned.used_devices().into_iter();
    let index = used.find(|index| name == Some(planned.devices()[index.index()].name()));
    let Some(index) = index.filter(|index| planned.can_do_without(*index)) else {
        return Err(error);
    };
    let words = error.to_string();
    let device = planned.devices()[index.index()].name().to_owned();
    tracing::warn!("{device} is not used: {words}");
    let moved = planned.nodes_on(index);
    let mut next = planned.again(shared, policy.settings(), |targets| {
        targets[index.index()].quarantined = Some(words.clone());
    })?;
    next.tell(Event::new(EventKind::Replanned, &device, moved, words));
    Ok(next)
}

/// What a new plan must do without.
enum Change {
    /// A run of nodes on a device, with the device's words; whether alike runs are refused as well.
    Run(DeviceIndex, Vec<u32>, String, bool),
    /// A whole device.
    Device(DeviceIndex, String),
}

struct Search<'a> {
    shared: &'a Shared,
    policy: &'a Policy,
    have: Loaded,
    /// By device, why nodes were taken from it.
    words: BTreeMap<DeviceIndex, BTreeSet<String>>,
    /// Devices that were reset once already.
    resets: BTreeSet<DeviceIndex>,
    /// Those that were reset in this round: what their other parts failed of before is the same loss.
    reset_now: BTreeSet<DeviceIndex>,
    events: Vec<Event>,
}

impl Search<'_> {
    /// What follows from a device's refusal of a part; nothing where it is to be tried again.
    fn refused(
        &mut self,
        planned: &Planned,
        index: usize,
        error: polychip_host::Error,
        last: bool,
    ) -> Result<Option<Change>> {
        let part = &planned.plan().parts[index];
        let device = &planned.devices()[part.device.index()];
        if error.kind() == HostKind::DeviceLost {
            return self.lost(planned, part, error);
        }
        if !is_refusal(error.kind()) || !self.policy.may_replan() || !can_move(planned, part) {
            return Err(failed_at(planned.graph(), part, error));
        }
        // once more: a fault that passes is no refusal, and neither is memory that has come free
        let error = match self.attempt(planned, part, &part.nodes) {
            Ok(loaded) => {
                self.have.add(part, loaded);
                self.events
                    .push(Event::new(EventKind::Retried, device.name(), 0, words_of(&error)));
                return Ok(None);
            }
            Err(error) if error.kind() == HostKind::DeviceLost => return self.lost(planned, part, error),
            Err(error) if is_refusal(error.kind()) => error,
            Err(error) => return Err(failed_at(planned.graph(), part, error)),
        };
        // what breaks the contract breaks it for any nodes
        if last || is_fault(error.kind()) {
            return Ok(Some(Change::Device(part.device, words_of(&error))));
        }
        let (nodes, error) = if error.kind() == HostKind::Transient {
            (part.nodes.clone(), error)
        } else {
            match self.smallest(planned, part, error) {
                Ok(found) => found,
                Err(error) if error.kind() == HostKind::DeviceLost => {
                    return self.lost(planned, part, error);
                }
                Err(error) => return Err(failed(part, error)),
            }
        };
        let (words, lasting) = (words_of(&error), is_lasting(error.kind()));
        let pins = &planned.request().options.pins;
        if nodes
            .iter()
            .all(|node| pins.get(&(*node as usize)) == Some(&part.device.index()))
        {
            let (_, node) = planned
                .graph()
                .nodes()
                .nth(nodes[0] as usize)
                .expect("invariant: a part holds nodes of the graph");
            let context = format!("node {:?} is pinned to a device that refuses it", node.name);
            return Err(Error::caused(ErrorKind::NoDevice, context, error));
        }
        if lasting {
            let run = RefusedRun {
                fingerprint: structure_of(planned.graph(), &nodes),
                nodes: nodes.len(),
                words: words.clone(),
            };
            // a profile that cannot be written costs the next session its search, not this one its life
            if let Err(error) = self.shared.profile.refuse(&device.identity(), &run) {
                tracing::warn!("a refusal of {} cannot be stored: {error}", device.name());
            }
        }
        Ok(Some(Change::Run(part.device, nodes, words, lasting)))
    }

    /// A device that is lost while it compiles: reset once, then left out.
    fn lost(
        &mut self,
        planned: &Planned,
        part: &Part,
        error: polychip_host::Error,
    ) -> Result<Option<Change>> {
        let device = &planned.devices()[part.device.index()];
        let words = words_of(&error);
        if self.reset_now.contains(&part.device) && !device.is_quarantined() {
            return Ok(None);
        }
        self.events
            .push(Event::new(EventKind::Lost, device.name(), 0, words.clone()));
        if self.resets.insert(part.device) {
            match device.reset_if_quarantined() {
                Ok(_) => {
                    self.have.forget(part.device);
                    self.reset_now.insert(part.device);
                    self.events
                        .push(Event::new(EventKind::Reset, device.name(), 0, words));
                    return Ok(None);
                }
                Err(reason) => self.events.push(Event::new(
                    EventKind::ResetFailed,
                    device.name(),
                    0,
                    words_of(&reason),
                )),
            }
        }
        self.have.forget(part.device);
        if !self.policy.may_replan() || !can_move(planned, part) {
            return Err(failed(part, error));
        }
        Ok(Some(Change::Device(part.device, words)))
    }

    /// The smallest run of a part that its device refuses, and what it says to that.
    fn smallest(
        &self,
        planned: &Planned,
        part: &Part,
        error: polychip_host::Error,
    ) -> compile::DeviceResult<(Vec<u32>, polychip_host::Error)> {
        let hint = error.node().and_then(|node| position(planned, part, node));
        let mut last = error;
        let run = smallest_refused(part.nodes.len(), hint, |run| {
            match self.attempt(planned, part, &part.nodes[run]) {
                Ok(_) => Ok(false),
                Err(error) if is_refusal(error.kind()) => {
                    last = error;
                    Ok(true)
                }
                Err(error) => Err(error),
            }
        })?;
        Ok((part.nodes[run].to_vec(), last))
    }

    /// Compiles and loads some nodes of a part by themselves.
    fn attempt(&self, planned: &Planned, part: &Part, nodes: &[u32]) -> compile::DeviceResult<LoadedPart> {
        let graph = if nodes.len() == part.nodes.len() {
            part_graph(planned.graph(), part)
        } else {
            run_graph(planned.graph(), nodes)
        };
        let descriptors = planned.model().descriptors(planned.graph());
        let settings = self.policy.settings();
        compile::one(
            planned,
            part.device,
            &graph,
            &descriptors,
            settings,
            compile::Source::default(),
        )
    }

    /// The plan without what the devices refused.
    fn without(&mut self, planned: &Planned, changes: &[Change]) -> Result<Planned> {
        let pins = &planned.request().options.pins;
        let graph = planned.graph();
        planned.again(self.shared, self.policy.settings(), |targets| {
            for change in changes {
                match change {
                    Change::Run(device, nodes, words, alike) => {
                        mark(&mut targets[device.index()], *device, nodes, words, pins);
                        if *alike {
                            let run = RefusedRun {
                                fingerprint: structure_of(graph, nodes),
                                nodes: nodes.len(),
                                words: words.clone(),
                            };
                            mark_known(graph, &mut targets[device.index()], *device, &[run], pins);
                        }
                        self.words.entry(*device).or_default().insert(words.clone());
                    }
                    Change::Device(device, words) => {
                        targets[device.index()].quarantined = Some(words.clone());
                        self.words.entry(*device).or_default().insert(words.clone());
                    }
                }
            }
        })
    }

    /// Adds an event for each device that lost nodes between the first plan and the last.
    fn tell_moves(&mut self, first: &Planned, last: &mut Planned) {
        for event in self.events.drain(..) {
            last.tell(event);
        }
        let nodes = first.graph().node_count();
        let (before, after) = (
            first.plan().devices_of_nodes(nodes),
            last.plan().devices_of_nodes(nodes),
        );
        for (index, words) in &self.words {
            let here = |device: &Option<DeviceIndex>| *device == Some(*index);
            let moved = before
                .iter()
                .zip(&after)
                .filter(|(a, b)| here(a) && !here(b))
                .count();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let device = last.devices()[index.index()].name().to_owned();
            last.tell(Event::new(EventKind::Replanned, &device, moved, words.join("; ")));
        }
    }
}

/// Whether a device that fails so may be left for another: also one that does not load what it compiled.
fn is_refusal(kind: HostKind) -> bool {
    matches!(
        kind,
        HostKind::Unsupported
            | HostKind::Persistent
            | HostKind::OutOfMemory
            | HostKind::Transient
            | HostKind::BadBlob
    ) || is_fault(kind)
}

/// Whether the plugin broke the contract.
fn is_fault(kind: HostKind) -> bool {
    matches!(kind, HostKind::BadPlugin | HostKind::BadArgument)
}

/// Whether the device will say the same next time.
fn is_lasting(kind: HostKind) -> bool {
    matches!(kind, HostKind::Unsupported | HostKind::Persistent)
}

/// Whether at least one node of a part has another device to go to.
fn can_move(planned: &Planned, part: &Part) -> bool {
    let others = || {
        let targets = planned.targets().iter().enumerate();
        targets.filter(move |(index, target)| *index != part.device.index() && target.quarantined.is_none())
    };
    part.nodes
        .iter()
        .any(|node| others().any(|(_, target)| target.supports(*node as usize)))
}

/// Position in its part of the node that a device named.
fn position(planned: &Planned, part: &Part, node: u32) -> Option<usize> {
    let graph = part_graph(planned.graph(), part);
    let (_, named) = graph.nodes().nth(node as usize)?;
    let named: BTreeSet<&str> = named.writes().map(|id| &*graph.tensor(id).name).collect();
    let whole = planned.graph();
    part.nodes.iter().position(|node| {
        let node = whole.node(polychip_graph::NodeId::new(*node as usize));
        node.writes()
            .map(|id| &*whole.tensor(id).name)
            .collect::<BTreeSet<&str>>()
            == named
    })
}

/// As [`failed`], with the node that the device named.
pub(crate) fn failed_at(graph: &Graph, part: &Part, error: polychip_host::Error) -> Error {
    match refusal::node_words(graph, part, error.node()) {
        Some(node) => Error::caused(kind_of_part(&error), node, error),
        None => failed(part, error),
    }
}

/// What a device said to a part, as an error of ours.
pub(crate) fn failed(part: &Part, error: polychip_host::Error) -> Error {
    let context = format!("part {} of {} nodes", part.id, part.nodes.len());
    Error::caused(kind_of_part(&error), context, error)
}

fn kind_of_part(error: &polychip_host::Error) -> ErrorKind {
    match error.kind() {
        // shapes that contradict each other, an index outside of what it indexes
        HostKind::BadArgument => ErrorKind::BadModel,
        kind => kind_of_host(kind),
    }
}
