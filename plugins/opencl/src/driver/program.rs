//! Programs: a kernel's text compiled by the driver, or its binary.
//!
//! Invariant: a binary is used on the device and driver that made it; where the driver refuses it, the text is
//! compiled.

use std::sync::{Arc, Mutex, PoisonError};

use opencl3::kernel::Kernel as Entry;
use polychip_gpu_kernels::Kernel;
use polychip_sdk::{Error, ErrorKind, Result};

use super::gpu::Gpu;
use super::said;
use crate::source::{ENTRY, translate};

/// One compilation at a time: pocl 3.1 crashes in several.
static TURN: Mutex<()> = Mutex::new(());

/// A compiled kernel.
pub(crate) struct Program(Arc<opencl3::program::Program>);

impl Program {
    /// The program of a kernel: one that is loaded, from its binary, or from its text.
    ///
    /// # Errors
    /// The compiler's message.
    pub(crate) fn get(gpu: &Gpu, kernel: &Kernel, binary: Option<&[u8]>) -> Result<Program> {
        let known = gpu.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = known.get(&kernel.wgsl).and_then(std::sync::Weak::upgrade) {
            return Ok(Program(program));
        }
        drop(known);
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let program = match binary.filter(|binary| !binary.is_empty()) {
            Some(binary) => Program::of_binary(gpu, binary).or_else(|_| Program::compile(gpu, kernel)),
            None => Program::compile(gpu, kernel),
        };
        let program = program?;
        let mut known = gpu.programs.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, program| program.strong_count() > 0);
        known.insert(kernel.wgsl.clone(), Arc::downgrade(&program.0));
        Ok(program)
    }

    fn compile(gpu: &Gpu, kernel: &Kernel) -> Result<Program> {
        let text = translate(&kernel.wgsl, gpu.cl_device.half)
            .map_err(|error| Error::unsupported(format!("{}: {error}", kernel.variant)))?;
        let mut options = String::from("-cl-std=CL1.2");
        if gpu.cl_device.exact_division {
            options.push_str(" -cl-fp32-correctly-rounded-divide-sqrt");
        }
        opencl3::program::Program::create_and_build_from_source(&gpu.context, &text, &options)
            .map(|program| Program(Arc::new(program)))
            .map_err(|message| {
                let what = format!("the driver compiles no {}: {}", kernel.variant, message.trim());
                Error::new(ErrorKind::Persistent, what)
            })
    }

    fn of_binary(gpu: &Gpu, binary: &[u8]) -> Result<Program> {
        opencl3::program::Program::create_and_build_from_binary(&gpu.context, &[binary], "")
            .map(|program| Program(Arc::new(program)))
            .map_err(|error| said("the driver refuses its own binary", error))
    }

    /// What the driver made of the text; empty where it does not tell.
    pub(crate) fn binary(&self) -> Vec<u8> {
        let all = self.0.get_binaries().unwrap_or_default();
        all.into_iter().next().unwrap_or_default()
    }

    /// The kernel, with arguments of its own.
    ///
    /// # Errors
    /// The driver's message.
    pub(crate) fn entry(&self) -> Result<Entry> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Entry::create(&self.0, ENTRY).map_err(|error| said("a program without its kernel", error))
    }
}
