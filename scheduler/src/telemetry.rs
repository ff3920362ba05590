//! What the chips of this machine say of themselves: temperature, power, energy, clocks, load, battery.
//!
//! Two sources: the plugins' own telemetry, and the files in which Linux shows its sensors ([`Sensors`]). A
//! [`Sampler`] reads both and says of each device what is known, and by which sensor.
//!
//! Invariants:
//! 1. No figure is invented: what no sensor says is absent, with the reason.
//! 2. Sensors are found by their names, never by their numbers, which change from boot to boot.
//! 3. Nothing here is on the path of a run; a sensor that fails fails alone.
//!
//! Not here: what to do about it (`governor`), what a plan costs (`cost_model`).
//! Start reading at [`Sampler::sample`].

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
