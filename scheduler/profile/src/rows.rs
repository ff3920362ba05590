//! The storage interface of a profile, which memory and a file implement for
//! [`Profile`](crate::Profile).
//!
//! Invariants:
//! 1. A call that changes rows changes all of them or none.
//! 2. All storages give the same answers after the same calls.
//!
//! Not here: rows in memory (`memory`), in a file (`sqlite`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use polychip_partitioner::Energy;

use crate::bundle::{Bundle, BundleError, Loaded};
use crate::cadence::Cadence;
use crate::conditions::Conditions;
use crate::error::Failure;
use crate::hex::unhex;
use crate::key::{Measurement, PartKey};
use crate::link::LinkCost;
use crate::record::{LinkRecord, Merged, ProfileFile};
use crate::refusal::RefusedRun;
use crate::statistics::Measured;

/// Combinations of governor, power mode and clock whose times are kept per part and cadence: the newest ones.
const STATES: usize = 8;
/// The version that is recorded with this build's measurements.
const BUILD: &str = env!("CARGO_PKG_VERSION");

/// Result of reading or writing rows.
pub(crate) type Result<T> = std::result::Result<T, Failure>;
/// Checks a bundle, given the bundles loaded so far and the digest of its content.
pub(crate) type Check<'a> = &'a mut dyn FnMut(Vec<Loaded>, &[u8; 32]) -> std::result::Result<(), BundleError>;

/// A storage of rows.
pub(crate) trait Rows {
    /// Adds a batch of measurements of a part, and drops those beyond the limits.
    fn add(
        &mut self,
        key: PartKey<'_>,
        emulated: bool,
        stated: &Stated<'_>,
        measurements: &[Measurement],
    ) -> Result<()>;
    /// The batches of a part, oldest first, and whether they are of an emulated device.
    fn batches(&self, key: PartKey<'_>) -> Result<(Vec<Measured>, bool)>;
    /// Devices and operating points of all rows of a part.
    fn devices_of(&self, fingerprint: &[u8; 32]) -> Result<Vec<(String, String)>>;
    /// Devices for which a bundle has such a row, in order.
    fn devices_of_bundles(
        &self,
        fingerprint: &[u8; 32],
        operating_point: &str,
        emulated: bool,
    ) -> Result<Vec<String>>;
    /// Whether anything was measured.
    fn has_batches(&self) -> Result<bool>;
    /// Records the content of a part, unless it is known.
    fn describe(&mut self, fingerprint: &[u8; 32], content: &str) -> Result<()>;
    /// Stores a refused run, or updates the message of a known one.
    fn refuse(&mut self, device: &str, run: &RefusedRun) -> Result<()>;
    /// The node sequences that a device refused.
    fn refusals(&self, device: &str) -> Result<Vec<RefusedRun>>;
    /// Forgets the refusals of a device, or of all devices, and returns their number.
    fn forget_refusals(&mut self, device: Option<&str>) -> Result<usize>;
    /// Stores a link unless a newer record of it exists, and returns whether it did. Own measurements take precedence over
    /// those of a bundle.
    fn put_link(&mut self, link: &LinkRecord) -> Result<bool>;
    /// Bytes and costs of a link, smallest first.
    fn links(&self, from: &str, to: &str) -> Result<Vec<(u64, LinkCost)>>;
    /// A value that a plugin stored.
    fn plugin_value(&self, plugin: &str, key: &str) -> Result<Option<Vec<u8>>>;
    /// Sets a plugin's value; an empty one removes it.
    fn set_plugin_value(&mut self, plugin: &str, key: &str, value: &[u8]) -> Result<()>;
    /// All records, in a fixed order.
    fn read(&self) -> Result<ProfileFile>;
    /// Adds checked records; those without a source get `source`.
    fn write(&mut self, records: &ProfileFile, source: &str) -> Result<Merged>;
    /// Replaces the records of the family's earlier bundles with those of this one, and remembers it. The loaded
    /// bundles that `check` receives do not change meanwhile. A bundle that is already loaded changes nothing.
    fn write_bundle(
        &mut self,
        bundle: &Bundle,
        check: Check<'_>,
    ) -> Result<std::result::Result<(), BundleError>>;
    /// The newest bundle of each family that was loaded.
    fn loaded_bundles(&self) -> Result<Vec<Loaded>>;
}

/// The newest settings under which times of a part are kept.
#[derive(Default)]
pub(crate) struct RecentSettings(BTreeMap<Option<Cadence>, Vec<String>>);

impl RecentSettings {
    /// The setting of these conditions, and whether enough newer ones exist at its cadence. Call it
    /// from the newest measurement to the oldest.
    pub(crate) fn of(&mut self, conditions: &Conditions) -> (String, bool) {
        let state = conditions.lasting().to_string();
        let known = self.0.entry(conditions.cadence).or_default();
        let place = known.iter().position(|known| *known == state).unwrap_or_else(|| {
            known.push(state.clone());
            known.len() - 1
        });
        (state, place >= STATES)
    }
}

/// Where measurements come from.
pub(crate) struct Stated<'a> {
    pub(crate) recorded_us: u64,
    pub(crate) build: &'a str,
    pub(crate) conditions: &'a str,
    pub(crate) source: &'a str,
    pub(crate) digest: &'a [u8],
    /// Sensor of the energies; empty without energies or if unknown.
    pub(crate) sensor: &'a str,
    /// Interval of the batch's one energy in microjoules.
    pub(crate) energy_interval_uj: Option<[u64; 2]>,
}

