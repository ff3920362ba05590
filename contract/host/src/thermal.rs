//! Android's own word on heat: how near the phone is to slowing down, through `libandroid.so`.
//!
//! The functions are declared in the NDK's `android/thermal.h` (status since API level 30, headroom since 31). The
//! library is opened when it is first asked for and stays open; on other systems there is none.
//!
//! Invariants:
//! 1. A function that the system does not have is an absent figure, never an error of the app.
//! 2. Android answers a headroom that is asked for more often than about once a second with "not a number"; the last
//!    answer is given again until then.

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
/// How often a headroom is asked for anew.
const EVERY: Duration = Duration::from_millis(1100);

/// The thermal service of the system.
#[derive(Debug)]
pub struct ThermalService {
    manager: Handle,
    status: Option<Status>,
    headroom: Option<Headroom>,
    /// When the headroom was asked for last, how far ahead, and what it was.
    last: Mutex<Option<(Instant, u32, Option<f32>)>>,
}

/// What `AThermal_acquireManager` gives; it is kept as long as the process.
#[derive(Debug)]
struct Handle(*mut c_void);

// SAFETY: the NDK's thermal functions may be called from any thread: the object behind the handle locks itself.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl ThermalService {
    /// The service of this system; the reason where there is none.
    ///
    /// # Errors
    /// In words: the system is not Android, or older than API level 30.
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
                "{} has no AThermal_acquireManager: API level 30 or later has",
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
            return Err("the system gives no thermal service".to_owned());
        }
        Ok(ThermalService {
            manager: Handle(manager),
            status: status.ok().map(|symbol| *symbol),
            headroom: headroom.ok().map(|symbol| *symbol),
            last: Mutex::new(None),
        })
    }

    /// How much the system slows down now: 0 not at all, 1 lightly, 2 moderately, 3 severely, 4 critically, 5 in an
    /// emergency, 6 as it shuts down. None where it does not say.
    #[must_use]
    pub fn status(&self) -> Option<u32> {
        let call = self.status?;
        // SAFETY: the manager is ours and was never released.
        let status = unsafe { call(self.manager.0) };
        // -1 is an error
        u32::try_from(status).ok()
    }

    /// How much of the way to severe slowing down is used up, so many seconds from now (60 at most): 1.0 is there. None
    /// where the system does not say.
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
    fn another_system_has_no_thermal_service() {
        assert_eq!(
            ThermalService::of_this_system().unwrap_err(),
            "not an Android system"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_library_without_the_symbols_is_refused_with_the_reason() {
        // every process has this one, and it says nothing of heat
        let words = ThermalService::open(Path::new("libc.so.6")).unwrap_err();
        assert!(words.contains("AThermal_acquireManager"), "{words}");
        let words = ThermalService::open(Path::new("/nowhere/libandroid.so")).unwrap_err();
        assert!(words.contains("/nowhere/libandroid.so"), "{words}");
    }
}
