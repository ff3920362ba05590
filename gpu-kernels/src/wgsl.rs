//! A builder of WGSL: declarations that all kernels share.
//!
//! Invariant: names given by the caller are WGSL identifiers; names of the model never reach the shader.

use std::fmt::Write as _;

use crate::{Access, Binding, Error, Features, Kernel, Limits, Result, Scalar};

/// A builder of a kernel.
#[derive(Debug, Clone, Default)]
pub struct WgslBuilder {
    bindings: Vec<(String, String, Binding)>,
    shared: Vec<(String, String, u32)>,
    needs: Features,
    head: String,
}

impl WgslBuilder {
    /// An empty builder.
    #[must_use]
    pub fn new() -> WgslBuilder {
        WgslBuilder::default()
    }

    /// Declares the next binding: `count` elements of `scalar`, seen as vectors of `width` (1, 2 or 4). Bytes
    /// and 16-bit integers are seen as words, `width` words a vector; the tensor's size is rounded up to a whole vector.
    pub fn binding(
        &mut self,
        name: &str,
        access: Access,
        scalar: Scalar,
        width: u32,
        count: u64,
    ) -> &mut WgslBuilder {
        let element = match width {
            1 => scalar.stored().to_owned(),
            width => format!("vec{width}<{}>", scalar.stored()),
        };
        self.needs.f16 |= scalar == Scalar::F16;
        self.needs.int64 |= scalar == Scalar::I64;
        let bytes = count.saturating_mul(scalar.bytes());
        let unit = match scalar {
            Scalar::I8 | Scalar::U8 | Scalar::Bool | Scalar::I16 | Scalar::U16 => 4 * u64::from(width),
            _ => (scalar.bytes() * u64::from(width)).max(4),
        };
        let bytes = bytes.max(1).div_ceil(unit).saturating_mul(unit);
        self.bindings
            .push((name.to_owned(), element, Binding { access, bytes }));
        self
    }

    /// Declares the next binding, which is written: `words` atomic words of 32 bits.
    pub fn atomic(&mut self, name: &str, words: u64) -> &mut WgslBuilder {
        let bytes = words.max(1).saturating_mul(4);
        let access = Access::Write;
        self.bindings.push((
            name.to_owned(),
            "atomic<u32>".to_owned(),
            Binding { access, bytes },
        ));
        self
    }

    /// Declares an array in the memory of a workgroup: `count` elements of a WGSL type of `bytes` bytes each.
    pub fn shared(&mut self, name: &str, element: &str, bytes: u32, count: u32) -> &mut WgslBuilder {
        self.shared.push((
            name.to_owned(),
            format!("array<{element}, {count}>"),
            bytes.saturating_mul(count),
        ));
        self
    }

    /// States optional instructions that the body uses.
    pub fn needs(&mut self, change: impl FnOnce(&mut Features)) -> &mut WgslBuilder {
        change(&mut self.needs);
        self
    }

    /// Adds declarations: constants, functions.
    pub fn declare(&mut self, text: &str) -> &mut WgslBuilder {
        self.head.push_str(text);
        self.head.push('\n');
        self
    }

    /// Puts the kernel together. The body sees `group` (`workgroup_id`), `local` (`local_invocation_id`) and
    /// `thread` (`local_invocation_index`); with subgroups also `lane`, `lanes` and `subgroup`. Functions that the
    /// text of expressions calls are declared where the head or the body names them.
    ///
    /// # Errors
    /// The kernel exceeds the device's limits.
    pub fn kernel(
        &self,
        variant: impl Into<String>,
        workgroup: [u32; 3],
        groups: [u32; 3],
        work: u64,
        body: &str,
        limits: &Limits,
    ) -> Result<Kernel> {
        let mut wgsl = String::new();
        let mut line = |text: std::fmt::Arguments<'_>| {
            wgsl.write_fmt(text).expect("invariant: a string takes all text");
            wgsl.push('\n');
        };
        if self.needs.f16 {
            line(format_args!("enable f16;"));
        }
        if self.needs.cooperative != 0 {
            line(format_args!("enable wgpu_cooperative_matrix;"));
        }
        for (index, (name, element, binding)) in self.bindings.iter().enumerate() {
            let mode = match binding.access {
                Access::Constant => "read",
                Access::Read | Access::Write => "read_write",
            };
            line(format_args!(
                "@group(0) @binding({index}) var<storage, {mode}> {name}: array<{element}>;"
            ));
        }
        for (name, array, _) in &self.shared {
            line(format_args!("var<workgroup> {name}: {array};"));
        }
        line(format_args!("{}", self.head));
        line(format_args!(
            "{}",
            crate::expression::declarations(&format!("{}\n{body}", self.head))
        ));
        let [x, y, z] = workgroup;
        line(format_args!("@compute @workgroup_size({x}, {y}, {z})"));
        line(format_args!(
            "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>,"
        ));
        let subgroups = if self.needs.subgroups {
            ", @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) lanes: u32, \
             @builtin(subgroup_id) subgroup: u32"
        } else {
            ""
        };
        line(format_args!(
            "    @builtin(local_invocation_index) thread: u32{subgroups}) {{"
        ));
        line(format_args!("{body}"));
        line(format_args!("}}"));
        let shared_bytes = self
            .shared
            .iter()
            .try_fold(0u32, |sum, (_, _, bytes)| sum.checked_add(*bytes))
            .ok_or_else(|| Error::new("memory of a workgroup is beyond 4 GiB"))?;
        let kernel = Kernel {
            variant: variant.into(),
            wgsl,
            workgroup,
            shared_bytes,
            bindings: self.bindings.iter().map(|(_, _, binding)| *binding).collect(),
            needs: self.needs,
            groups,
            work,
        };
        kernel.check(limits)?;
        Ok(kernel)
    }
}
