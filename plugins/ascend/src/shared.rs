//! State that a device shares with its executables and buffers.

use std::sync::{Arc, Mutex, PoisonError};

use polychip_sdk::HostServices;

use crate::atc::Atc;
use crate::driver::{Driver, Opening};
use crate::settings::Settings;

/// What the devices of a plugin share.
pub(crate) struct Common {
    pub(crate) host: HostServices,
    pub(crate) driver: Driver,
    pub(crate) settings: Settings,
    /// Name of the chip, as the compiler takes it.
    pub(crate) soc: String,
    /// The compiler, or the reason why there is none.
    pub(crate) atc: Result<Atc, String>,
    /// Identity in blobs: a blob of another toolkit, chip or setting is refused.
    pub(crate) made_by: String,
}

/// A device as it is open now.
pub(crate) struct Shared {
    pub(crate) common: Arc<Common>,
    opening: Mutex<Arc<Opening>>,
}

impl Shared {
    pub(crate) fn new(common: &Arc<Common>, opening: Opening) -> Shared {
        Shared {
            common: Arc::clone(common),
            opening: Mutex::new(Arc::new(opening)),
        }
    }

    /// The opening of now.
    pub(crate) fn opening(&self) -> Arc<Opening> {
        Arc::clone(&self.opening.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another in its place.
    pub(crate) fn reopened(&self, opening: Opening) {
        *self.opening.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(opening);
    }
}
