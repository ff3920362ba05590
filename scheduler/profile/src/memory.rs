//! Rows in memory: for a session without a file, a build without SQLite, and rows that a file
//! cannot store.
//!
//! Invariant: the same rows as in a file, kept and evicted by the same rules (`tests` compares the
//! two).

use std::collections::BTreeMap;

use polychip_partitioner::{Energy, Time};

use crate::bundle::{Bundle, BundleError, Loaded};
use crate::conditions::Conditions;
use crate::hex::{hex, unhex};
use crate::key::{KEPT, Measurement, PartKey};
use crate::link::LinkCost;
use crate::record::{
    BatchRecord, ContentRecord, FORMAT, LinkRecord, Merged, PartRecord, ProfileFile, RefusalRecord, VERSION,
    ValueRecord,
};
use crate::refusal::RefusedRun;
use crate::rows::{self, Check, RecentSettings, Result, Rows, Stated};
use crate::statistics::Measured;

/// The most that a file holds of a number.
const MOST: u64 = i64::MAX as u64;
/// What sources of bundles begin with.
const BUNDLE: &str = "bundle ";

/// Device, fingerprint and operating point.
type Key = (String, [u8; 32], String);

/// All rows.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    parts: BTreeMap<Key, Part>,
    contents: BTreeMap<[u8; 32], String>,
    links: BTreeMap<(String, String, u64), LinkRecord>,
    /// By device and structure of the run: its length, and the vendor's words.
    refusals: BTreeMap<(String, [u8; 32]), (u64, String)>,
    plugin_values: BTreeMap<(String, String), Vec<u8>>,
    /// By family: version and digest.
    bundles: BTreeMap<String, (u64, [u8; 32])>,
    /// Measurements that were ever added.
    added: u64,
}

#[derive(Debug, Default)]
struct Part {
    emulated: bool,
    batches: Vec<Batch>,
}

#[derive(Debug)]
struct Batch {
    recorded_us: u64,
    build: String,
    conditions: String,
    source: String,
    digest: Vec<u8>,
    sensor: String,
    energy_interval_uj: Option<[u64; 2]>,
    /// Number among those ever added, time, energy.
    measurements: Vec<(u64, u64, Option<u64>)>,
}

impl Batch {
    fn measured(&self) -> Measured {
        Measured {
            conditions: Conditions::read(&self.conditions),
            recorded_us: self.recorded_us,
            times_ns: self.measurements.iter().map(|(_, time, _)| *time).collect(),
            energies_uj: self.measurements.iter().filter_map(|one| one.2).collect(),
            sensor: self.sensor.clone(),
            energy_interval_uj: self.energy_interval_uj,
        }
    }

    fn record(&self) -> BatchRecord {
        let mut energies_uj: Vec<Option<u64>> = self.measurements.iter().map(|one| one.2).collect();
        if energies_uj.iter().all(Option::is_none) {
            energies_uj.clear();
        }
        BatchRecord {
            recorded_us: self.recorded_us,
            build: self.build.clone(),
            conditions: self.conditions.clone(),
            source: self.source.clone(),
            digest: hex(&self.digest),
            times_ns: self.measurements.iter().map(|(_, time, _)| *time).collect(),
            energies_uj,
            sensor: self.sensor.clone(),
            energy_interval_uj: self.energy_interval_uj,
        }
    }
}

impl Part {
    /// As `sqlite::store::prune`: all but the newest measurements, with energy and without, of each cadence, governor,
    /// power mode and clock go, and batches that have none left.
    fn prune(&mut self) {
        let held: usize = self.batches.iter().map(|batch| batch.measurements.len()).sum();
        if held <= KEPT as usize {
            return;
        }
        let mut newest: Vec<(u64, u64, bool, usize)> = Vec::with_capacity(held);
        for (at, batch) in self.batches.iter().enumerate() {
            let rows = batch.measurements.iter();
            newest.extend(rows.map(|(id, _, energy)| (batch.recorded_us, *id, energy.is_some(), at)));
        }
        newest.sort_unstable_by_key(|one| std::cmp::Reverse((one.0, one.1)));
        let conditions = self
            .batches
            .iter()
            .map(|batch| Conditions::read(&batch.conditions));
        let conditions: Vec<Conditions> = conditions.collect();
        let mut states = RecentSettings::default();
        let mut counts: BTreeMap<(String, bool, bool), u32> = BTreeMap::new();
        let mut too_many = Vec::new();
        for (_, id, has_energy, at) in newest {
            let (state, is_old) = states.of(&conditions[at]);
            let is_old = is_old && !has_energy;
            // what a bundle brought goes with it, and pushes out nothing that was measured here
            let is_brought = self.batches[at].source.starts_with(BUNDLE);
            let count = counts.entry((state, has_energy, is_brought)).or_default();
            *count += 1;
            if is_old || *count > KEPT {
                too_many.push(id);
            }
        }
        too_many.sort_unstable();
        for batch in &mut self.batches {
            batch
                .measurements
                .retain(|(id, _, _)| too_many.binary_search(id).is_err());
        }
        self.batches.retain(|batch| !batch.measurements.is_empty());
    }
}

