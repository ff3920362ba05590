//! Android's thermal status: how close the phone is to throttling, read through `libandroid.so`.
//!
//! The functions are declared in the NDK's `android/thermal.h` (status since API level 30, headroom
//! since 31). The library is opened on first use and stays open. Other systems have no such
//! service.
//!
//! Invariants:
//! 1. A function that the system lacks yields an absent figure, never an error of the app.
//! 2. Android answers "not a number" if the headroom is requested more often than about once a
//!    second. Until then, the previous answer is returned.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use libloading::Library;

type Acquire = unsafe extern "C" fn() -> *mut c_void;
type Status = unsafe extern "C" fn(*mut c_void) -> c_int;
type Headroom = unsafe extern "C" fn(*mut c_void, c_int) -> f32;

/// The library, by the name under which Android finds it.
const LIBRARY: &str = "libandroid.so";
/// Shortest interval between two headroom requests.
const EVERY: Duration = Duration::from_millis(1100);

/// The thermal service of the system.
#[derive(Debug)]
pub struct ThermalService {
    manager: Handle,
    status: Option<Status>,
    headroom: Option<Headroom>,
    /// Time of the last headroom request, seconds ahead, and the answer.
    last: Mutex<Option<(Instant, u32, Option<f32>)>>,
}

/// Result of `AThermal_acquireManager`; kept until the process ends.
#[derive(Debug)]
struct Handle(*mut c_void);

// SAFETY: the NDK's thermal functions may be called from any thread: the object behind the handle locks itself.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl ThermalService {
    /// Returns the thermal service of this system.
    ///
    /// # Errors
    /// The reason as text: the system is not Android, or its API level is below 30.
    pub fn of_this_system() -> Result<&'static ThermalService, String> {
        static SERVICE: OnceLock<Result<ThermalService, String>> = OnceLock::new();
        SERVICE
            .get_or_init(|| {
                if cfg!(target_os = "android") {
                    ThermalService::open(Path::new(LIBRARY))
                } else {
                    Err("not an Android system".to_owned())
                }
            })
            .as_ref()
            .map_err(Clone::clone)
    }

    fn open(path: &Path) -> Result<ThermalService, String> {
        // SAFETY: opening a library runs its initialisers; this one is a part of the system.
        let library = unsafe { Library::new(path) }.map_err(|error| {
            // the loader's own words are the source
            let source = std::error::Error::source(&error);
            source.map_or_else(|| error.to_string(), ToString::to_string)
        })?;
        // a library with threads must not be unloaded
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the symbol of this name has this type, by `android/thermal.h`.
        let acquire = unsafe { library.get::<Acquire>(b"AThermal_acquireManager\0") };
        let acquire = acquire.map_err(|_| {
            format!(
                "{} has no AThermal_acquireManager: Android API level 30 or later is required",
                path.display()
            )
        })?;
        // SAFETY: as above.
        let status = unsafe { library.get::<Status>(b"AThermal_getCurrentThermalStatus\0") };
        // SAFETY: as above.
        let headroom = unsafe { library.get::<Headroom>(b"AThermal_getThermalHeadroom\0") };
        // SAFETY: it takes nothing, and gives a handle that is ours, or null.
        let manager = unsafe { acquire() };
        if manager.is_null() {
            return Err("the system provides no thermal service".to_owned());
        }
        Ok(ThermalService {
            manager: Handle(manager),
            status: status.ok().map(|symbol| *symbol),
            headroom: headroom.ok().map(|symbol| *symbol),
            last: Mutex::new(None),
        })
    }

    /// Current throttling: 0 none, 1 light, 2 moderate, 3 severe, 4 critical, 5 emergency, 6
    /// shutdown. `None` if the system does not report it.
    #[must_use]
    pub fn status(&self) -> Option<u32> {
        let call = self.status?;
        // SAFETY: the manager is ours and was never released.
        let status = unsafe { call(self.manager.0) };
        // -1 is an error
        u32::try_from(status).ok()
    }

    /// Predicted share of the way to severe throttling, `seconds` seconds from now (60 at most):
    /// 1.0 is severe throttling. `None` if the system does not report it.
    #[must_use]
    pub fn headroom(&self, seconds: u32) -> Option<f32> {
        let call = self.headroom?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, ahead, value)) = *last
            && ahead == seconds
            && at.elapsed() < EVERY
        {
            return value;
        }
        let ahead = c_int::try_from(seconds.min(60)).expect("invariant: sixty fits");
        // SAFETY: as in `status`.
        let value = unsafe { call(self.manager.0, ahead) };
        let value = (value.is_finite() && value >= 0.0).then_some(value);
        *last = Some((Instant::now(), seconds, value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(target_os = "android"))]
    fn other_systems_have_no_thermal_service() {
        assert_eq!(
            ThermalService::of_this_system().unwrap_err(),
            "not an Android system"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn library_without_the_symbols_is_refused_with_the_reason() {
        // every process has this library, and it has no thermal functions
        let words = ThermalService::open(Path::new("libc.so.6")).unwrap_err();
        assert!(words.contains("AThermal_acquireManager"), "{words}");
        let words = ThermalService::open(Path::new("/nowhere/libandroid.so")).unwrap_err();
        assert!(words.contains("/nowhere/libandroid.so"), "{words}");
    }
}
