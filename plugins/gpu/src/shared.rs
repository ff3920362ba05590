//! What the executables, buffers and runs of a device share with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use polychip_gpu_lowering::Target;
use polychip_sdk::{Error, ErrorKind, HostServices, Result};

use crate::constants::Constants;
use crate::driver::adapter::GpuAdapter;
use crate::driver::gpu::{Commands, Gpu};

/// How long a GPU that was given up is waited for before what it may write to is kept for good.
const RETIRES: Duration = Duration::from_secs(5);
/// The same of a software GPU, which continues, and writes to the host's memory in place.
const SLOWLY: Duration = Duration::from_secs(60);

/// A lock whose holder may have unwound: the state is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What names buffers, and lets go of one that is destroyed.
pub(crate) trait NamesBuffers: Send + Sync {
    /// Lets go of what names this buffer.
    fn forget(&self, buffer: u64);
}

/// Of one device.
pub(crate) struct Shared {
    pub(crate) host: HostServices,
    found: GpuAdapter,
    commands: Commands,
    /// What blobs and pipelines are made for.
    pub(crate) identity: String,
    pub(crate) target: Target,
    gpu: RwLock<Arc<Gpu>>,
    /// How long a wait looks again and again before it sleeps.
    pub(crate) spin: Duration,
    names: Mutex<Vec<Weak<dyn NamesBuffers>>>,
    /// Constants of the parts that are loaded.
    pub(crate) constants: Constants,
}

/// Key of the driver's pipelines in the host's store.
fn pipelines_key(identity: &str) -> String {
    format!("pipelines {identity}")
}

/// Opens a GPU with the pipelines that an earlier process kept.
pub(crate) fn open(
    host: &HostServices,
    found: &GpuAdapter,
    identity: &str,
    commands: Commands,
) -> Result<Arc<Gpu>> {
    let cache = host.store_read(&pipelines_key(identity)).unwrap_or(None);
    Gpu::open(found, cache.as_deref(), commands)
}

impl Shared {
    pub(crate) fn new(
        host: &HostServices,
        found: &GpuAdapter,
        commands: Commands,
        target: Target,
        gpu: Arc<Gpu>,
        spin: Duration,
    ) -> Shared {
        Shared {
            host: host.clone(),
            found: found.clone(),
            commands,
            identity: found.identity(),
            target,
            gpu: RwLock::new(gpu),
            spin,
            names: Mutex::default(),
            constants: Constants::default(),
        }
    }

    /// The GPU as it is open now.
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

    /// Opens the GPU anew in place of this one: kernels are judged and timed there from now on.
    ///
    /// # Errors
    /// Where the driver refuses, with the driver's message.
    pub(crate) fn reopen(&self, old: Arc<Gpu>) -> Result<()> {
        let new = open(&self.host, &self.found, &self.identity, self.commands)?;
        if let Some(guard) = &self.target.guard {
            guard.reopened(new.clone());
        }
        if let Some(tuner) = &self.target.tuner {
            tuner.reopened(new.clone());
        }
        *self.gpu.write().unwrap_or_else(PoisonError::into_inner) = new;
        self.retire(old);
        Ok(())
    }

    /// Lets go of a GPU once it has nothing left to do.
    pub(crate) fn retire(&self, gpu: Arc<Gpu>) {
        gpu.retire(if self.found.software() { SLOWLY } else { RETIRES });
    }

    /// Keeps the driver's pipelines for the next process.
    pub(crate) fn keep_pipelines(&self, gpu: &Gpu) {
        if let Some(bytes) = gpu.pipelines.bytes() {
            // a host without a store makes them again next time
            let _ = self.host.store_write(&pipelines_key(&self.identity), &bytes);
        }
    }

    /// Tells of buffers that are destroyed from now on.
    pub(crate) fn tell(&self, names: Weak<dyn NamesBuffers>) {
        let mut list = lock(&self.names);
        list.retain(|known| known.strong_count() > 0);
        list.push(names);
    }

    /// Lets go of what names a buffer that is destroyed.
    pub(crate) fn forget(&self, buffer: u64) {
        let alive: Vec<Arc<dyn NamesBuffers>> = {
            let mut list = lock(&self.names);
            list.retain(|known| known.strong_count() > 0);
            list.iter().filter_map(Weak::upgrade).collect()
        };
        // the last hold of a part may be one of these, and its own buffers come here again
        for names in &alive {
            names.forget(buffer);
        }
    }
}