impl Memory {
    /// The row of a part, created if missing.
    fn part(&mut self, key: PartKey<'_>, emulated: bool) -> &mut Part {
        let key = (
            key.device.to_owned(),
            *key.fingerprint,
            key.operating_point.to_owned(),
        );
        let part = self.parts.entry(key).or_default();
        part.emulated = emulated;
        part
    }

    fn find(&self, key: PartKey<'_>) -> Option<&Part> {
        self.parts.get(&(
            key.device.to_owned(),
            *key.fingerprint,
            key.operating_point.to_owned(),
        ))
    }

    /// Adds a batch; the number of measurements added, none where it is there already.
    fn add_batch(
        &mut self,
        key: PartKey<'_>,
        emulated: bool,
        stated: &Stated<'_>,
        measurements: &[Measurement],
    ) -> usize {
        let first = self.added;
        let part = self.part(key, emulated);
        if part.batches.iter().any(|batch| batch.digest == stated.digest) {
            return 0;
        }
        let numbered = measurements.iter().zip(first..);
        part.batches.push(Batch {
            recorded_us: stated.recorded_us.min(MOST),
            build: stated.build.to_owned(),
            conditions: stated.conditions.to_owned(),
            source: stated.source.to_owned(),
            digest: stated.digest.to_vec(),
            sensor: stated.sensor.to_owned(),
            energy_interval_uj: stated
                .energy_interval_uj
                .map(|ends| ends.map(|end| end.min(MOST))),
            measurements: numbered
                .map(|(one, id)| {
                    let energy = one.energy_uj.map(|energy| energy.min(MOST));
                    (id, one.time.nanoseconds().min(MOST), energy)
                })
                .collect(),
        });
        self.added += measurements.len() as u64;
        measurements.len()
    }
}

/// Whether a link is stored in the place of the one that is known.
fn is_newer(new: &LinkRecord, known: &LinkRecord) -> bool {
    let [is_brought, was_brought] = [new, known].map(|link| link.source.starts_with(BUNDLE));
    let [is_own, was_own] = [new, known].map(|link| link.source.is_empty());
    let is_later =
        new.recorded_us > known.recorded_us || (new.recorded_us == known.recorded_us && is_own && was_own);
    (was_brought && is_own) || ((was_brought || !is_brought) && is_later)
}

impl Rows for Memory {
    fn add(
        &mut self,
        key: PartKey<'_>,
        emulated: bool,
        stated: &Stated<'_>,
        measurements: &[Measurement],
    ) -> Result<()> {
        self.add_batch(key, emulated, stated, measurements);
        self.part(key, emulated).prune();
        Ok(())
    }

    fn batches(&self, key: PartKey<'_>) -> Result<(Vec<Measured>, bool)> {
        let Some(part) = self.find(key) else {
            return Ok((Vec::new(), false));
        };
        let mut found: Vec<&Batch> = part.batches.iter().collect();
        // the sort is stable: batches of the same time stay in insertion order
        found.sort_by_key(|batch| batch.recorded_us);
        found.retain(|batch| !batch.measurements.is_empty());
        let emulated = part.emulated && !found.is_empty();
        Ok((found.into_iter().map(Batch::measured).collect(), emulated))
    }

    fn devices_of(&self, fingerprint: &[u8; 32]) -> Result<Vec<(String, String)>> {
        let of = self.parts.keys().filter(|(_, own, _)| own == fingerprint);
        Ok(of
            .map(|(device, _, operating_point)| (device.clone(), operating_point.clone()))
            .collect())
    }

