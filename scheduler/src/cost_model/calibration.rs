//! Calibration: the ratio of measured to stated time of small networks on a device.
//!
//! A plugin that was never measured on a machine states rates of its chip's class. They are off by
//! a factor that is similar for all models, because it comes from the machine: its clock, the width
//! of its units, the library version. Four small networks determine that factor within some tenths
//! of a second.
//!
//! Invariants:
//! 1. The figures belong to one device identity (plugin build, chip, driver, settings) and one
//!    operating point.
//! 2. Only stated figures are scaled, and they are labelled ([`Provenance::Calibrated`]);
//!    measurements of the model itself take precedence.
//! 3. An emulated device keeps its scripted figures unless a policy asks for calibration.
//!
//! Not here: the networks and their runs (`profiler::calibrate`), the scaled figures (`resolve`).

use polychip_graph::Graph;
use polychip_host::Device;
use polychip_partitioner::{Cost, Provenance, Time};
use polychip_profile::{Profile, work};

use super::power::taking;
use crate::error::Result;
use crate::policy::Settings;

/// Owner of stored calibrations, among the plugins' values.
const OWNER: &str = "polychip";
/// Version of the networks and of the fit. Figures of another version are taken anew.
const VERSION: u32 = 1;

/// By what a device's stated costs are to be multiplied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Calibration {
    /// Nodes that compute: at least four multiply-adds for a byte ([`computes`]).
    pub(crate) compute: f64,
    /// All other nodes.
    pub(crate) traffic: f64,
    /// From submitting a run of next to no work to its outputs.
    pub(crate) launch: Time,
}

impl Calibration {
    /// What is known of a device, where it was calibrated.
    pub(crate) fn read(profile: &Profile, device: &Device, settings: Settings) -> Option<Calibration> {
        let kept = profile.or_nothing(profile.plugin_value(OWNER, &key(device, settings)))?;
        Calibration::parse(std::str::from_utf8(&kept).ok()?)
    }

    pub(crate) fn keep(self, profile: &Profile, device: &Device, settings: Settings) -> Result<()> {
        profile.set_plugin_value(OWNER, &key(device, settings), self.text().as_bytes())?;
        Ok(())
    }

    fn text(self) -> String {
        let launch = self.launch.nanoseconds();
        format!("{VERSION} {} {} {launch}", self.compute, self.traffic)
    }

    fn parse(text: &str) -> Option<Calibration> {
        let mut words = text.split(' ');
        let version: u32 = words.next()?.parse().ok()?;
        let mut factor = || {
            let factor: f64 = words.next()?.parse().ok()?;
            (factor.is_finite() && factor > 0.0).then_some(factor)
        };
        let (compute, traffic) = (factor()?, factor()?);
        let launch = Time::from_nanoseconds(words.next()?.parse().ok()?);
        (version == VERSION).then_some(Calibration {
            compute,
            traffic,
            launch,
        })
    }

    /// The stated cost of a node, scaled.
    pub(crate) fn scaled(self, cost: Cost, computes: bool) -> Cost {
        let factor = if computes { self.compute } else { self.traffic };
        let picoseconds = (cost.time.picoseconds() as f64 * factor).round() as u64;
        taking(
            cost,
            picoseconds.clamp(1, u64::MAX / 1_000_000),
            Provenance::Calibrated,
        )
    }
}

/// What a calibration is kept under: also the rates that the plugin's statements are made of, which are no part of what a
/// device is.
pub(crate) fn key(device: &Device, settings: Settings) -> String {
    let info = device.info();
    let point = settings.operating_point(info.kind);
    let rates = (info.peak_macs_per_s, info.peak_bytes_per_s, info.rates_measured_s);
    format!("calibration {} {point} {rates:?}", device.identity())
}

/// Of each node of a graph whether arithmetic bounds it, rather than memory: at least four multiply-adds for a byte.
pub(crate) fn computes(graph: &Graph) -> Vec<bool> {
    let computes = |node| {
        let work = work::of_node(graph, node);
        work.macs >= work.bytes.saturating_mul(4)
    };
    graph.nodes().map(|(_, node)| computes(node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stored_calibrations_are_read() {
        let calibration = Calibration {
            compute: 0.3125,
            traffic: 4.0,
            launch: Time::from_nanoseconds(12_345),
        };
        assert_eq!(Calibration::parse(&calibration.text()), Some(calibration));
        for bad in [
            "",
            "1",
            "1 0 1 5",
            "1 nan 1 5",
            "1 1 1",
            "0 1 1 5",
            "1 1 1 x",
            "1 -1 1 5",
        ] {
            assert_eq!(Calibration::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn stated_cost_is_scaled_by_its_bound() {
        let calibration = Calibration {
            compute: 0.5,
            traffic: 3.0,
            launch: Time::ZERO,
        };
        let stated = Cost::time(Time::from_nanoseconds(100), Provenance::Roofline);
        let scaled = |computes| calibration.scaled(stated, computes);
        assert_eq!(scaled(true).time.nanoseconds(), 50);
        assert_eq!(scaled(false).time.nanoseconds(), 300);
        assert_eq!(scaled(false).provenance, Provenance::Calibrated);
    }
}
