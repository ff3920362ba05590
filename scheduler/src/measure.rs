//! Measures links, models and parts in one call, so that an app's plans use measured times.
//!
//! Not here: the order of measurements (`profiler`), links (`link`).

use std::fmt;
use std::ops::ControlFlow;

use polychip_partitioner::Time;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Result;
use crate::link::{LinkMeasurement, UnmeasuredLink};
use crate::model::Model;
use crate::policy::Policy;
use crate::profiler::{ProfileOptions, ProfileProgress, ProfileReport};
use crate::runtime::Runtime;

/// The results of [`Runtime::measure`].
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasureReport {
    /// Times of transfers between devices, and of launches.
    pub links: Vec<LinkMeasurement>,
    /// Links that keep an estimated time, with the reason.
    pub links_not_measured: Vec<UnmeasuredLink>,
    /// Measurements of the models.
    #[serde(flatten)]
    pub profile: ProfileReport,
    /// The plan of each model with the new measurements.
    pub plans: Vec<ChosenPlan>,
}

/// A plan made from measurements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChosenPlan {
    /// The model.
    pub model: String,
    /// The devices that have a part.
    pub devices: Vec<String>,
    /// Number of parts.
    pub parts: usize,
    /// Predicted time of a run, in nanoseconds.
    pub time_ns: u64,
}

impl Runtime {
    /// Measures the times on which plans for these models depend. First it measures the links
    /// between the devices that the policy allows, then the models on each device, and the parts of
    /// the chosen plans ([`Runtime::profile_models`]). It ends when all figures have the target
    /// precision, the time is over, or `watch` stops it. Later plans use the measurements; with a
    /// profile file, plans of later processes use them too.
    ///
    /// ```no_run
    /// use std::ops::ControlFlow;
    /// use polychip::{Policy, ProfileOptions, Runtime};
    ///
    /// # fn main() -> Result<(), polychip::Error> {
    /// let runtime = Runtime::builder().profiles("device.profile").build()?;
    /// let model = runtime.load("model.onnx")?;
    /// let report = runtime.measure(&[model], &Policy::latency(), &ProfileOptions::default(), &mut |at| {
    ///     println!("{} of {}: {} on {}", at.done, at.total, at.part, at.device);
    ///     ControlFlow::Continue(())
    /// })?;
    /// println!("{report}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Runtime::measure_links`] and [`Runtime::profile_models`].
    pub fn measure(
        &self,
        models: &[Model],
        policy: &Policy,
        options: &ProfileOptions,
        watch: &mut dyn FnMut(&ProfileProgress<'_>) -> ControlFlow<()>,
    ) -> Result<MeasureReport> {
        let (links, links_not_measured) = match self.devices_of(policy)?.len() {
            0 | 1 => Default::default(),
            _ => self.measure_links(policy)?,
        };
        let profile = self.profile_models(models, policy, options, watch)?;
        let plans = models.iter().map(|model| {
            let planned = self.plan(model, policy)?;
            let plan = planned.plan();
            let mut devices: Vec<String> = plan
                .parts
                .iter()
                .map(|part| plan.devices[part.device.index()].clone())
                .collect();
            devices.sort_unstable();
            devices.dedup();
            Ok(ChosenPlan {
                model: model.path().display().to_string(),
                devices,
                parts: plan.parts.len(),
                time_ns: plan.time().nanoseconds(),
            })
        });
        Ok(MeasureReport {
            links,
            links_not_measured,
            profile,
            plans: plans.collect::<Result<_>>()?,
        })
    }
}

impl fmt::Display for MeasureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (profile, left) = (
            &self.profile,
            self.profile.parts - self.profile.known.min(self.profile.parts),
        );
        writeln!(
            f,
            "{} of {} parts are known well enough ({} before), {} runs recorded",
            profile.known, profile.parts, profile.known_before, profile.measurements
        )?;
        if left > 0 && !profile.complete {
            writeln!(f, "{left} parts remain for the next call")?;
        }
        for part in &profile.not_measured {
            writeln!(
                f,
                "not measured: {} on {}: {}",
                part.part, part.device, part.reason
            )?;
        }
        for link in &self.links_not_measured {
            writeln!(f, "not measured: {} to {}: {}", link.from, link.to, link.reason)?;
        }
        for plan in &self.plans {
            let time = Time::from_nanoseconds(plan.time_ns);
            writeln!(
                f,
                "{}: {} in {} parts, {time}",
                plan.model,
                plan.devices.join(" "),
                plan.parts
            )?;
        }
        Ok(())
    }
}
