//! The host against real plugins: scripted devices, linked and loaded, and plugins that break the rules.

mod access;
mod bench;
mod library;
mod null;
mod older;
mod refusals;
#[cfg(target_os = "linux")]
mod truncation;
