//! Sessions on scripted devices and virtual time. One program holds them all, because each test program links the whole
//! library.

#[path = "../../../apps/cli/tests/command/model.rs"]
#[allow(dead_code, reason = "not every kind of model is written here")]
mod model;
#[path = "../scripted/session.rs"]
mod scripted;
#[path = "../scripted/streams.rs"]
mod streams;

mod admission;
#[cfg(target_os = "linux")]
mod app_memory;
mod at_once;
mod background;
mod buckets;
mod bundles;
mod cadence;
mod calibration;
mod calls;
mod crossings;
mod deadlines;
mod device_queues;
mod energy;
mod given;
mod governed;
mod keys;
mod learning;
mod mixed_plans;
mod overflow;
mod random;
mod recovery;
mod replanning;
mod replicas;
mod run_errors;
mod sampling;
#[cfg(target_os = "linux")]
mod seals;
mod shapes;
mod sizes;
mod slots;
#[cfg(target_os = "linux")]
mod truncation;
mod try_submit;
