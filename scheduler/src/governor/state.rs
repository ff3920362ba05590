//! The machine: what is known of devices and candidates, and the choice among them.
//!
//! Invariants: `current` is a candidate of the portfolio, and needs no lost device while another one needs none.

use super::decision::{Action, Decision, Reason};
use super::event::{Event, Input, Limits};
use super::portfolio::{Candidate, Portfolio};
use super::settings::Settings;
use crate::error::Result;

/// Chooses among the candidates of a portfolio. See the [module](super).
#[derive(Debug, Clone)]
pub struct Governor {
    portfolio: Portfolio,
    limits: Limits,
    settings: Settings,
    lost: Vec<bool>,
    current: usize,
}

impl Governor {
    /// A governor that starts on the portfolio's first candidate.
    ///
    /// # Errors
    /// A portfolio that does not pass [`Portfolio::check`].
    pub fn new(portfolio: Portfolio, limits: Limits, settings: Settings) -> Result<Self> {
        portfolio.check()?;
        Ok(Self {
            lost: vec![false; portfolio.devices.len()],
            portfolio,
            limits,
            settings,
            current: 0,
        })
    }

    /// The candidate that runs now. Whether it can run says [`is_usable`](Self::is_usable): it can wherever any can.
    #[must_use]
    pub fn plan(&self) -> usize {
        self.current
    }

    /// Whether a candidate needs no lost device.
    #[must_use]
    pub fn is_usable(&self, candidate: usize) -> bool {
        let found = self.portfolio.candidates.get(candidate);
        found.is_some_and(|candidate| candidate.loads.iter().all(|load| !self.lost[load.device]))
    }

    /// The portfolio in use.
    #[must_use]
    pub fn portfolio(&self) -> &Portfolio {
        &self.portfolio
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes note of an event and decides.
    pub fn step(&mut self, event: &Event) -> Decision {
        let stay = |reason| Decision {
            action: Action::Stay,
            pace_permille: 1000,
            reason,
        };
        match &event.input {
            Input::Lost { device } if *device < self.lost.len() => {
                self.lost[*device] = true;
                if self.is_usable(self.current) {
                    return stay(Reason::Steady);
                }
                let next = (0..self.portfolio.candidates.len()).find(|&candidate| self.is_usable(candidate));
                let (action, reason) = match next {
                    Some(next) => {
                        self.current = next;
                        (Action::Switch(next), Reason::Lost { device: *device })
                    }
                    None => (Action::Replan, Reason::NoCandidate),
                };
                Decision {
                    action,
                    pace_permille: 1000,
                    reason,
                }
            }
            Input::Back { device } if *device < self.lost.len() => {
                self.lost[*device] = false;
                stay(Reason::Steady)
            }
            Input::Limits(limits) => {
                self.limits = limits.clone();
                stay(Reason::Steady)
            }
            Input::Replanned(candidates) => self.replace(candidates),
            _ => stay(Reason::Steady),
        }
    }

    fn replace(&mut self, candidates: &[Candidate]) -> Decision {
        let portfolio = Portfolio {
            devices: self.portfolio.devices.clone(),
            candidates: candidates.to_vec(),
        };
        let (action, reason) = match portfolio.check() {
            Ok(()) => {
                self.portfolio = portfolio;
                self.current = 0;
                (Action::Switch(0), Reason::Replanned)
            }
            Err(_) => (Action::Stay, Reason::Unknown),
        };
        Decision {
            action,
            pace_permille: 1000,
            reason,
        }
    }
}
