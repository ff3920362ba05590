//! A thousand rounds of faults: whatever happens to a device, a submitted run ends with the CPU's result or with an
//! error that names the device, and the report states what happened.
//!
//! Every round is drawn from a seed. `null` plays on scripted devices and virtual time, `qnn` on the QNN plugin
//! over the emulated library, which is real code on real threads.

#![allow(unsafe_code, reason = "the emulator's switch for faults is a C symbol")]

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../../apps/cli/tests/command/model.rs"]
mod model;

mod null;
mod qnn;
mod rounds;
