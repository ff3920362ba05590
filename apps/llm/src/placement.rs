//! Applies prefill and decode placement to a model's sequences.
//!
//! Not here: plans (`prefill_decode`), costs (`measure`), execution (`sequence`).

use std::sync::Arc;

use crate::prefill_decode::{FixedPhases, PhaseCosts, PhaseLimits, PhasePlan, Phases, Workload};
use crate::{Error, LanguageModel, Result};

impl LanguageModel {
    /// From now on, plans prefill and decode of all sequences from these costs.
    ///
    /// # Errors
    /// The costs are of another model, other settings or missing devices.
    pub fn place_phases(&self, costs: PhaseCosts, limits: PhaseLimits) -> Result<()> {
        self.check_costs(&costs)?;
        let phases = Phases::new(costs, limits, |device, rows| self.is_right(device, rows))?;
        self.set_phases(Some(Arc::new(phases)));
        Ok(())
    }

    /// From now on, runs every prompt and answer on the devices that `fixed` states, whatever the
    /// costs.
    ///
    /// # Errors
    /// As [`LanguageModel::place_phases`], or a device does not run such chunks.
    pub fn fix_phases(&self, costs: PhaseCosts, fixed: FixedPhases) -> Result<()> {
        self.check_costs(&costs)?;
        for (device, rows) in [(fixed.prompt, fixed.rows), (fixed.answer, 1)] {
            let cost = costs.devices.get(device);
            if cost.and_then(|cost| cost.chunk(rows)).is_none() {
                return Err(Error::config(format!(
                    "device {device} runs no chunks of {rows} tokens"
                )));
            }
        }
        let mut phases = Phases::new(costs, PhaseLimits::default(), |_, _| true)?;
        phases.fixed = Some(fixed);
        self.set_phases(Some(Arc::new(phases)));
        Ok(())
    }

    /// Plans a prompt and an answer at the devices' current speed; `None` without prefill and
    /// decode placement.
    ///
    /// # Errors
    /// No device within the limits can do it.
    pub fn phase_plan(&self, prompt: usize, answer: usize) -> Option<Result<PhasePlan>> {
        let workload = Workload {
            past: 0,
            prompt,
            answer,
            last: None,
        };
        let phases = self.phases()?;
        Some(phases.plan(workload, None, self.now_ns()))
    }

    fn check_costs(&self, costs: &PhaseCosts) -> Result<()> {
        costs.check(self.capacity()).map_err(Error::config)?;
        if costs.fingerprint != self.phase_fingerprint() {
            return Err(Error::config(format!(
                "the phase costs belong to another model or other settings ({}, this is {}): measure them again",
                costs.fingerprint,
                self.phase_fingerprint()
            )));
        }
        let devices = self.devices()?;
        for cost in &costs.devices {
            let Some(device) = devices.iter().find(|device| device.name() == cost.device) else {
                return Err(Error::config(format!(
                    "the phase costs list device {}, which does not exist: measure them again",
                    cost.device
                )));
            };
            if device.identity() != cost.identity {
                return Err(Error::config(format!(
                    "the phase costs belong to another {} ({}, this is {}): measure them again",
                    cost.device,
                    cost.identity,
                    device.identity()
                )));
            }
        }
        Ok(())
    }
}
