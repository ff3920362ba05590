//! The GPU on this machine, or the message of a skipped test without one.
//!
//! Not here: the plugin itself; a driver in software is enough (Mesa's lavapipe: Debian `mesa-vulkan-drivers` and
//! `libvulkan1`).

use polychip::Runtime;

/// The device that the tests use.
pub const DEVICE: &str = "gpu:0";

/// Why the runtime has no GPU, where it has none.
#[must_use]
pub fn missing(runtime: &Runtime) -> Option<String> {
    if runtime.devices().iter().any(|device| device.name() == DEVICE) {
        return None;
    }
    let words: Vec<String> = runtime
        .refusals()
        .iter()
        .map(|refusal| refusal.reason.clone())
        .collect();
    Some(format!(
        "no GPU and no driver in software (Debian: mesa-vulkan-drivers libvulkan1): {}",
        words.join("; ")
    ))
}
