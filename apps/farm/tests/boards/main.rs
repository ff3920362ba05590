//! Runs on real boards: this host itself, and this host through an SSH server of the test's own.

mod desk;
mod local;
mod proxy;
mod ssh;
mod takeover;
