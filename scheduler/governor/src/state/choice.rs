//! The choice among candidates, and the pace.
//!
//! Invariants:
//! 1. A candidate that needs a lost device is never chosen; switches per minute are limited.
//! 2. Candidates are compared in one unit: energy if all usable ones have it and energy counts,
//!    else time.

use super::outlook::{Aim, Outlook, PaceLimit, Trust};
use super::{Governor, PACE_STEP};
use crate::decision::{Action, Decision, Reason};
use crate::observation::SensorLocation;
use crate::unit::RunEnergy;

/// A minute.
const MINUTE_NS: u64 = 60_000_000_000;
/// A pace rises by so much at a look, at most.
const PACE_RISE: u32 = 50;
/// A late plan is left for another late one only below this share of its worth.
const MUCH_LESS: f64 = 0.6;

/// The candidate of the least key, the first among equals. All keys are of one unit.
fn least<K: PartialOrd>(candidates: impl Iterator<Item = (usize, Outlook, K)>) -> Option<(usize, Outlook)> {
    let least = candidates.reduce(|best, other| if other.2 < best.2 { other } else { best });
    least.map(|(index, outlook, _)| (index, outlook))
}

impl Governor {
    /// Whether a candidate's devices may be used: present, and not just back from a loss.
    pub(super) fn is_open(&self, candidate: usize) -> bool {
        let loads = &self.portfolio.candidates[candidate].loads;
        let mut devices = loads.iter().map(|load| &self.devices[load.device]);
        devices.all(|device| !device.lost && self.now_ns >= device.quarantined_until_ns)
    }

    /// The best candidate that is usable, and what is expected of it. The one that runs is preferred by the
    /// hysteresis, where there is one.
    pub(super) fn best(&self, running: Option<usize>) -> Option<(usize, Outlook)> {
        let all = || 0..self.portfolio.candidates.len();
        let open: Vec<usize> = all().filter(|&index| self.is_open(index)).collect();
        let usable = if open.is_empty() {
            all().filter(|&index| self.is_usable(index)).collect()
        } else {
            open
        };
        let expect = |trust: Trust| -> Vec<(usize, Outlook)> {
            let one = |&index: &usize| (index, self.outlook(index, trust));
            usable.iter().map(one).collect()
        };
        let mut trusted = Trust::Margin;
        let mut outlooks = expect(trusted);
        // what may just be in time is better than what is surely late, and so may be what is avoided for a suspicion
        for trust in [Trust::Narrow, Trust::Hope] {
            if !outlooks.iter().any(|(_, outlook)| outlook.in_time) {
                trusted = trust;
                outlooks = expect(trust);
            }
        }
        let most = outlooks
            .iter()
            .map(|(_, outlook)| outlook.worth)
            .fold(0.0, f64::max);
        let slack = 1.0 - f64::from(self.settings.hysteresis_permille) / 1e3;
        let slacked = |index: usize| if Some(index) == running { slack } else { 1.0 };
        // energy waits until something is surely in time
        let energies: Option<Vec<RunEnergy>> = match self.aim() {
            Aim::Frugal if trusted == Trust::Margin => {
                outlooks.iter().map(|(_, found)| found.energy).collect()
            }
            _ => None,
        };
        // as many frames in time as any, or nearly
        let is_near = |index: usize, outlook: &Outlook| {
            let near = slack * slacked(index);
            outlook.worth >= most * near
        };
        match energies {
            Some(energies) => {
                let keys = outlooks.iter().zip(energies);
                least(keys.filter_map(|((index, outlook), energy)| {
                    let key = energy.times(slacked(*index));
                    is_near(*index, outlook).then_some((*index, *outlook, key))
                }))
            }
            None => least(outlooks.iter().filter_map(|(index, outlook)| {
                let key = outlook.latency.times(slacked(*index));
                is_near(*index, outlook).then_some((*index, *outlook, key))
            })),
        }
    }

