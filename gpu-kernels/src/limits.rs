//! A device's limits and optional instructions.

use serde::{Deserialize, Serialize};

/// Optional instructions of a device, or those that a kernel needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Features {
    /// `f16` in storage and arithmetic.
    pub f16: bool,
    /// 64-bit integers.
    pub int64: bool,
    /// Subgroup reductions and shuffles.
    pub subgroups: bool,
    /// `dot4I8Packed` and `dot4U8Packed`; every device has them, some as a sequence of
    /// instructions.
    pub dot4: bool,
    /// Side of the square f16 tile that the matrix units multiply, summing in f32; 0 without matrix units.
    pub cooperative: u32,
}

impl Features {
    /// Names the first feature that `self` needs and `there` lacks.
    #[must_use]
    pub fn missing(&self, there: &Features) -> Option<&'static str> {
        let needs = [
            (self.f16 && !there.f16, "16-bit floats"),
            (self.int64 && !there.int64, "64-bit integers"),
            (self.subgroups && !there.subgroups, "subgroup operations"),
            (self.dot4 && !there.dot4, "packed 8-bit products"),
            (
                self.cooperative != 0 && self.cooperative != there.cooperative,
                "matrix units of this tile",
            ),
        ];
        needs
            .into_iter()
            .find(|(missing, _)| *missing)
            .map(|(_, what)| what)
    }
}

/// A device's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum number of threads per workgroup.
    pub invocations: u32,
    /// Maximum number of threads per workgroup along each axis.
    pub workgroup: [u32; 3],
    /// Maximum number of workgroups per dispatch along each axis.
    pub groups: u32,
    /// Workgroup memory in bytes.
    pub shared_bytes: u32,
    /// Maximum number of storage buffers per kernel.
    pub bindings: u32,
    /// Largest binding, in bytes.
    pub binding_bytes: u64,
    /// Smallest and largest subgroup size that the driver may choose.
    pub subgroup: [u32; 2],
    /// Optional instructions.
    pub features: Features,
}

impl Limits {
    /// The limits that every WebGPU device guarantees, without optional instructions.
    pub const LEAST: Limits = Limits {
        invocations: 256,
        workgroup: [256, 256, 64],
        groups: 65_535,
        shared_bytes: 16 << 10,
        bindings: 8,
        binding_bytes: 128 << 20,
        subgroup: [4, 128],
        features: Features {
            f16: false,
            int64: false,
            subgroups: false,
            dot4: true,
            cooperative: 0,
        },
    };
}
