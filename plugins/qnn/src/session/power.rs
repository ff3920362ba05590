//! Performance modes of the NPU as operating points: votes on clocks and sleep.
//!
//! Invariants:
//! 1. A vote stands as long as anything is loaded, and in the mode that was chosen last.
//! 2. Where the library has no such calls, there are no operating points.
//!
//! The modes are those that public clients of the library offer. A mode's power and clock are not stated by
//! the library, so they are 0: not known.

use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use polychip_sdk::{Error, ErrorKind, Result};
use polychip_sys::qnn;

use super::library::Session;

/// One mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    /// Whether clocks follow load between the corners, or stay at the target.
    follows_load: bool,
    /// Longest time that waking up may take, in microseconds.
    sleep_us: u32,
    /// Voltage corners that name clocks: least, wanted, most.
    corners: [u32; 3],
}

const fn mode(name: &'static str, follows_load: bool, sleep_us: u32, corners: [u32; 3]) -> Mode {
    Mode {
        name,
        follows_load,
        sleep_us,
        corners,
    }
}

/// The modes, fastest first.
pub(crate) const MODES: &[Mode] = &[
    mode("burst", false, 40, [qnn::POLYCHIP_QNN_HTP_VOLTAGE_MAX; 3]),
    mode(
        "sustained_high_performance",
        false,
        100,
        [qnn::POLYCHIP_QNN_HTP_VOLTAGE_TURBO; 3],
    ),
    mode(
        "high_performance",
        false,
        100,
        [qnn::POLYCHIP_QNN_HTP_VOLTAGE_TURBO; 3],
    ),
    mode(
        "balanced",
        true,
        1000,
        [qnn::POLYCHIP_QNN_HTP_VOLTAGE_NOM_PLUS; 3],
    ),
    mode("low_balanced", true, 1000, [qnn::POLYCHIP_QNN_HTP_VOLTAGE_NOM; 3]),
    mode(
        "high_power_saver",
        true,
        1000,
        [qnn::POLYCHIP_QNN_HTP_VOLTAGE_SVS_PLUS; 3],
    ),
    mode("power_saver", true, 1000, [qnn::POLYCHIP_QNN_HTP_VOLTAGE_SVS; 3]),
    mode(
        "low_power_saver",
        true,
        1000,
        [qnn::POLYCHIP_QNN_HTP_VOLTAGE_SVS2; 3],
    ),
];

/// The mode of votes, and the one that stands.
pub(crate) struct Votes {
    session: Arc<Session>,
    state: Mutex<State>,
}

struct State {
    /// `None` if the library decides.
    mode: Option<&'static Mode>,
    standing: Weak<Power>,
}

impl Votes {
    /// Votes of a session; none where the library has no such calls.
    pub(crate) fn of(session: &Arc<Session>, mode: Option<&'static Mode>) -> Option<Votes> {
        Power::find(session)?;
        Some(Votes {
            session: Arc::clone(session),
            state: Mutex::new(State {
                mode,
                standing: Weak::new(),
            }),
        })
    }

    /// A vote that stands as long as the result lives; none where no mode was chosen.
    ///
    /// # Errors
    /// The library refuses.
    pub(crate) fn stand(&self) -> Result<Option<Arc<Power>>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mode) = state.mode else {
            return Ok(None);
        };
        if let Some(standing) = state.standing.upgrade() {
            return Ok(Some(standing));
        }
        let Some(power) = Power::find(&self.session) else {
            return Ok(None);
        };
        power.set(&self.session, mode)?;
        let power = Arc::new(power);
        state.standing = Arc::downgrade(&power);
        Ok(Some(power))
    }

    /// Chooses the mode, for the vote that stands and those to come.
    ///
    /// # Errors
    /// The library refuses.
    pub(crate) fn choose(&self, mode: &'static Mode) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(standing) = state.standing.upgrade() {
            standing.set(&self.session, mode)?;
        }
        state.mode = Some(mode);
        Ok(())
    }
}

/// The calls that vote, and one vote.
pub(crate) struct Power {
    infrastructure: &'static qnn::HtpInfrastructure,
    id: u32,
}

// SAFETY: constant memory of a library that is never closed; its calls may come from any thread.
unsafe impl Send for Power {}
// SAFETY: as above.
unsafe impl Sync for Power {}

impl Power {
    /// The calls of a library that has them.
    fn find(session: &Session) -> Option<Power> {
        let read = session.table().infrastructure?;
        let mut found = ptr::null();
        // SAFETY: the place for the address is ours.
        let code = unsafe { read(&raw mut found) };
        if code != 0 || found.is_null() {
            return None;
        }
        // SAFETY: the library keeps what it gave as long as it is open, and it is never closed.
        let infrastructure = unsafe { &*found };
        if infrastructure.kind != qnn::POLYCHIP_QNN_HTP_INFRASTRUCTURE_PERF {
            return None;
        }
        infrastructure.set_power_config?;
        let create = infrastructure.create_power_config?;
        let mut id = 0;
        // SAFETY: the only device and its only part; the place for the number is ours.
        let code = unsafe { create(0, 0, &raw mut id) };
        (code == 0).then_some(Power { infrastructure, id })
    }

    /// Votes for a mode.
    ///
    /// # Errors
    /// The library refuses.
    fn set(&self, session: &Session, mode: &Mode) -> Result<()> {
        let set = self
            .infrastructure
            .set_power_config
            .ok_or_else(|| Error::unsupported("the library has no call to set power"))?;
        let [least, target, most] = mode.corners;
        let dcvs_v3 = qnn::polychip_qnn_htp_dcvs_v3 {
            context_id: self.id,
            set_dcvs_enable: 1,
            dcvs_enable: u32::from(mode.follows_load),
            power_mode: qnn::POLYCHIP_QNN_HTP_POWER_MODE_PERFORMANCE,
            set_sleep_latency: 1,
            sleep_latency_us: mode.sleep_us,
            set_sleep_disable: 0,
            sleep_disable: 0,
            set_bus: 1,
            bus_min: least,
            bus_target: target,
            bus_max: most,
            set_core: 1,
            core_min: least,
            core_target: target,
            core_max: most,
        };
        let config = qnn::HtpPowerConfig {
            option: qnn::POLYCHIP_QNN_HTP_POWER_DCVS_V3,
            value: qnn::polychip_qnn_htp_power_value { dcvs_v3 },
        };
        let list = [&raw const config, ptr::null()];
        // SAFETY: the list ends in null and lives during the call.
        let code = unsafe { set(self.id, list.as_ptr()) };
        session
            .check(code)
            .map_err(|refused| refused.error(&format!("power mode {}", mode.name), ErrorKind::Persistent))
    }
}

impl Drop for Power {
    fn drop(&mut self) {
        if let Some(destroy) = self.infrastructure.destroy_power_config {
            // SAFETY: made by `find`, and not used after.
            let _ = unsafe { destroy(self.id) };
        }
    }
}
