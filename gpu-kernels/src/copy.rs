//! A copy within device memory by a shader, because on some devices the driver's own copies reach
//! only a fifth of the memory bandwidth.

use crate::grid::row;
use crate::{Access, Generate, Kernel, Limits, Result, Sample, Scalar, Values, WgslBuilder};

/// Copies bytes from one binding to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Size in bytes; the kernel reads and writes whole units of 16 bytes.
    pub bytes: u64,
}

impl Generate for Copy {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        // on an H200 none of 60 forms was faster: 64 to 1024 threads, one to four reads each
        const THREADS: u64 = 256;
        let vectors = self.bytes.div_ceil(16);
        let groups = vectors.div_ceil(THREADS);
        // rows of equal length: workgroups without work cost as much as a tenth of the time
        let (grid, group) = row(groups, limits)?;
        let mut text = WgslBuilder::new();
        text.binding("source", Access::Read, Scalar::U32, 4, vectors * 4);
        text.binding("target_", Access::Write, Scalar::U32, 4, vectors * 4);
        let body = format!(
            "    let i = {group} * {THREADS}u + thread;
    if i < {vectors}u {{ target_[i] = source[i]; }}"
        );
        text.kernel("copy-u32x4", [THREADS as u32, 1, 1], grid, vectors, &body, limits)
    }

    fn sample(&self) -> Sample {
        let count = (self.bytes.div_ceil(16) * 4) as usize;
        let source = Values::F32(Values::floats(1, count));
        Sample {
            before: vec![source.clone(), Values::F32(vec![0.0; count])],
            after: vec![None, Some(source)],
            tolerance: 0.0,
        }
    }
}
