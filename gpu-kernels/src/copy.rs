//! A copy within device memory by a shader: drivers' own copies run at a fifth of the memory's rate on some
//! devices.

use crate::{Access, Generate, Kernel, Limits, Result, Sample, Scalar, Text, Values};

/// Copies bytes from one binding to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Size, in bytes; whole words of 16 are touched.
    pub bytes: u64,
}

impl Generate for Copy {
    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        // of 60 forms this one was the fastest on an H200: 4.24 TB/s of 1 GiB, where 256 threads of one read each
        // reach 3.98
        const THREADS: u64 = 64;
        const READS: u64 = 2;
        let vectors = self.bytes.div_ceil(16);
        let groups = vectors.div_ceil(THREADS * READS);
        let x = groups.clamp(1, u64::from(limits.groups)) as u32;
        let y = groups.div_ceil(x.into()).max(1) as u32;
        let mut text = Text::new();
        text.binding("source", Access::Read, Scalar::U32, 4, vectors * 4);
        text.binding("target_", Access::Write, Scalar::U32, 4, vectors * 4);
        let body = format!(
            "    let i = (group.y * {x}u + group.x) * {}u + thread;
    let j = i + {THREADS}u;
    if j < {vectors}u {{
        let first = source[i];
        let second = source[j];
        target_[i] = first;
        target_[j] = second;
    }} else if i < {vectors}u {{
        target_[i] = source[i];
    }}",
            THREADS * READS
        );
        text.kernel(
            "copy-u32x4",
            [THREADS as u32, 1, 1],
            [x, y, 1],
            vectors,
            &body,
            limits,
        )
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
