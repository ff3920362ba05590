//! Current conditions of devices, read when plans are priced and during measurements.
//!
//! Invariant: nothing is read if no measurement depends on it.
//!
//! Not here: what a time depends on (`conditions`), the sensors (`sampler`).

use std::sync::PoisonError;

use polychip_host::Device;
use polychip_profile::Conditions;

use super::files::Sensors;
use super::rules::Rules;
use super::sampler::Sampler;
use crate::runtime::Runtime;
use crate::shared::Shared;

impl Shared {
    /// Under which conditions each of these devices would compute from now on.
    pub(crate) fn expected(&self, devices: &[Device]) -> Vec<Conditions> {
        if self
            .profile
            .or_nothing(self.profile.has_no_parts().map(|none| !none))
        {
            return self.sampled(|sampler| devices.iter().map(|device| sampler.expected(device)).collect());
        }
        vec![Conditions::default(); devices.len()]
    }

    /// Under which conditions a device computes at this moment.
    pub(crate) fn under_load(&self, device: &Device) -> Conditions {
        self.sampled(|sampler| sampler.under_load(device))
    }

    /// Linux's sensors: those that the app gave, else this machine's.
    pub(crate) fn sensors(&self) -> Sensors {
        let own = || Sensors::of_this_machine(&Rules::default());
        self.sensors.clone().unwrap_or_else(own)
    }

    fn sampled<T>(&self, read: impl FnOnce(&mut Sampler) -> T) -> T {
        let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
        read(sampler.get_or_insert_with(|| {
            Sampler::of(
                self.host.devices().to_vec(),
                self.host.clock().clone(),
                self.sensors(),
            )
        }))
    }
}

impl Runtime {
    /// The conditions under which a device would compute now. Plans use the measured figures that
    /// were taken under the most similar conditions. For an idle device, the clock is the highest
    /// allowed one, if known.
    #[must_use]
    pub fn conditions(&self, device: &Device) -> Conditions {
        self.0.sampled(|sampler| sampler.expected(device))
    }
}

impl Sampler {
    /// A sampler for all devices of a runtime.
    #[must_use]
    pub fn new(runtime: &Runtime, sensors: Sensors) -> Sampler {
        Sampler::of(
            runtime.devices().to_vec(),
            runtime.0.host.clock().clone(),
            sensors,
        )
    }
}
