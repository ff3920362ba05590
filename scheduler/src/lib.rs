//! Runs a neural network across all chips of a device. This is the crate that apps integrate.
//!
//! A [`Runtime`] holds plugins and their devices. It reads a [`Model`], asks each device which
//! nodes it can run and at what cost, and splits the model into parts so that the whole plan,
//! transfers included, costs least. It creates a [`Session`], which runs the parts over shared
//! memory.
//!
//! ```no_run
//! use std::time::Duration;
//! use polychip::{Policy, Runtime};
//!
//! # fn main() -> Result<(), polychip::Error> {
//! let runtime = Runtime::builder().plugins("plugins/").profiles("device.profile").build()?;
//! let model = runtime.load("mobilenet_v2.onnx")?;
//! let session = runtime.session(&model, Policy::balanced().deadline(Duration::from_millis(33)))?;
//!
//! let mut image = session.input("image")?; // memory that the first device reads in place
//! image.write(&vec![0.5f32; 3 * 96 * 96])?;
//! let outputs = session.submit(&[&image])?.wait(Duration::from_secs(1))?;
//! println!("{:?}", outputs.get("probabilities")?.values::<f32>()?);
//! println!("{}", session.report()); // parts, devices, predicted and measured times
//! # Ok(())
//! # }
//! ```
//!
//! A thread waits for a [`Run`], or an async task awaits it.
//!
//! Features: `cpu` links the CPU plugin. `avx512`, `database` (profiles in files), `fourier` and
//! `regex` are on by default too; a small app may turn them off. `ndarray`, off by default, adds
//! views of tensors as arrays of that crate.
//!
//! Invariants:
//! 1. Every plan that reaches a device has passed the independent checker. A run executes one plan.
//! 2. The warm path (`submit`, `wait`) allocates nothing and holds no lock while it calls a device.
//! 3. A device failure gives an error that names the device, or a new plan with an event in the
//!    report. Nothing moves silently.
//!
//! Not here: what is computed (`graph`), placement (`partitioner`), device code (`plugins`).

#![forbid(unsafe_code)]

pub mod admission;
mod app_memory;
mod bisect;
mod blob_cache;
mod bundles;
mod cost_model;
mod decisions;
mod device_queue;
mod durable;
mod error;
mod evaluate;
mod event;
mod explain;
mod given;
mod late_policy;
mod link;
mod loaded_part;
mod lock_order;
mod measure;
mod memory_account;
mod memory_limit;
mod memory_pressure;
mod model;
mod model_format;
mod planned;
mod policy;
mod precompiled;
mod profiler;
mod refusal;
mod replan;
mod report;
mod run;
mod runtime;
mod seal;
mod session;
pub mod settings;
mod shared;
mod support;
pub mod telemetry;
mod tensor;
mod thermal_exclusion;
mod trace;
mod warning;

pub use app_memory::{AppMemory, Releasable};
pub use bundles::LoadedBundle;
pub use cost_model::MeasuredFigure;
pub use decisions::DecisionLog;
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, EventKind};
pub use explain::Explained;
pub use late_policy::Late;
pub use link::energy::{LinkEnergy, LinkEnergyOptions};
pub use link::{LinkMeasurement, UnmeasuredLink};
pub use measure::{ChosenPlan, MeasureReport};
pub use memory_account::{MemoryReport, SessionMemory};
pub use memory_pressure::{MemoryPressure, OnMemoryPressure};
pub use model::Model;
pub use planned::{Planned, PlanningStep};
pub use policy::{Aim, Learn, Policy, Precision};
pub use polychip_governor as governor;
pub use polychip_host::{
    Access, AccessGuard, Device, DeviceInfo, DeviceKind, Error as DeviceError, ErrorKind as DeviceErrorKind,
    Isolate, MAX_RANK, MappedFile, Memory, ModelFiles, ModelFolder, OpenCall, Preemption, Priority, Query,
    Refusal, open_calls, open_regular,
};
pub use polychip_ops::{DType, Literal, Packed};
pub use polychip_partitioner::{Heat, MilliCelsius, Milliwatts, Plan};
pub use polychip_profile::bundle;
pub use polychip_profile::predict::{DevicePrediction, Errors, ModelPrediction, OpClassModel};
pub use polychip_profile::{
    BatchRecord, Cadence, Change, Conditions, ContentRecord, Error as ProfileError,
    ErrorKind as ProfileErrorKind, Interval, LinkRecord, MeasuredEnergy, Measurement, Merged, PartKey,
    PartRecord, PartSummary, Profile, ProfileDiff, ProfileFile, RefusalRecord, RefusedRun, Summary,
    ValueRecord, median_interval,
};
pub use precompiled::Precompiled;
pub use profiler::{NotMeasured, ProfileOptions, ProfileProgress, ProfileReport, WarmUp, Warmth};
pub use report::{CrossingReport, EventCount, PartReport, Report};
pub use run::{OutputView, Outputs, Run, RunOptions};
pub use runtime::{Builder, Runtime};
pub use session::Session;
pub use session::deadline_miss::{LateCause, LatencyReport, LatenessReport};
pub use session::govern::{CandidateReport, ChangeReport, GovernedReport, Hint, MissedLimit, ReadyPlan};
pub use session::learn::report::{LearningReport, TrialReport, TrialState};
pub use session::replicas::ReplicaReport;
pub use session::specialization_report::{PlanningPhases, ShapesReport, SpecialisationReport};
pub use support::Support;
pub use tensor::values::{Values, ValuesMut};
pub use tensor::{Element, Input, Output, TensorSpec};
pub use trace::{TracedCrossing, TracedNode, TracedPart, TracedRun, TracedStep};
pub use warning::{BlamedNode, Warning};

/// The Rust of the README, compiled as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
