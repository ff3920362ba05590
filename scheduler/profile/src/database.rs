//! The profile database: measured costs of parts on devices, and each plugin's own tuning values.
//!
//! It also holds runs of nodes that devices refused to compile, and costs of transfers. It is one
//! file that an app may ship, or memory. Rows are keyed by device identity, part fingerprint and
//! operating point, and hold single measurements, so that statistics are never averages of
//! averages. Each measurement belongs to a batch with its time, build, conditions and source file.
//!
//! Invariants:
//! 1. Only measurements are stored here, no estimates. Figures of emulated devices are labelled.
//! 2. Per key and cadence, the eight newest combinations of governor, power mode and clock are
//!    kept, each with its 101 newest measurements; in addition, the 101 newest measurements with
//!    energy, of any combination.
//! 3. Rows that cannot be written are kept in memory, are read like all others, and are written as
//!    soon as the file is writable; until then [`Profile::trouble`] returns the reason.
//!
//! Not here: storage of rows (`rows`), predictions (`predict`), measuring (the scheduler).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_partitioner::Time;

use crate::bundle::{Bundle, BundleError, Loaded, Trust};
use crate::cadence::Cadence;
use crate::conditions::Conditions;
use crate::error::{Error, Failure, Result};
use crate::key::{Measurement, PartKey};
use crate::link::LinkCost;
use crate::list::{self, PartSummary};
use crate::memory::Memory;
use crate::near_matches::{self, NearMatch};
use crate::predict::{self, DevicePrediction, Regression};
use crate::record::{Merged, ProfileFile};
use crate::refusal::RefusedRun;
use crate::rows::{self, Batch, Rows};
use crate::statistics::{Interval, Measured, figures};

/// Statistics of the stored measurements of one part that fit given conditions best.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Number of measurements used.
    pub samples: u32,
    /// Number of their batches.
    pub batches: u32,
    /// Number of stored batches of the part.
    pub all_batches: u32,
    /// Conditions of these measurements; if a value differs among them, all its values are listed.
    pub conditions: String,
    /// Whether governor and power mode equalled the current ones, as far as these are known.
    pub agrees: bool,
    /// Their cadence; none if not recorded (such rows count as back to back).
    pub cadence: Option<Cadence>,
    /// Whether their cadence differs from the requested one; the interval is then wider.
    pub inherited: bool,
    /// Tenth percentile of the time.
    pub p10: Time,
    /// Median of the time.
    pub p50: Time,
    /// Ninetieth percentile of the time.
    pub p90: Time,
    /// 99th percentile of the time, rounded up to a measured one: the maximum of fewer than 100.
    pub p99: Time,
    /// 95 % confidence interval of the median; none for fewer than six measurements.
    pub interval: Option<Interval>,
    /// Median energy in microjoules, if measured.
    pub energy_uj: Option<u64>,
    /// When the newest measurement was recorded, in microseconds since 1970; 0 if unknown.
    pub newest_us: u64,
    /// Whether the figures are an emulated device's.
    pub emulated: bool,
}

impl Summary {
    /// The same with scaled times.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Summary {
        // `as` saturates; the partitioner counts picoseconds in 64 bits
        let ns = |ns: u64| ((ns as f64 * factor).round() as u64).min(u64::MAX / 1_000_000);
        let time = |time: Time| Time::from_nanoseconds(ns(time.nanoseconds()));
        Summary {
            p10: time(self.p10),
            p50: time(self.p50),
            p90: time(self.p90),
            p99: time(self.p99),
            interval: self.interval.map(|interval| Interval {
                low_ns: ns(interval.low_ns),
                high_ns: ns(interval.high_ns),
            }),
            ..self
        }
    }
}

/// An open profile database. Threads share it; one process writes at a time.
#[derive(Debug)]
pub struct Profile {
    path: Option<PathBuf>,
    state: Mutex<State>,
    /// What was fitted on the rows of each device.
    regression: Mutex<BTreeMap<String, Fitted>>,
    writes: AtomicU64,
}

/// The regression models of a device.
#[derive(Debug)]
struct Fitted {
    /// Number of writes that they have seen.
    writes: u64,
    /// Conditions by which rows were chosen.
    conditions: String,
    regression: Arc<Regression>,
}

#[derive(Debug)]
struct State {
    store: RowStore,
    /// Rows that could not be written to the file.
    spare: Option<Memory>,
    /// The reason for it, or for a failed read.
    trouble: Option<String>,
}

