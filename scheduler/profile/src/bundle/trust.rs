//! The bundles that an app accepts.

use super::content::Manifest;
use super::error::BundleError;
use super::key::PublicKey;

/// The keys that an app trusts, and the bundles that it has loaded.
///
/// ```
/// use polychip_profile::bundle::{Bundle, BundleErrorKind, Content, Manifest, SecretKey, Trust};
///
/// let key = SecretKey::from_bytes(&[7; 32]);
/// let manifest = Manifest::new("SM8650", 3);
/// let file = Bundle::sign(&Content::default(), &manifest, &key).unwrap();
/// assert!(Bundle::open(&file, &Trust::new().key(key.public())).is_ok());
/// let refused = Bundle::open(&file, &Trust::new()).unwrap_err();
/// assert_eq!(refused.kind(), BundleErrorKind::UntrustedKey);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Trust {
    keys: Vec<PublicKey>,
    family: Option<String>,
    loaded: Vec<Loaded>,
    rollback: bool,
    installation: Option<String>,
}

/// A bundle that was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Its family.
    pub family: String,
    /// Its version.
    pub version: u64,
    /// BLAKE3 of its content.
    pub digest: [u8; 32],
}

impl Trust {
    /// Trusts no key.
    #[must_use]
    pub fn new() -> Trust {
        Trust::default()
    }

    /// Adds a trusted key; several are possible, for example during a key change.
    #[must_use]
    pub fn key(mut self, key: PublicKey) -> Trust {
        self.keys.push(key);
        self
    }

    /// Accepts bundles of this family only.
    #[must_use]
    pub fn family(mut self, family: &str) -> Trust {
        self.family = Some(family.to_owned());
        self
    }

    /// Sets the last loaded bundle of a family: older ones are refused.
    #[must_use]
    pub fn loaded(mut self, loaded: Loaded) -> Trust {
        self.loaded.push(loaded);
        self
    }

    /// Accepts versions below the last loaded one, to undo a bad release.
    #[must_use]
    pub fn allow_rollback(mut self) -> Trust {
        self.rollback = true;
        self
    }

    /// Sets the name of this installation, random and kept by the app. Staged rollouts use it to
    /// pick a share of the devices. Without it only bundles for all devices are accepted.
    #[must_use]
    pub fn installation(mut self, name: &str) -> Trust {
        self.installation = Some(name.to_owned());
        self
    }

    pub(super) fn check_signature(
        &self,
        signer: &PublicKey,
        message: &[u8],
        signature: [u8; 64],
    ) -> Result<(), BundleError> {
        if !self.keys.contains(signer) {
            return Err(BundleError::untrusted(*signer));
        }
        if signer.signed(message, &signature) {
            Ok(())
        } else {
            Err(BundleError::bad_signature(*signer))
        }
    }

    pub(crate) fn check_manifest(&self, manifest: &Manifest, digest: &[u8; 32]) -> Result<(), BundleError> {
        if let Some(wanted) = &self.family
            && *wanted != manifest.family
        {
            return Err(BundleError::family(&manifest.family, wanted));
        }
        let version = manifest.version;
        let of_family = |loaded: &&Loaded| loaded.family == manifest.family;
        let newest = self
            .loaded
            .iter()
            .filter(of_family)
            .max_by_key(|loaded| loaded.version);
        if let Some(newest) = newest {
            if version < newest.version && !self.rollback {
                return Err(BundleError::downgraded(version, newest.version));
            }
            if version == newest.version && *digest != newest.digest {
                return Err(BundleError::replaced(version));
            }
        }
        let installation = self.installation.as_deref();
        if manifest.is_for(installation) {
            Ok(())
        } else {
            Err(BundleError::not_yet(version, manifest.share_permille))
        }
    }
}
