//! A part of a plan, compiled and loaded on its device, and the memory that it holds.
//!
//! Invariants:
//! 1. A part is charged once, to the first session that has it in a plan.
//! 2. A plugin may share packed weights between parts of one model, and state them for the first of
//!    them alone. Their charge stays while another such part may use them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use polychip_graph::fingerprint::ConstantHashes;
use polychip_host::{Device, Executable};
use polychip_partitioner::DeviceIndex;

use crate::memory_account::Charge;

/// A part of the plan, loaded.
#[derive(Debug, Clone)]
pub(crate) struct LoadedPart {
    pub(crate) device: DeviceIndex,
    pub(crate) executable: Executable,
    /// Structure fingerprint: the key of measurements.
    pub(crate) structure: [u8; 32],
    /// The blob came from the cache, or was compiled ahead.
    pub(crate) cached: bool,
    /// Its bytes, for a device that may have to load it again after a reset.
    pub(crate) blob: Option<Bytes>,
    /// Held by all plans and sessions that share the part.
    pub(crate) memory: Arc<PartMemory>,
}

/// The memory of a loaded part, as its device states it. A part in the device's own memory has none.
#[derive(Debug)]
pub(crate) struct PartMemory {
    /// Weights and code that no other part of the model had when it was loaded, in bytes.
    pub(crate) weight_bytes: u64,
    /// Working memory and the blob, in bytes.
    pub(crate) other_bytes: u64,
    /// Of the weights and of the rest; none before it is in a plan.
    charges: OnceLock<[Charge; 2]>,
    member: u64,
    group: Arc<WeightGroup>,
}

impl PartMemory {
    /// Of a part whose graph has so many bytes of constants, and whose blob is kept in memory, if any.
    pub(crate) fn new(
        group: &Arc<WeightGroup>,
        device: &Device,
        executable: &Executable,
        constant_bytes: u64,
        blob: Option<&Bytes>,
    ) -> Arc<PartMemory> {
        let info = executable.info();
        let (weights, working) = match device.info().link_bytes_per_s {
            Some(_) => (0, 0),
            None => (info.constant_bytes, info.arena_bytes),
        };
        let shared_bytes = constant_bytes.saturating_sub(weights);
        Arc::new(PartMemory {
            weight_bytes: weights,
            other_bytes: working.saturating_add(blob.map_or(0, |blob| blob.len() as u64)),
            charges: OnceLock::new(),
            member: group.join(device.name(), shared_bytes, constant_bytes, weights),
            group: Arc::clone(group),
        })
    }

    pub(crate) fn is_charged(&self) -> bool {
        self.charges.get().is_some()
    }

    /// The charges of its weights and of the rest. Where another session was first, these are released.
    pub(crate) fn set_charges(&self, weights: Charge, other: Charge) {
        let _ = self.charges.set([weights, other]);
    }

    pub(crate) fn charged_bytes(&self) -> u64 {
        let charges = self.charges.get();
        charges.map_or(0, |charges| charges.iter().map(Charge::bytes).sum())
    }
}

impl Drop for PartMemory {
    fn drop(&mut self) {
        let weights = self.charges.take().map(|[weights, _]| weights);
        self.group.leave(self.member, weights);
    }
}

/// The loaded parts of a model in all its sizes and settings, which may share packed weights.
#[derive(Debug, Default)]
pub(crate) struct WeightGroup {
    next: AtomicU64,
    state: Mutex<GroupState>,
    /// Hashes of constants that were read for a fingerprint.
    hashes: Mutex<ConstantHashes>,
}

impl WeightGroup {
    /// Hashes of constants that were read for a fingerprint.
    pub(crate) fn hashes(&self) -> MutexGuard<'_, ConstantHashes> {
        self.hashes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct GroupState {
    members: Vec<Member>,
    /// Weights of parts that are gone and that members may use, by device.
    left: Vec<(String, Charge)>,
    /// What a part took at the latest, by device and whether another part of the device was loaded then: bytes of
    /// constants, and of weights that it held for them.
    taken: BTreeMap<(String, bool), (u64, u64)>,
}

impl GroupState {
    fn has_members(&self, device: &str) -> bool {
        self.members.iter().any(|member| member.device == device)
    }
}

#[derive(Debug)]
struct Member {
    number: u64,
    device: String,
    /// Bytes of weights that it may have from others.
    shared_bytes: u64,
}

impl WeightGroup {
    fn join(&self, device: &str, shared_bytes: u64, constant_bytes: u64, weights: u64) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if constant_bytes > 0 {
            let has_others = state.has_members(device);
            let taken = (constant_bytes, weights);
            state.taken.insert((device.to_owned(), has_others), taken);
        }
        state.members.push(Member {
            number,
            device: device.to_owned(),
            shared_bytes,
        });
        number
    }

    /// The bytes of weights that a part with so many bytes of constants is expected to hold on a device: as many as it has
    /// constants, or in the proportion that parts of the model had before.
    pub(crate) fn expected(&self, device: &str, constant_bytes: u64) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let has_others = state.has_members(device);
        match state.taken.get(&(device.to_owned(), has_others)) {
            Some((constants, weights)) => {
                let scaled = u128::from(constant_bytes) * u128::from(*weights) / u128::from(*constants);
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
            None => constant_bytes,
        }
    }

    /// A part is freed. Its weights stay charged as far as other parts may use them.
    fn leave(&self, number: u64, weights: Option<Charge>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = state.members.iter().position(|member| member.number == number) else {
            return;
        };
        let device = state.members.swap_remove(at).device;
        if let Some(weights) = weights.filter(|weights| weights.bytes() > 0) {
            state.left.push((device.clone(), weights));
        }
        let members = state.members.iter().filter(|member| member.device == device);
        let used = members.map(|member| member.shared_bytes).max().unwrap_or(0);
        let (mut left, others): (Vec<_>, Vec<_>) = state.left.drain(..).partition(|(of, _)| *of == device);
        state.left = others;
        // the largest first; those beyond what a member may use are released
        left.sort_by_key(|(_, charge)| std::cmp::Reverse(charge.bytes()));
        let mut covered = 0;
        let (kept, gone): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, charge)| {
            let is_used = covered < used;
            covered = covered.saturating_add(charge.bytes());
            is_used
        });
        state.left.extend(kept);
        drop(state);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_weights_follow_what_parts_of_the_model_took() {
        let group = WeightGroup::default();
        assert_eq!(group.expected("cpu:0", 100), 100, "nothing is known");
        let first = group.join("cpu:0", 0, 100, 200);
        // the first of its device, which a second one does not show
        assert_eq!(group.expected("cpu:0", 100), 100);
        let second = group.join("cpu:0", 100, 100, 0);
        assert_eq!(group.expected("cpu:0", 100), 0, "weights are shared");
        assert_eq!(group.expected("npu:0", 100), 100);
        group.leave(first, None);
        group.leave(second, None);
        assert_eq!(group.expected("cpu:0", 50), 100, "twice its constants, alone");
    }
}
