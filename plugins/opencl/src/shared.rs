//! What the executables and buffers of a device share with it.

use std::sync::{Arc, PoisonError, RwLock};

use polychip_gpu_lowering::Target;
use polychip_sdk::{Error, ErrorKind, Result};

use crate::driver::gpu::Gpu;

/// Of one device.
pub(crate) struct Shared {
    pub(crate) target: Target,
    gpu: RwLock<Arc<Gpu>>,
}

impl Shared {
    pub(crate) fn new(target: Target, gpu: Arc<Gpu>) -> Shared {
        Shared {
            target,
            gpu: RwLock::new(gpu),
        }
    }

    /// The device as it is open now.
    pub(crate) fn gpu(&self) -> Arc<Gpu> {
        Arc::clone(&self.gpu.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Refuses what was loaded on a device that is lost, or that was reset since.
    ///
    /// # Errors
    /// `DeviceLost`, with what happened.
    pub(crate) fn check_open(&self, gpu: &Gpu) -> Result<()> {
        gpu.alive()?;
        if self.gpu().number == gpu.number {
            return Ok(());
        }
        let what = "the device was reset after this part was loaded";
        Err(Error::new(ErrorKind::DeviceLost, what))
    }

    /// The device was opened anew: kernels are judged and timed there from now on.
    pub(crate) fn reopened(&self, new: Arc<Gpu>) {
        if let Some(guard) = &self.target.guard {
            guard.reopened(Arc::<Gpu>::clone(&new));
        }
        if let Some(tuner) = &self.target.tuner {
            tuner.reopened(Arc::<Gpu>::clone(&new));
        }
        *self.gpu.write().unwrap_or_else(PoisonError::into_inner) = new;
    }
}