    fn devices_of_bundles(
        &self,
        fingerprint: &[u8; 32],
        operating_point: &str,
        emulated: bool,
    ) -> Result<Vec<String>> {
        let is_brought = |batch: &Batch| batch.source.starts_with("bundle \"");
        let found = self.parts.iter().filter(|((_, own, point), part)| {
            own == fingerprint
                && point == operating_point
                && part.emulated == emulated
                && part.batches.iter().any(is_brought)
        });
        Ok(found.map(|((device, _, _), _)| device.clone()).collect())
    }

    fn has_batches(&self) -> Result<bool> {
        Ok(self.parts.values().any(|part| !part.batches.is_empty()))
    }

    fn describe(&mut self, fingerprint: &[u8; 32], content: &str) -> Result<()> {
        let known = self.contents.entry(*fingerprint);
        known.or_insert_with(|| content.to_owned());
        Ok(())
    }

    fn refuse(&mut self, device: &str, run: &RefusedRun) -> Result<()> {
        let known = self.refusals.entry((device.to_owned(), run.fingerprint));
        let nodes = (run.nodes as u64).min(MOST);
        known
            .or_insert_with(|| (nodes, String::new()))
            .1
            .clone_from(&run.words);
        Ok(())
    }

    fn refusals(&self, device: &str) -> Result<Vec<RefusedRun>> {
        let of = self.refusals.iter().filter(|((own, _), _)| own == device);
        let found = of.map(|((_, fingerprint), (nodes, words))| RefusedRun {
            fingerprint: *fingerprint,
            nodes: usize::try_from(*nodes).unwrap_or(0),
            words: words.clone(),
        });
        Ok(found.collect())
    }

    fn forget_refusals(&mut self, device: Option<&str>) -> Result<usize> {
        let before = self.refusals.len();
        self.refusals
            .retain(|(own, _), _| device.is_some_and(|device| own != device));
        Ok(before - self.refusals.len())
    }

    fn put_link(&mut self, link: &LinkRecord) -> Result<bool> {
        let mut link = LinkRecord {
            bytes: link.bytes.min(MOST),
            time_ns: link.time_ns.min(MOST),
            recorded_us: link.recorded_us.min(MOST),
            energy_nj: link.energy_nj.map(|energy| energy.min(MOST)),
            ..link.clone()
        };
        let key = (link.from.clone(), link.to.clone(), link.bytes);
        if let Some(known) = self.links.get(&key) {
            if !is_newer(&link, known) {
                return Ok(false);
            }
            if link.energy_nj.is_none() && link.source == known.source {
                link.energy_nj = known.energy_nj;
            }
        }
        self.links.insert(key, link);
        Ok(true)
    }

    fn links(&self, from: &str, to: &str) -> Result<Vec<(u64, LinkCost)>> {
        let of = self
            .links
            .values()
            .filter(|link| link.from == from && link.to == to);
        let costs = of.map(|link| {
            // the partitioner counts picoseconds in 64 bits
            let time = link.time_ns.min(u64::MAX / 1_000_000);
            let cost = LinkCost {
                time: Time::from_nanoseconds(time),
                energy: link.energy_nj.map(Energy::from_nanojoules),
            };
            (link.bytes, cost)
        });
        Ok(costs.collect())
    }

    fn plugin_value(&self, plugin: &str, key: &str) -> Result<Option<Vec<u8>>> {
        let key = (plugin.to_owned(), key.to_owned());
        Ok(self.plugin_values.get(&key).cloned())
    }

    fn set_plugin_value(&mut self, plugin: &str, key: &str, value: &[u8]) -> Result<()> {
        let key = (plugin.to_owned(), key.to_owned());
        match value {
            [] => self.plugin_values.remove(&key),
            value => self.plugin_values.insert(key, value.to_vec()),
        };
        Ok(())
    }