/// The storage of the rows.
#[derive(Debug)]
enum RowStore {
    Memory(Memory),
    #[cfg(feature = "sqlite")]
    File(crate::sqlite::File),
}

impl RowStore {
    #[cfg(all(test, feature = "sqlite"))]
    fn connection(&self) -> &rusqlite::Connection {
        match self {
            RowStore::File(file) => file.connection(),
            RowStore::Memory(_) => panic!("it is in memory"),
        }
    }

    fn rows(&self) -> &dyn Rows {
        match self {
            RowStore::Memory(rows) => rows,
            #[cfg(feature = "sqlite")]
            RowStore::File(rows) => rows,
        }
    }

    fn rows_mut(&mut self) -> &mut dyn Rows {
        match self {
            RowStore::Memory(rows) => rows,
            #[cfg(feature = "sqlite")]
            RowStore::File(rows) => rows,
        }
    }
}

impl Profile {
    /// Opens the file, or creates it. A read-only file is opened for reading, and new measurements
    /// then stay in memory.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the file is not a profile database, is corrupt, or has a
    /// version that this build does not read, or if this build has no feature `sqlite`. The file is
    /// then unchanged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        #[cfg(feature = "sqlite")]
        {
            let file = crate::sqlite::File::open(path)?;
            Ok(Self::of(Some(path.to_owned()), RowStore::File(file)))
        }
        #[cfg(not(feature = "sqlite"))]
        Err(Error::no_files(path))
    }

    /// Opens a file without ever writing to it: new measurements stay in memory, and are lost with
    /// this object.
    ///
    /// # Errors
    /// As for [`Profile::open`]; also if the file has an older version, which only a writer can
    /// migrate.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        #[cfg(feature = "sqlite")]
        {
            let file = crate::sqlite::File::open_read_only(path)?;
            Ok(Self::of(Some(path.to_owned()), RowStore::File(file)))
        }
        #[cfg(not(feature = "sqlite"))]
        Err(Error::no_files(path))
    }

    /// Writes all rows as they are now into a new file, also while other processes have this one open. A copy of the
    /// file alone would lack what is still in the write-ahead log beside it.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if this file cannot be read, `path` exists or cannot be written, or this
    /// profile is only in memory.
    pub fn copy_to(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut state = self.lock();
        state.flush().map_err(|error| self.refused(error))?;
        match &state.store {
            #[cfg(feature = "sqlite")]
            RowStore::File(file) => {
                if path.exists() {
                    return Err(Error::bad(format!("{} exists", path.display())));
                }
                file.copy_to(path)
            }
            RowStore::Memory(_) => Err(Error::bad(format!(
                "{}: the profile is only in memory",
                path.display()
            ))),
        }
    }

    /// A database that lives as long as this object.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::of(None, RowStore::Memory(Memory::default()))
    }

    fn of(path: Option<PathBuf>, store: RowStore) -> Self {
        Self {
            path,
            state: Mutex::new(State {
                store,
                spare: None,
                trouble: None,
            }),
            regression: Mutex::new(BTreeMap::new()),
            writes: AtomicU64::new(0),
        }
    }

    /// The file, or `None` for a database in memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The latest reason why rows are kept in memory only or could not be read.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// Records a reason why the file is unusable.
    pub fn note(&self, words: impl ToString) {
        let words = words.to_string();
        tracing::warn!("{words}");
        self.lock().trouble = Some(words);
    }

    /// The result of a read, or the default if it failed: a run continues without stored figures.
    pub fn or_nothing<T: Default>(&self, read: Result<T>) -> T {
        read.unwrap_or_else(|error| {
            self.note(error);
            T::default()
        })
    }

    /// Adds measurements of one part, all or none, with unknown conditions.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if neither the file nor memory accepts them; stored rows
    /// stay.
    pub fn record(&self, key: PartKey<'_>, emulated: bool, measurements: &[Measurement]) -> Result<()> {
        self.record_under(key, emulated, measurements, &Conditions::default())
    }

    /// Adds measurements of one part, all or none, with their conditions. Energies are those that
    /// the device's plugin reports for its runs.
    ///
    /// # Errors
    /// As for [`Profile::record`].
    pub fn record_under(
        &self,
        key: PartKey<'_>,
        emulated: bool,
        measurements: &[Measurement],
        conditions: &Conditions,
    ) -> Result<()> {
        let has_energy = measurements.iter().any(|one| one.energy_uj.is_some());
        let sensor = if has_energy { "plugin" } else { "" };
        let batch = Batch::new(key, measurements, conditions).of_sensor(sensor, None);
        self.add(key, emulated, measurements, &batch)
    }

    /// Adds the energy of a run as a sensor measured it over many runs, with its interval in
    /// microjoules.
    pub fn record_energy(
        &self,
        key: PartKey<'_>,
        emulated: bool,
        measurement: Measurement,
        sensor: &str,
        interval_uj: [u64; 2],
    ) -> Result<()> {
        let measurements = [measurement];
        let batch =
            Batch::new(key, &measurements, &Conditions::default()).of_sensor(sensor, Some(interval_uj));
        self.add(key, emulated, &measurements, &batch)
    }

    fn add(
        &self,
        key: PartKey<'_>,
        emulated: bool,
        measurements: &[Measurement],
        batch: &Batch,
    ) -> Result<()> {
        self.write(|rows| rows.add(key, emulated, &batch.stated(), measurements))
    }

    /// Statistics of one part under unknown current conditions: at the highest measured clock.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the file cannot be read.
    pub fn part(&self, key: PartKey<'_>) -> Result<Option<Summary>> {
        self.part_under(key, &Conditions::default())
    }

    /// Statistics of the part's batches that fit given conditions best. Batches are selected by
    /// cadence, governor, power mode, clock (within a tenth of the measured clock nearest to the
    /// current one, or of the highest if that is unknown), steadiness, then temperature and other
    /// load. A field that would exclude all batches or none is skipped.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the file cannot be read.
    pub fn part_under(&self, key: PartKey<'_>, now: &Conditions) -> Result<Option<Summary>> {
        let found = self.read_all(|rows| Ok(vec![rows.batches(key)?]))?;
        let emulated = found.iter().any(|(_, emulated)| *emulated);
        let batches: Vec<Measured> = found.into_iter().flat_map(|(batches, _)| batches).collect();
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        // the partitioner counts picoseconds in 64 bits
        let time = |ns: u64| Time::from_nanoseconds(ns.min(u64::MAX / 1_000_000));
        Ok(figures(now, &batches).map(|figures| Summary {
            samples: count(figures.samples),
            batches: count(figures.batches),
            all_batches: count(batches.len()),
            conditions: figures.conditions,
            agrees: figures.agrees,
            cadence: figures.cadence,
            inherited: figures.inherited,
            p10: time(figures.p10_ns),
            p50: time(figures.p50_ns),
            p90: time(figures.p90_ns),
            p99: time(figures.p99_ns),
            interval: figures.interval,
            energy_uj: figures.energy.map(|energy| energy.energy_uj),
            newest_us: figures.newest_us,
            emulated,
        }))
    }

    /// Measurements of a part on the device of this name at other settings, by other builds or on
    /// other chips, nearest first: those with the fewest differences.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the file cannot be read.
    pub fn elsewhere(&self, key: PartKey<'_>) -> Result<Vec<NearMatch>> {
        let rows: Vec<(String, String)> = self.read_all(|rows| rows.devices_of(key.fingerprint))?;
        let mut found = Vec::new();
        for (device, operating_point) in &rows {
            let Some(differences) = near_matches::differences(device, operating_point, key) else {
                continue;
            };
            let row = PartKey {
                device,
                operating_point,
                ..key
            };
            if predict::is_end_to_end(operating_point) {
                continue;
            }
            if let Some(summary) = self.part(row)? {
                found.push(NearMatch {
                    differences,
                    p50: summary.p50,
                    samples: summary.samples,
                });
            }
        }
        found.sort_by_key(|one| (one.differences.len(), one.p50));
        found.dedup();
        Ok(found)
    }

    /// A bundle's measurements of a part on the device of this name on the nearest other chip: the
    /// one with the fewest differences. The app's settings are equal; figures of emulated devices
    /// are used only for emulated devices.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the file cannot be read.
    pub fn other_device(&self, key: PartKey<'_>, emulated: bool) -> Result<Option<NearMatch>> {
        let rows: Vec<String> =
            self.read_all(|rows| rows.devices_of_bundles(key.fingerprint, key.operating_point, emulated))?;
        let mut found = Vec::new();
        for device in &rows {
            let differences = near_matches::differences(device, key.operating_point, key);
            let Some(differences) = differences.filter(|found| near_matches::is_other_chip(found)) else {
                continue;
            };
            if let Some(summary) = self.part(PartKey { device, ..key })? {
                found.push(NearMatch {
                    differences,
                    p50: summary.p50,
                    samples: summary.samples,
                });
            }
        }
        found.sort_by_key(|one| (one.differences.len(), one.p50));
        Ok(found.into_iter().next())
    }

    /// Whether there are no measurements.
    pub fn has_no_parts(&self) -> Result<bool> {
        let any = self.read_all(|rows| Ok(vec![rows.has_batches()?]))?;
        Ok(!any.contains(&true))
    }

    /// Stores the content of a part, from which other parts are predicted; an existing content
    /// stays.
    pub fn describe(&self, fingerprint: &[u8; 32], content: &str) -> Result<()> {
        self.write(|rows| rows.describe(fingerprint, content))
    }

    /// Stores that a device refuses a run of nodes.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the file cannot be written.
    pub fn refuse(&self, device: &str, run: &RefusedRun) -> Result<()> {
        self.write(|rows| rows.refuse(device, run))
    }

    /// Runs of nodes that the device of this identity refused.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be read.
    pub fn refusals(&self, device: &str) -> Result<Vec<RefusedRun>> {
        let mut found = self.read_all(|rows| rows.refusals(device))?;
        found.sort_by_key(|run: &RefusedRun| run.fingerprint);
        found.dedup_by_key(|run| run.fingerprint);
        Ok(found)
    }

    /// Deletes the refusals of a device, or of all devices, and returns their number. The next
    /// session asks the device again.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the file cannot be written.
    pub fn forget_refusals(&self, device: Option<&str>) -> Result<usize> {
        let mut state = self.lock();
        let mut forgotten = 0;
        for rows in state.all_mut() {
            forgotten += rows
                .forget_refusals(device)
                .map_err(|error| self.refused(error))?;
        }
        Ok(forgotten)
    }

    /// Stores the cost of transferring a tensor of this size between two devices, and replaces an
    /// earlier one; a measured energy stays if this cost has none. If both devices are equal, the
    /// cost is that of a launch: time beyond the device time.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the file cannot be written.
    pub fn record_link(&self, from: &str, to: &str, bytes: u64, cost: LinkCost) -> Result<()> {
        let record = rows::measured_link(from, to, bytes, cost);
        self.write(|rows| rows.put_link(&record).map(|_| ()))
    }

    /// Stored transfer costs between two devices: bytes and costs, smallest first.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the file cannot be read.
    pub fn link(&self, from: &str, to: &str) -> Result<Vec<(u64, LinkCost)>> {
        let mut found = self.read_all(|rows| rows.links(from, to))?;
        // what is kept in memory comes first, and is newer
        found.sort_by_key(|(bytes, _)| *bytes);
        found.dedup_by_key(|(bytes, _)| *bytes);
        Ok(found)
    }

    /// Reads a value of a plugin's own store.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be read.
    pub fn plugin_value(&self, plugin: &str, key: &str) -> Result<Option<Vec<u8>>> {
        let found = self.read_all(|rows| Ok(rows.plugin_value(plugin, key)?.into_iter().collect()))?;
        Ok(found.into_iter().next())
    }

    /// Writes a value of a plugin's own store; an empty value removes the key.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be written.
    pub fn set_plugin_value(&self, plugin: &str, key: &str, value: &[u8]) -> Result<()> {
        self.write(|rows| rows.set_plugin_value(plugin, key, value))
    }

    /// All rows, for a JSON file.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the file cannot be read.
    pub fn export(&self) -> Result<ProfileFile> {
        let state = self.lock();
        let mut all = state.store.rows().read().map_err(|error| self.refused(error))?;
        if let Some(spare) = &state.spare {
            let more = spare.read().map_err(|error| self.refused(error))?;
            drop(state);
            // both together, by the rules of merging
            let both = Profile::in_memory();
            both.import(&all, "")?;
            both.import(&more, "")?;
            all = both.export()?;
        }
        Ok(all)
    }

    /// Adds the rows of another database, all or none. Existing batches, refusals and plugin values
    /// stay; of two links the newer wins. `source` names the file of origin.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the records contradict themselves, or the file cannot be
    /// written.
    pub fn import(&self, records: &ProfileFile, source: &str) -> Result<Merged> {
        records.check()?;
        self.writes.fetch_add(1, Ordering::Release);
        let mut state = self.lock();
        let merged = state.store.rows_mut().write(records, source);
        drop(state);
        merged.map_err(|error| self.refused(error))
    }

    /// Loads a bundle: checks it against the trusted keys and earlier versions, and replaces the
    /// rows of the family's earlier bundle, all or none. Earlier refusals of runs of nodes stay.
    ///
    /// # Errors
    /// The bundle is refused, or cannot be stored; nothing of it is used then.
    pub fn load_bundle(&self, bytes: &[u8], trust: &Trust) -> std::result::Result<Bundle, BundleError> {
        let known = self.loaded_bundles().map_err(BundleError::io)?;
        let knowing = |known: Vec<Loaded>| known.into_iter().fold(trust.clone(), Trust::loaded);
        let bundle = Bundle::open(bytes, &knowing(known))?;
        self.writes.fetch_add(1, Ordering::Release);
        let mut state = self.lock();
        // another process may have loaded one since
        let written = state
            .store
            .rows_mut()
            .write_bundle(&bundle, &mut |known, digest| {
                knowing(known).check_manifest(&bundle.manifest, digest)
            });
        drop(state);
        written.map_err(|error| BundleError::io(self.refused(error)))??;
        Ok(bundle)
    }

    /// The newest loaded bundle of each family.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the file cannot be read.
    pub fn loaded_bundles(&self) -> Result<Vec<Loaded>> {
        let state = self.lock();
        let loaded = state.store.rows().loaded_bundles();
        loaded.map_err(|error| self.refused(error))
    }

    /// The regression models fitted to those rows of a device that fit the lasting conditions best
    /// ([`Conditions::lasting`]). Rows written by other processes are seen at this process's next
    /// write.
    pub fn regression(&self, device: &str, now: &Conditions) -> Result<Arc<Regression>> {
        let writes = self.writes.load(Ordering::Acquire);
        let now = now.lasting();
        let conditions = now.to_string();
        let mut regression = self.regression.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = regression.get(device)
            && (known.writes, &known.conditions) == (writes, &conditions)
        {
            return Ok(Arc::clone(&known.regression));
        }
        let mut file = self.export()?;
        let narrowed = file.narrow(device, &now);
        let made = Arc::new(Regression::new(&file).inheriting(narrowed));
        let fitted = Fitted {
            writes,
            conditions,
            regression: Arc::clone(&made),
        };
        regression.insert(device.to_owned(), fitted);
        Ok(made)
    }

    /// Statistics of each part by device, operating point and time, longest first.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the file cannot be read.
    pub fn parts(&self) -> Result<Vec<PartSummary>> {
        Ok(list::parts(&self.export()?))
    }

    /// Predicts every whole model measured back to back from the other such measurements, on every
    /// device.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] if the file cannot be read.
    pub fn predictions(&self) -> Result<Vec<DevicePrediction>> {
        let mut file = self.export()?;
        file.keep_back_to_back();
        Ok(predict::check(&file))
    }

    /// Writes to the file, and where that cannot be, to memory.
    fn write(&self, write: impl Fn(&mut dyn Rows) -> rows::Result<()>) -> Result<()> {
        self.writes.fetch_add(1, Ordering::Release);
        let mut state = self.lock();
        let flushed = state.flush();
        if let Err(error) = flushed.and_then(|()| write(state.store.rows_mut())) {
            let words = self.refused(error);
            tracing::warn!("kept in memory: {words}");
            state.trouble = Some(words.to_string());
            write(state.spare.get_or_insert_default()).map_err(|error| self.refused(error))?;
        }
        Ok(())
    }

    /// What memory holds, then what the file does.
    fn read_all<T>(&self, read: impl Fn(&dyn Rows) -> rows::Result<Vec<T>>) -> Result<Vec<T>> {
        let state = self.lock();
        let mut all = Vec::new();
        let spare = state.spare.as_ref().map(|spare| spare as &dyn Rows);
        for rows in spare.into_iter().chain([state.store.rows()]) {
            all.extend(read(rows).map_err(|error| self.refused(error))?);
        }
        Ok(all)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while holding the lock leaves no transaction open: SQLite rolls it back on drop.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self, error: Failure) -> Error {
        Error::database(self.path.as_deref().unwrap_or(Path::new("(memory)")), error)
    }
}

impl State {
    /// What memory holds, then what the file does.
    fn all_mut(&mut self) -> impl Iterator<Item = &mut dyn Rows> {
        let spare = self.spare.as_mut().map(|spare| spare as &mut dyn Rows);
        spare.into_iter().chain([self.store.rows_mut()])
    }

    /// Retries to write the records in memory to the file.
    fn flush(&mut self) -> rows::Result<()> {
        if let Some(spare) = &self.spare {
            let records = spare.read()?;
            self.store.rows_mut().write(&records, "")?;
            self.spare = None;
            self.trouble = None;
        }
        Ok(())
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = state.flush() {
            tracing::warn!("measured times are lost: {error}");
        }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests;
