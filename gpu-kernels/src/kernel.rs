//! A kernel: shader text for one shape, and what launching it needs.
//!
//! Why one shape: at batch 1 a convolution is short, and divisions by constants are cheap where divisions
//! by arguments are not. A driver caches the compiled text, and so does a blob.
//!
//! Invariants:
//! 1. Binding `i` of group 0 is `bindings[i]`; element 0 of a tensor is byte 0 of its binding.
//! 2. Tensors that may share a buffer are declared `read_write`, whether or not they are written,
//!    because a dispatch must not bind one buffer with different access modes.

use serde::{Deserialize, Serialize};

use crate::{Error, Features, Limits, Result, Sample};

/// How a kernel uses a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Access {
    /// Reads weights, which never share a buffer with written tensors.
    Constant,
    /// Reads.
    Read,
    /// Writes, and may read what this kernel wrote.
    Write,
}

/// A storage buffer that a kernel names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Binding {
    /// How the kernel uses it.
    pub access: Access,
    /// Bytes that the kernel may touch, a multiple of 4.
    pub bytes: u64,
}

/// Shader text and its launch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Kernel {
    /// Name of the variant, the same for all shapes: `{op}-{dtypes}[-{tile}]`.
    pub variant: String,
    /// Text in WGSL; the entry point is `main`.
    pub wgsl: String,
    /// Threads per workgroup.
    pub workgroup: [u32; 3],
    /// Workgroup memory in bytes.
    pub shared_bytes: u32,
    /// Bindings in order.
    pub bindings: Vec<Binding>,
    /// Optional instructions that the text uses.
    pub needs: Features,
    /// Workgroups to launch.
    pub groups: [u32; 3],
    /// Multiply-adds or element operations of the launch, to tell which launches are long.
    pub work: u64,
}

impl Kernel {
    /// Checks that a device can run the kernel.
    ///
    /// # Errors
    /// Names the limit, the value and the kernel.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        let refuse = |what: &str, value: u64, limit: u64| {
            Err(Error::new(format!(
                "{}: {what} is {value}, the device's limit {limit}",
                self.variant
            )))
        };
        if let Some(missing) = self.needs.missing(&limits.features) {
            return Err(Error::new(format!(
                "{}: the device has no {missing}",
                self.variant
            )));
        }
        let threads: u64 = self.workgroup.iter().map(|&n| u64::from(n)).product();
        if threads == 0 || threads > u64::from(limits.invocations) {
            return refuse("threads of a workgroup", threads, limits.invocations.into());
        }
        for (axis, (&size, &limit)) in self.workgroup.iter().zip(&limits.workgroup).enumerate() {
            if size > limit {
                return refuse(&format!("workgroup axis {axis}"), size.into(), limit.into());
            }
        }
        for (axis, &groups) in self.groups.iter().enumerate() {
            if groups > limits.groups {
                return refuse(
                    &format!("workgroups of axis {axis}"),
                    groups.into(),
                    limits.groups.into(),
                );
            }
        }
        if self.shared_bytes > limits.shared_bytes {
            return refuse(
                "memory of a workgroup in bytes",
                self.shared_bytes.into(),
                limits.shared_bytes.into(),
            );
        }
        if self.bindings.len() > limits.bindings as usize {
            return refuse("bindings", self.bindings.len() as u64, limits.bindings.into());
        }
        for binding in &self.bindings {
            if binding.bytes > limits.binding_bytes {
                return Err(Error::new(format!(
                    "{}: a binding of {} bytes, the device binds {} at most",
                    self.variant, binding.bytes, limits.binding_bytes
                )));
            }
        }
        Ok(())
    }
}

/// A generator: the parameters of one kernel.
pub trait Generate {
    /// Writes the kernel.
    ///
    /// # Errors
    /// Where the parameters contradict each other or the device cannot hold the kernel.
    fn kernel(&self, limits: &Limits) -> Result<Kernel>;

    /// Inputs for this kernel, and what it must compute of them, by plain scalar code.
    fn sample(&self) -> Sample;

    /// A smaller instance of the same variant, whose sample is quickly computed; `None` if there is no such instance.
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        None
    }
}
