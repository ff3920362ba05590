//! Bundles given by the app: signed files of farm measurements.
//!
//! Invariant: a bundle is loaded whole or not at all, with the reason; an app runs without it.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use polychip_profile::Profile;
use polychip_profile::bundle::{BestPlan, Bundle, BundleError, BundleErrorKind, MAGIC, Manifest, Trust};

/// A bundle given to [`Builder::profiles`](crate::Builder::profiles): loaded, or refused.
#[derive(Debug)]
pub struct LoadedBundle {
    path: PathBuf,
    loaded: Result<(Manifest, Vec<BestPlan>), BundleError>,
}

/// Whether a file is a bundle, or was to be one: it begins as bundles do, be it cut off there, or its name ends in `.bundle`,
/// be it missing. No database is made in its place.
pub(crate) fn is_one(path: &Path) -> bool {
    if path.extension().is_some_and(|extension| extension == "bundle") {
        return true;
    }
    let mut first = Vec::with_capacity(MAGIC.len());
    let read = polychip_host::open_regular(path)
        .and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut first));
    read.is_ok() && !first.is_empty() && MAGIC.starts_with(&first)
}

impl LoadedBundle {
    /// Whether [`Builder::profiles`](crate::Builder::profiles) takes a file for a bundle: its name ends in `.bundle`, or
    /// it begins like one. Other files are profile databases.
    #[must_use]
    pub fn is_one(path: &Path) -> bool {
        is_one(path)
    }

    /// Loads a file into the profile.
    pub(crate) fn load(path: &Path, profile: &Profile, trust: &Trust) -> LoadedBundle {
        let loaded = read(path).and_then(|bytes| profile.load_bundle(&bytes, trust));
        if let Err(error) = &loaded {
            let words = format!("{}: {error}", path.display());
            match error.kind() {
                // nothing is wrong: its time has not come
                BundleErrorKind::NotYet => tracing::info!("{words}"),
                _ => profile.note(words),
            }
        }
        LoadedBundle {
            path: path.to_owned(),
            loaded: loaded.map(|bundle| (bundle.manifest, bundle.content.plans)),
        }
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its manifest.
    ///
    /// # Errors
    /// The reason why it was refused; nothing of it is used then.
    pub fn manifest(&self) -> Result<&Manifest, &BundleError> {
        self.loaded.as_ref().map(|(manifest, _)| manifest)
    }

    /// The fastest plan that the farm measured for each model; empty if the bundle was refused.
    /// They show what to expect; a session makes its own plan from the bundle's costs.
    #[must_use]
    pub fn plans(&self) -> &[BestPlan] {
        self.loaded.as_ref().map_or(&[], |(_, plans)| plans)
    }
}

impl fmt::Display for LoadedBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.loaded {
            Ok((manifest, _)) => write!(f, "{} version {}", manifest.family, manifest.version),
            Err(error) => write!(f, "not used: {error}"),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, BundleError> {
    let mut bytes = Vec::new();
    // a longer one is refused for its length, which takes one byte more
    let file = polychip_host::open_regular(path)
        .and_then(|file| file.take(Bundle::LONGEST + 1).read_to_end(&mut bytes));
    file.map(|_| bytes)
        .map_err(|error| BundleError::unreadable(path, &error))
}