/// A batch of new measurements.
pub(crate) struct Batch {
    recorded_us: u64,
    conditions: String,
    digest: [u8; 32],
    sensor: String,
    energy_interval_uj: Option<[u64; 2]>,
}

impl Batch {
    pub(crate) fn new(key: PartKey<'_>, measurements: &[Measurement], conditions: &Conditions) -> Batch {
        // tells apart two batches of one process in the same microsecond
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let recorded_us = now_us();
        let mut digest = blake3::Hasher::new();
        digest.update(&recorded_us.to_le_bytes());
        digest.update(&std::process::id().to_le_bytes());
        digest.update(&COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        digest.update(key.fingerprint);
        for text in [key.device, key.operating_point] {
            digest.update(&(text.len() as u64).to_le_bytes());
            digest.update(text.as_bytes());
        }
        for measurement in measurements {
            digest.update(&measurement.time.nanoseconds().to_le_bytes());
        }
        Batch {
            recorded_us,
            conditions: conditions.to_string(),
            digest: *digest.finalize().as_bytes(),
            sensor: String::new(),
            energy_interval_uj: None,
        }
    }

    /// Adds the source of its energies.
    pub(crate) fn of_sensor(self, sensor: &str, energy_interval_uj: Option<[u64; 2]>) -> Batch {
        Batch {
            sensor: sensor.to_owned(),
            energy_interval_uj,
            ..self
        }
    }

    pub(crate) fn stated(&self) -> Stated<'_> {
        Stated {
            recorded_us: self.recorded_us,
            build: BUILD,
            conditions: &self.conditions,
            source: "",
            digest: &self.digest,
            sensor: &self.sensor,
            energy_interval_uj: self.energy_interval_uj,
        }
    }
}

/// The record of a link that was measured now.
pub(crate) fn measured_link(from: &str, to: &str, bytes: u64, cost: LinkCost) -> LinkRecord {
    LinkRecord {
        from: from.to_owned(),
        to: to.to_owned(),
        bytes,
        time_ns: cost.time.nanoseconds(),
        energy_nj: cost.energy.map(Energy::nanojoules),
        recorded_us: now_us(),
        build: BUILD.to_owned(),
        source: String::new(),
    }
}

/// Microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// A bundle's records as stored, each with a source that names the bundle, and the prefix of its family's sources.
pub(crate) fn of_bundle(bundle: &Bundle) -> (ProfileFile, String) {
    let manifest = &bundle.manifest;
    // quoted, so that no family's name is a prefix of another's
    let of_family = format!("bundle {:?} version ", manifest.family);
    let named = |source: &str| match source {
        "" => format!("{of_family}{}", manifest.version),
        source => format!("{of_family}{}: {source}", manifest.version),
    };
    let mut records = bundle.content.profile.clone();
    // plugin values hold for one machine only
    records.plugin_values.clear();
    let batches = records.parts.iter_mut().flat_map(|part| &mut part.batches);
    let sources = batches.map(|batch| &mut batch.source);
    for source in sources.chain(records.links.iter_mut().map(|link| &mut link.source)) {
        *source = named(source);
    }
    (records, of_family)
}

/// The digest of a bundle's content.
pub(crate) fn digest_of(bundle: &Bundle) -> [u8; 32] {
    let digest = unhex(&bundle.manifest.content_blake3).and_then(|bytes| bytes.try_into().ok());
    digest.unwrap_or_default()
}

/// Whether a bundle is the one that was loaded.
pub(crate) fn is_same(loaded: &Loaded, bundle: &Bundle) -> bool {
    let manifest = &bundle.manifest;
    (&loaded.family, loaded.version, loaded.digest) == (&manifest.family, manifest.version, digest_of(bundle))
}

/// The measurements of a record.
pub(crate) fn measurements_of(batch: &crate::record::BatchRecord) -> Vec<Measurement> {
    let energy = |at: usize| batch.energies_uj.get(at).copied().flatten();
    let times = batch.times_ns.iter().enumerate();
    times
        .map(|(at, &ns)| Measurement {
            // the partitioner counts picoseconds in 64 bits
            time: polychip_partitioner::Time::from_nanoseconds(ns.min(u64::MAX / 1_000_000)),
            energy_uj: energy(at),
        })
        .collect()
}