    /// Compares the candidates and acts.
    pub(super) fn look(&mut self, urgent: bool) -> Decision {
        self.looked_ns = Some(self.now_ns);
        let running = self.outlook(self.current, Trust::Margin);
        let Some((best, outlook)) = self.best(Some(self.current)) else {
            return self.stay(Reason::NoCandidate);
        };
        if best == self.current {
            return self.repace(&outlook);
        }
        let since = self
            .switched_ns
            .map_or(u64::MAX, |switched| self.now_ns.saturating_sub(switched));
        // from late to less late is worth a switch only where it is much less
        if !running.in_time && !outlook.in_time && running.worth >= MUCH_LESS * outlook.worth {
            return self.repace(&running);
        }
        // lateness and heat do not wait
        let saves = outlook.in_time && (urgent || !running.in_time);
        let pressing = saves || running.bearable < 500.0;
        let recent = self
            .switches
            .iter()
            .filter(|&&at| self.now_ns.saturating_sub(at) < MINUTE_NS)
            .count();
        // the last one of a minute is kept for what presses: what is tried may turn out to be slow, and is left again
        let most = self.settings.switches_per_minute as usize;
        let most = if pressing {
            most
        } else {
            most.saturating_sub(1).max(1).min(most)
        };
        if (!pressing && since < self.settings.dwell_ns) || recent >= most {
            let decision = self.repace(&running);
            return match decision.reason {
                Reason::Steady | Reason::PowerUnknown { .. } => {
                    self.stay(Reason::Waiting { candidate: best })
                }
                _ => decision,
            };
        }
        let reason = self.because(&running, &outlook);
        self.current = best;
        self.switched_ns = Some(self.now_ns);
        self.is_first = true;
        self.off_since_ns = None;
        self.switches.push_back(self.now_ns);
        while self.switches.len() > self.settings.switches_per_minute as usize {
            self.switches.pop_front();
        }
        self.set_pace(&outlook, true);
        self.decision(Action::Switch(best), reason)
    }

    /// Why one candidate is left for another.
    pub(super) fn because(&self, from: &Outlook, to: &Outlook) -> Reason {
        let whole = |value: f64| value.round() as u64;
        if let Some(deadline_ns) = self.deadline_ns.filter(|_| !from.in_time) {
            return Reason::Late {
                latency_ns: whole(from.latency.ns()),
                than_ns: whole(to.latency.ns()),
                deadline_ns,
            };
        }
        if to.worth > from.worth && from.bearable < 1000.0 {
            match from.bound {
                Some(PaceLimit::Heat(place)) => return self.hot(place),
                Some(PaceLimit::Power) => {
                    return Reason::Power {
                        power_mw: self.milliwatts(self.current).map_or(0, whole),
                        limit_mw: self.limits.power_mw.unwrap_or(0),
                    };
                }
                None => {}
            }
            return Reason::Sustains {
                permille: to.worth.round() as u32,
                than_permille: from.worth.round() as u32,
            };
        }
        match (self.aim(), to.energy, from.energy) {
            (Aim::Frugal, Some(energy), Some(than)) if energy < than => Reason::Frugal {
                energy_uj: whole(energy.uj()),
                than_uj: whole(than.uj()),
            },
            _ => Reason::Faster {
                latency_ns: whole(to.latency.ns()),
                than_ns: whole(from.latency.ns()),
            },
        }
    }

    pub(super) fn hot(&self, place: SensorLocation) -> Reason {
        let millidegrees = |degrees: Option<f64>| degrees.map_or(0, |degrees| (degrees * 1e3).round() as i64);
        let watts = self.watts(self.current, place);
        let now = watts * f64::from(self.pace_permille) / 1e3;
        let horizon = self.horizon_s(place);
        let heat = self.heat(place);
        Reason::Hot {
            place,
            temperature_mc: millidegrees(heat.and_then(|heat| heat.degrees(self.now_ns, now))),
            predicted_mc: millidegrees(heat.and_then(|heat| heat.after(self.now_ns, now, watts, horizon))),
            limit_mc: self.limits.temperature(place).unwrap_or(i64::MAX),
        }
    }

    /// Takes the pace that limits allow.
    pub(super) fn set_pace(&mut self, outlook: &Outlook, at_once: bool) -> bool {
        let allowed = match self.period_ns {
            None => 1000,
            Some(_) => (outlook.bearable as u32 / PACE_STEP * PACE_STEP).clamp(PACE_STEP, 1000),
        };
        let before = self.pace_permille;
        self.pace_permille = if allowed > before && !at_once {
            allowed.min(before + PACE_RISE)
        } else {
            allowed
        };
        let changed = self.pace_permille != before;
        if changed {
            self.paced_ns = Some(self.now_ns);
        }
        changed
    }

    /// Keeps the plan, and sets its pace.
    pub(super) fn repace(&mut self, outlook: &Outlook) -> Decision {
        let from_permille = self.pace_permille;
        let reason = match (self.set_pace(outlook, false), self.limits.power_mw) {
            (true, _) => Reason::Pace { from_permille },
            (false, Some(limit_mw)) if !self.power_is_known(self.current) => Reason::PowerUnknown {
                candidate: self.current,
                limit_mw,
            },
            (false, _) => Reason::Steady,
        };
        self.stay(reason)
    }
}