    fn read(&self) -> Result<ProfileFile> {
        let parts = self.parts.iter().map(|((device, fingerprint, point), part)| {
            let mut batches: Vec<&Batch> = part.batches.iter().collect();
            batches.sort_by(|a, b| (a.recorded_us, &a.digest).cmp(&(b.recorded_us, &b.digest)));
            batches.retain(|batch| !batch.measurements.is_empty());
            PartRecord {
                device: device.clone(),
                fingerprint: hex(fingerprint),
                operating_point: point.clone(),
                emulated: part.emulated,
                batches: batches.into_iter().map(Batch::record).collect(),
            }
        });
        let contents = self.contents.iter().map(|(fingerprint, content)| ContentRecord {
            fingerprint: hex(fingerprint),
            content: content.clone(),
        });
        let refusals = self
            .refusals
            .iter()
            .map(|((device, fingerprint), (nodes, words))| RefusalRecord {
                device: device.clone(),
                fingerprint: hex(fingerprint),
                nodes: *nodes,
                words: words.clone(),
            });
        let plugin_values = self
            .plugin_values
            .iter()
            .map(|((plugin, key), value)| ValueRecord {
                plugin: plugin.clone(),
                key: key.clone(),
                value: hex(value),
            });
        Ok(ProfileFile {
            format: FORMAT.to_owned(),
            version: VERSION,
            parts: parts.collect(),
            contents: contents.collect(),
            links: self.links.values().cloned().collect(),
            refusals: refusals.collect(),
            plugin_values: plugin_values.collect(),
        })
    }

    fn write(&mut self, records: &ProfileFile, source: &str) -> Result<Merged> {
        let bytes = |text: &str| unhex(text).unwrap_or_default();
        let whole = |text: &str| <[u8; 32]>::try_from(bytes(text)).ok();
        let origin = |known: &str| match known {
            "" => source.to_owned(),
            known => known.to_owned(),
        };
        let mut merged = Merged::default();
        for record in &records.parts {
            let Some(fingerprint) = whole(&record.fingerprint) else {
                continue;
            };
            let key = PartKey {
                device: &record.device,
                fingerprint: &fingerprint,
                operating_point: &record.operating_point,
            };
            for batch in &record.batches {
                let stated = Stated {
                    recorded_us: batch.recorded_us,
                    build: &batch.build,
                    conditions: &batch.conditions,
                    source: &origin(&batch.source),
                    digest: &bytes(&batch.digest),
                    sensor: &batch.sensor,
                    energy_interval_uj: batch.energy_interval_uj,
                };
                match self.add_batch(key, record.emulated, &stated, &rows::measurements_of(batch)) {
                    0 => merged.known += 1,
                    added => {
                        merged.batches += 1;
                        merged.measurements += added as u64;
                    }
                }
            }
            self.part(key, record.emulated).prune();
        }
        for content in &records.contents {
            if let Some(fingerprint) = whole(&content.fingerprint) {
                self.describe(&fingerprint, &content.content)?;
            }
        }
        for link in &records.links {
            let link = LinkRecord {
                source: origin(&link.source),
                ..link.clone()
            };
            merged.links += u64::from(self.put_link(&link)?);
        }
        for refusal in &records.refusals {
            let Some(fingerprint) = whole(&refusal.fingerprint) else {
                continue;
            };
            let before = self.refusals.len();
            let known = self.refusals.entry((refusal.device.clone(), fingerprint));
            known.or_insert_with(|| (refusal.nodes.min(MOST), refusal.words.clone()));
            merged.refusals += (self.refusals.len() - before) as u64;
        }
        for value in &records.plugin_values {
            let before = self.plugin_values.len();
            let known = self
                .plugin_values
                .entry((value.plugin.clone(), value.key.clone()));
            known.or_insert_with(|| bytes(&value.value));
            merged.plugin_values += (self.plugin_values.len() - before) as u64;
        }
        Ok(merged)
    }

    fn write_bundle(
        &mut self,
        bundle: &Bundle,
        check: Check<'_>,
    ) -> Result<std::result::Result<(), BundleError>> {
        let known = self.loaded_bundles()?;
        let is_known = known.iter().any(|loaded| rows::is_same(loaded, bundle));
        let digest = rows::digest_of(bundle);
        if let Err(error) = check(known, &digest) {
            return Ok(Err(error));
        }
        if is_known {
            return Ok(Ok(()));
        }
        let (records, of_family) = rows::of_bundle(bundle);
        for part in self.parts.values_mut() {
            part.batches.retain(|batch| !batch.source.starts_with(&of_family));
        }
        self.links.retain(|_, link| !link.source.starts_with(&of_family));
        self.write(&records, "")?;
        let manifest = &bundle.manifest;
        let loaded = (manifest.version.min(MOST), digest);
        self.bundles.insert(manifest.family.clone(), loaded);
        Ok(Ok(()))
    }

    fn loaded_bundles(&self) -> Result<Vec<Loaded>> {
        let loaded = self.bundles.iter().map(|(family, (version, digest))| Loaded {
            family: family.clone(),
            version: *version,
            digest: *digest,
        });
        Ok(loaded.collect())
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests;
