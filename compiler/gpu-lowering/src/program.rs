//! The compiled form of a part: values in memory, and launches of kernels over them.
//!
//! Invariants:
//! 1. Values of the arena that are alive at one step do not overlap; each starts at a multiple of [`ALIGN`].
//! 2. Steps stand in order; a step sees what the steps before it wrote.
//! 3. The constants are packed once, in the order and form that the kernels read.
//!
//! Not here: how steps come about (`lower`), who runs them (`exec`).

use polychip_gpu_kernels::{Kernel, Limits};
use polychip_sdk::{Error, Port, Result};
use serde::{Deserialize, Serialize};

/// Alignment of every value: the largest that a device may ask of a binding's offset.
pub const ALIGN: u64 = 256;

/// Where a value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Home {
    /// In the arena, at this byte.
    Arena(u64),
    /// In the packed constants, at this byte.
    Constants(u64),
    /// In the memory bound to this port, at this byte from where the port begins.
    Port(u32, u64),
}

/// A tensor in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// Place.
    pub home: Home,
    /// Size, in bytes.
    pub bytes: u64,
}

/// One launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Node it stands for, or the last of several; for messages.
    pub node: u32,
    /// Index of the kernel in [`Program::kernels`].
    pub kernel: u32,
    /// Index in [`Program::values`] for each binding of the kernel.
    pub operands: Vec<u32>,
}

/// A lowered part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Kernels, each once.
    pub kernels: Vec<Kernel>,
    /// Values.
    pub values: Vec<Value>,
    /// Launches in order.
    pub steps: Vec<Step>,
    /// Size of the arena, in bytes.
    pub arena_bytes: u64,
    /// Value of each port: inputs in the part's order, then outputs.
    pub ports: Vec<u32>,
}

/// What the runs of a part need of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortUse {
    /// Bytes that kernels touch from its start.
    pub bytes: u64,
    /// Whether they write.
    pub output: bool,
}

impl Program {
    /// Refuses kernels that a device cannot launch: those of a blob that another wrote.
    ///
    /// # Errors
    /// `BadBlob`, with the limit.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        for kernel in &self.kernels {
            kernel
                .check(limits)
                .map_err(|error| Error::bad_blob(error.to_string()))?;
        }
        Ok(())
    }

    /// What runs need of each port.
    #[must_use]
    pub fn port_uses(&self, ports: &[Port]) -> Vec<PortUse> {
        let mut uses: Vec<PortUse> = ports
            .iter()
            .map(|port| PortUse {
                bytes: 0,
                output: port.output,
            })
            .collect();
        for step in &self.steps {
            let kernel = &self.kernels[step.kernel as usize];
            for (binding, &operand) in kernel.bindings.iter().zip(&step.operands) {
                if let Home::Port(port, at) = self.values[operand as usize].home {
                    let of = &mut uses[port as usize];
                    of.bytes = of.bytes.max(at + binding.bytes);
                }
            }
        }
        uses
    }
}
