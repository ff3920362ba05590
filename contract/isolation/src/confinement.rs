//! What the kernel keeps a plugin's process from doing.

use serde::{Deserialize, Serialize};

/// Argument of the program that loads a plugin: do not confine the process.
pub const NO_SANDBOX: &str = "--no-sandbox";

/// What the kernel keeps a plugin's process from doing. Both lists are empty if the app turned the sandbox off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Mechanisms of the kernel that hold, each as text.
    pub held: Vec<String>,
    /// Mechanisms that the kernel does not offer, each with the reason.
    pub missing: Vec<String>,
}
