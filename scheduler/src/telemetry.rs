//! Telemetry of this machine's chips: temperature, power, energy, clocks, load, battery.
//!
//! Two sources: the plugins' own telemetry, and Linux's sensor files ([`Sensors`]). A [`Sampler`]
//! reads both and gives each device's known figures with their sensors.
//!
//! Invariants:
//! 1. No figure is invented: a figure without a sensor is absent, with the reason.
//! 2. Sensors are identified by name, never by number, because numbers change between boots.
//! 3. Nothing here is on the path of a run; a sensor that fails affects no other.
//!
//! Not here: the reaction (`governor`), plan costs (`cost_model`). Start reading at
//! [`Sampler::sample`].

mod bench;
mod counter;
mod energy;
pub(crate) mod files;
mod kept;
mod present;
mod rules;
pub(crate) mod sampler;
mod sensor;
mod tree;

pub use bench::{EnergyBench, EnergyOf, EnergyRun};
pub use energy::{EnergyFigures, EnergyMeter, Interval};
pub use files::Sensors;
pub(crate) use kept::record;
pub use rules::{Rules, Subject};
pub use sampler::{Battery, DeviceState, Figure, Heat, Sample, Sampler};
pub use sensor::{Absent, Quantity, Reading, Sensor, Trip};
pub use tree::SensorFiles;
