//! The governor selects the running plan of a portfolio. It is a pure state machine: observations
//! in, one decision out.
//!
//! A [`Governor`] gets a [`Portfolio`] of compiled plans, and then every [`Observation`] with its
//! time: sensor readings, run results, lost and returned devices, the battery, hints from the app,
//! limits. Each [`step`](Governor::step) returns a [`Decision`]: stay, switch to another candidate,
//! or request a replan, with the reason and the numbers behind it. It learns how much slower than
//! predicted each device is, and how the machine heats up, and so acts before a limit is reached.
//!
//! ```
//! use polychip_governor::{
//!     Candidate, Observation, FinishedRun, Governor, Input, PolicyLimits, Load, Portfolio, Settings,
//! };
//!
//! let on = |device| vec![Load { device, busy_ns: 10_000_000, energy_uj: Some(20_000) }];
//! let portfolio = Portfolio {
//!     devices: vec!["npu:0".to_owned(), "cpu:0".to_owned()],
//!     candidates: vec![
//!         Candidate::new("fastest", 11_000_000, on(0)),
//!         Candidate::new("without npu:0", 25_000_000, on(1)),
//!     ],
//! };
//! let mut governor = Governor::new(portfolio, PolicyLimits::default(), Settings::default()).unwrap();
//! assert_eq!(governor.plan(), 0);
//! let lost = Observation { time_ns: 1_000, input: Input::Lost { device: 0 } };
//! let decision = governor.step(&lost);
//! assert_eq!((decision.switch_to(), governor.plan()), (Some(1), 1));
//! ```
//!
//! Invariants:
//! 1. Pure: no clock, device, file or thread; the same observations give the same decisions, byte
//!    for byte, on every host. Inputs and outputs (observations, decisions, settings) are whole
//!    numbers. Internally there are `f64`s, with additions, subtractions, multiplications and
//!    divisions only, which IEEE 754 rounds alike everywhere. `exp` and `ln` differ between C
//!    libraries and are never called: heat takes implicit steps, which are quotients.
//! 2. A candidate that needs a lost device is never chosen. While some candidate needs none, there
//!    is a plan.
//! 3. Unforced switches are at most [`Settings::switches_per_minute`] in any minute; a device loss
//!    forces at most one.
//!
//! Allowed dependencies: none of ours. Deliberately not here: reading sensors, compiling plans,
//! swapping them (the session does), writing the log. Start reading at [`Input`] and [`Decision`],
//! then `state` (the machine), `thermal` (heat), `learn` (runs).

#![forbid(unsafe_code)]

mod decision;
mod error;
pub mod explore;
mod learn;
pub mod log;
mod observation;
mod portfolio;
mod settings;
mod state;
mod thermal;
mod unit;

#[cfg(test)]
mod tests;

pub use decision::{Action, Decision, Reason, takes};
pub use error::{Error, ErrorKind, Result};
pub use observation::{FinishedRun, Input, Observation, PolicyLimits, Reading, SensorLocation};
pub use portfolio::{Candidate, Load, Point, Portfolio};
pub use settings::Settings;
pub use state::Governor;
pub use unit::{RunEnergy, RunTime};
