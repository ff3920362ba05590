//! What the canonical form of a model keeps of what the file states, which depends on the devices of a session.
//!
//! Not here: the passes that bring a graph into that form (`polychip_graph::passes`), who asks for it (`planned`).

use polychip_host::{Device, DeviceKind};

use crate::policy::Policy;

/// What the canonical form of a model keeps for sessions of a policy on some devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Whether weights of 16 bits stay so, behind a Cast: where all nodes go to the CPU plugin's one device, in parts that
    /// nothing cuts.
    ///
    /// What other devices make of a Cast in front of each product is unknown, and most would run it each time; and where a
    /// Cast is in another part than its product, the widened weights go over the cut in each run.
    pub(crate) halves: bool,
    /// Whether values that a tool quantised inside a Gelu, a normalisation and the like are rounded: where all devices compute
    /// their primitive ops. Many NPUs have the whole op only.
    pub(crate) roundings: bool,
}

impl Kept {
    /// How many differ.
    pub(crate) const COUNT: usize = 4;

    pub(crate) fn of(devices: &[Device], policy: &Policy) -> Self {
        let halves = match devices {
            [device] => {
                is_cpu(device) && device.plugin().name == "cpu" && policy.longest_device_time().is_none()
            }
            _ => false,
        };
        let of_floats = |device: &Device| {
            let info = device.info();
            matches!(info.kind, DeviceKind::Cpu | DeviceKind::Gpu) && !info.emulated
        };
        Self {
            halves,
            roundings: devices.iter().all(of_floats),
        }
    }

    /// A number below [`COUNT`](Self::COUNT), one for each.
    pub(crate) fn index(self) -> usize {
        usize::from(self.halves) + 2 * usize::from(self.roundings)
    }
}

/// Whether a device is a processor of this machine.
pub(crate) fn is_cpu(device: &Device) -> bool {
    device.info().kind == DeviceKind::Cpu && !device.info().emulated
}
