//! The profile database: what parts really cost on devices, and each plugin's own tuning values.
//!
//! Also which runs of nodes devices refused to compile, and what transfers take. One SQLite file that an app may ship.
//! Rows are keyed by device identity, part fingerprint and operating point, and hold single measurements, so that
//! statistics are never averages of averages. Each belongs to a batch, which says when, by which build, under which
//! conditions and in which file it was measured.
//!
//! Invariants:
//! 1. A file that is not ours, is torn, or has another version is refused and left as it is.
//! 2. Only measurements are stored here; estimates are not. Figures of emulated devices carry the mark.
//! 3. At most 101 newest measurements are kept per key, governor, power mode and clock, of the eight newest such settings;
//!    and as many of those with energy, of any setting.
//! 4. A file of an older version is brought to this one when it is opened; nothing in it is lost.
//! 5. What cannot be written is kept in memory, is read like the rest, and is written as soon as the file can be;
//!    until then [`Profile::trouble`] says why.
//!
//! Not here: what rows predict (`predict`), measuring (the scheduler).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_partitioner::Nanos;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use crate::bundle::{Bundle, BundleError, Loaded, Trust};
use crate::conditions::Conditions;
use crate::elsewhere::{self, Elsewhere};
use crate::error::{Error, Result};
use crate::exchange;
use crate::key::{Measurement, PartKey};
use crate::link::LinkCost;
use crate::list::{self, PartSummary};
use crate::predict::{self, DevicePrediction, Regression};
use crate::record::{Merged, ProfileFile};
use crate::refusal::RefusedRun;
use crate::statistics::{Interval, Measured, figures};
use crate::store::{self, Batch};
use crate::tables;

/// How long a writer waits for writers of other processes.
const TURN: Duration = Duration::from_secs(10);

/// What the stored measurements of one part say that are nearest to some conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Number of those measurements.
    pub samples: u32,
    /// Number of batches that they are of.
    pub batches: u32,
    /// Number of batches that are stored of the part.
    pub all_batches: u32,
    /// Conditions under which they were measured; values that differ are listed.
    pub conditions: String,
    /// Whether governor and power mode were those that hold, as far as these are known.
    pub agrees: bool,
    /// Tenth percentile of the time.
    pub p10: Nanos,
    /// Median of the time.
    pub p50: Nanos,
    /// Ninetieth percentile of the time.
    pub p90: Nanos,
    /// Ninety-ninth percentile of the time, rounded up to a measured one: the longest of fewer than a hundred.
    pub p99: Nanos,
    /// Where the true median is, with a confidence of 95 %; none for fewer than six measurements.
    pub interval: Option<Interval>,
    /// Median energy in microjoules, where measured.
    pub energy_uj: Option<u64>,
    /// When the newest measurement was recorded, in microseconds since 1970; 0 where that is not known.
    pub newest_us: u64,
    /// The figures are an emulated device's.
    pub emulated: bool,
}

/// An open profile database. Threads share it; writers of several processes take turns.
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
    file: Connection,
    /// What could not be written to the file.
    spare: Option<Connection>,
    /// Why not, or why something could not be read.
    trouble: Option<String>,
}

impl Profile {
    /// Opens the file, or makes it where there is none. A file that may only be read is opened for reading; what is
    /// recorded then stays in memory.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file is not a profile database, is corrupt, or has a
    /// version that this build does not read. The file is not changed then.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let is_new = match std::fs::metadata(path) {
            Ok(metadata) => metadata.len() == 0,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => return Err(Error::file(path, error)),
        };
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if is_new {
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        }
        let refuse = |error| Error::database(path, error);
        let mut connection = Connection::open_with_flags(path, flags).map_err(refuse)?;
        connection.busy_timeout(TURN).map_err(refuse)?;
        if connection.is_readonly("main").map_err(refuse)? {
            drop(connection);
            return Self::open_read_only(path);
        }
        if !is_new {
            tables::check_ours(path, &connection)?;
        }
        // Write-ahead logging lets readers go on while a writer commits, and survives a crash.
        connection
            .pragma_update(None, "journal_mode", "WAL")
            .map_err(refuse)?;
        connection
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(refuse)?;
        tables::create(&mut connection).map_err(refuse)?;
        tables::check_ours(path, &connection)?;
        Self::ready(Some(path.to_owned()), connection).map_err(refuse)
    }

    /// Opens a file without ever writing to it: what is recorded stays in memory, and is gone with this object.
    ///
    /// # Errors
    /// As [`Profile::open`]; also where the file has an older version, which only a writer can bring up.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let refuse = |error| Error::database(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(refuse)?;
        connection.busy_timeout(TURN).map_err(refuse)?;
        let connection = match connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
            Ok(()) => connection,
            // the log's index cannot be made beside the file either: read the file alone
            Err(_) => {
                let uri = format!("file:{}?immutable=1", escaped(path));
                Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI).map_err(refuse)?
            }
        };
        tables::check_ours(path, &connection)?;
        let version: i32 = connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(refuse)?;
        if version < tables::VERSION {
            let words = format!(
                "profile database {} has version {version} and may only be read; open it once where it can be written",
                path.display()
            );
            return Err(Error::bad(words));
        }
        Self::ready(Some(path.to_owned()), connection).map_err(refuse)
    }

    /// A database that lives as long as this object.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where SQLite has no memory.
    pub fn in_memory() -> Result<Self> {
        let refuse = |error| Error::database(Path::new("(memory)"), error);
        let connection = memory().map_err(refuse)?;
        Self::ready(None, connection).map_err(refuse)
    }

    fn ready(path: Option<PathBuf>, connection: Connection) -> rusqlite::Result<Self> {
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(Self {
            path,
            state: Mutex::new(State {
                file: connection,
                spare: None,
                trouble: None,
            }),
            regression: Mutex::new(BTreeMap::new()),
            writes: AtomicU64::new(0),
        })
    }

    /// The file, or `None` for a database in memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Why something is kept in memory only, or could not be read: the newest reason.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// Remembers a reason why the file is of no use.
    pub fn note(&self, words: impl ToString) {
        let words = words.to_string();
        tracing::warn!("{words}");
        self.lock().trouble = Some(words);
    }

    /// What was read, or nothing where it could not be: a run does without what is known rather than not at all.
    pub fn or_nothing<T: Default>(&self, read: Result<T>) -> T {
        read.unwrap_or_else(|error| {
            self.note(error);
            T::default()
        })
    }

    /// Adds measurements of one part, all or none; under which conditions they were made is not known.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where neither the file nor memory takes them; what was stored before stays.
    pub fn record(&self, key: PartKey<'_>, emulated: bool, measurements: &[Measurement]) -> Result<()> {
        self.record_under(key, emulated, measurements, &Conditions::default())
    }

    /// Adds measurements of one part, all or none, that were made under these conditions. Energies are those that the
    /// device's plugin states of its runs.
    ///
    /// # Errors
    /// As [`Profile::record`].
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

    /// Adds the energy of a run that a sensor measured over many of them, with the ends of its interval in microjoules.
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
        self.write(|connection| {
            let part = store::part(connection, key, emulated)?;
            store::add(connection, part, &batch.stated(), measurements)?;
            store::prune(connection, part)
        })
    }

    /// What is known of one part where nothing is known of the present conditions: at the highest clock that it was
    /// measured at.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be read.
    pub fn part(&self, key: PartKey<'_>) -> Result<Option<Summary>> {
        self.part_under(key, &Conditions::default())
    }

    /// What those of a part's batches say that are nearest to some conditions: of the same governor, then of the same
    /// power mode, then within a tenth of the nearest clock (of the highest, where the present one is not known), then
    /// steady ones, then of the nearest temperatures and other load. A field by which none or all would be left out
    /// decides nothing.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be read.
    pub fn part_under(&self, key: PartKey<'_>, now: &Conditions) -> Result<Option<Summary>> {
        let found = self.read_all(|connection| Ok(vec![store::batches(connection, key)?]))?;
        let emulated = found.iter().any(|(_, emulated)| *emulated);
        let batches: Vec<Measured> = found.into_iter().flat_map(|(batches, _)| batches).collect();
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        // the partitioner counts picoseconds in 64 bits
        let time = |ns: u64| Nanos::from_nanoseconds(ns.min(u64::MAX / 1_000_000));
        Ok(figures(now, &batches).map(|figures| Summary {
            samples: count(figures.samples),
            batches: count(figures.batches),
            all_batches: count(batches.len()),
            conditions: figures.conditions,
            agrees: figures.agrees,
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

    /// What is known of a part on the device of this name at other settings, by other builds or on other chips: the
    /// nearest first, which are those that differ in the least.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be read.
    pub fn elsewhere(&self, key: PartKey<'_>) -> Result<Vec<Elsewhere>> {
        let rows: Vec<(String, String)> = self.read_all(|connection| {
            let mut statement = connection
                .prepare_cached("SELECT device, operating_point FROM part WHERE fingerprint = ?1")?;
            let rows = statement.query_map(params![key.fingerprint.as_slice()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            rows.collect()
        })?;
        let mut found = Vec::new();
        for (device, operating_point) in &rows {
            let Some(differences) = elsewhere::differences(device, operating_point, key) else {
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
                found.push(Elsewhere {
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

    /// What a bundle says of a part on the device of this name on the nearest other chip: the one that differs in the
    /// least. Settings of the app are the same; figures of emulated devices are for emulated devices.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be read.
    pub fn other_device(&self, key: PartKey<'_>, emulated: bool) -> Result<Option<Elsewhere>> {
        let rows: Vec<String> = self.read_all(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT device FROM part WHERE fingerprint = ?1 AND operating_point = ?2 AND emulated = ?3
                 AND EXISTS (SELECT 1 FROM batch WHERE batch.part = part.id AND substr(source, 1, 8) = 'bundle \"')
                 ORDER BY device",
            )?;
            let asked = params![key.fingerprint.as_slice(), key.operating_point, emulated];
            let rows = statement.query_map(asked, |row| row.get(0))?;
            rows.collect()
        })?;
        let mut found = Vec::new();
        for device in &rows {
            let differences = elsewhere::differences(device, key.operating_point, key);
            let Some(differences) = differences.filter(|found| elsewhere::is_other_chip(found)) else {
                continue;
            };
            if let Some(summary) = self.part(PartKey { device, ..key })? {
                found.push(Elsewhere {
                    differences,
                    p50: summary.p50,
                    samples: summary.samples,
                });
            }
        }
        found.sort_by_key(|one| (one.differences.len(), one.p50));
        Ok(found.into_iter().next())
    }

    /// Whether nothing was measured.
    pub fn has_no_parts(&self) -> Result<bool> {
        let any = self.read_all(|connection| {
            let mut statement = connection.prepare_cached("SELECT 1 FROM batch LIMIT 1")?;
            statement.query_map([], |_| Ok(()))?.collect()
        })?;
        Ok(any.is_empty())
    }

    /// Says what a part consists of, for predictions of other parts; what was said before stays.
    pub fn describe(&self, fingerprint: &[u8; 32], content: &str) -> Result<()> {
        self.write(|connection| {
            connection
                .execute(
                    "INSERT OR IGNORE INTO content (fingerprint, pieces) VALUES (?1, ?2)",
                    params![fingerprint.as_slice(), content],
                )
                .map(|_| ())
        })
    }

    /// Remembers that a device refuses a run of nodes.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be written.
    pub fn refuse(&self, device: &str, run: &RefusedRun) -> Result<()> {
        let nodes = i64::try_from(run.nodes).unwrap_or(i64::MAX);
        self.write(|connection| {
            connection
                .execute(
                    "INSERT INTO refusal (device, fingerprint, nodes, words) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (device, fingerprint) DO UPDATE SET words = excluded.words",
                    params![device, run.fingerprint.as_slice(), nodes, run.words],
                )
                .map(|_| ())
        })
    }

    /// Runs of nodes that the device of this identity refused.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be read.
    pub fn refusals(&self, device: &str) -> Result<Vec<RefusedRun>> {
        let mut found = self.read_all(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT fingerprint, nodes, words FROM refusal WHERE device = ?1 ORDER BY fingerprint",
            )?;
            let rows = statement.query_map(params![device], |row| {
                Ok(RefusedRun {
                    fingerprint: row.get(0)?,
                    nodes: usize::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
                    words: row.get(2)?,
                })
            })?;
            rows.collect()
        })?;
        found.sort_by_key(|run: &RefusedRun| run.fingerprint);
        found.dedup_by_key(|run| run.fingerprint);
        Ok(found)
    }

    /// Forgets what a device of this identity refused, or any device; the number of runs forgotten.
    /// The next session asks the device anew.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be written.
    pub fn forget_refusals(&self, device: Option<&str>) -> Result<usize> {
        let state = self.lock();
        let mut forgotten = 0;
        for connection in state.spare.iter().chain([&state.file]) {
            forgotten += connection
                .execute(
                    "DELETE FROM refusal WHERE ?1 IS NULL OR device = ?1",
                    params![device],
                )
                .map_err(|error| self.refused(error))?;
        }
        Ok(forgotten)
    }

    /// Stores what handing a tensor of so many bytes from one device to another took, in the place of what
    /// was known of it; an energy that was measured before stays where this has none. The same device twice: what starting a
    /// run takes beside its time on the device.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be written.
    pub fn record_link(&self, from: &str, to: &str, bytes: u64, cost: LinkCost) -> Result<()> {
        let record = store::measured_link(from, to, bytes, cost);
        self.write(|connection| store::put_link(connection, &record).map(|_| ()))
    }

    /// What is known of handing tensors from one device to another: bytes and costs, smallest first.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be read.
    pub fn link(&self, from: &str, to: &str) -> Result<Vec<(u64, LinkCost)>> {
        let mut found = self.read_all(|connection| store::link(connection, from, to))?;
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
        let found = self.read_all(|connection| {
            let value = connection
                .query_row(
                    "SELECT value FROM plugin_value WHERE plugin = ?1 AND key = ?2",
                    params![plugin, key],
                    |row| row.get(0),
                )
                .optional()?;
            Ok(value.into_iter().collect())
        })?;
        Ok(found.into_iter().next())
    }

    /// Writes a value of a plugin's own store; an empty value removes the key.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be written.
    pub fn set_plugin_value(&self, plugin: &str, key: &str, value: &[u8]) -> Result<()> {
        self.write(|connection| {
            if value.is_empty() {
                connection.execute(
                    "DELETE FROM plugin_value WHERE plugin = ?1 AND key = ?2",
                    params![plugin, key],
                )
            } else {
                connection.execute(
                    "INSERT INTO plugin_value (plugin, key, value) VALUES (?1, ?2, ?3)
                     ON CONFLICT (plugin, key) DO UPDATE SET value = excluded.value",
                    params![plugin, key, value],
                )
            }
            .map(|_| ())
        })
    }

    /// Everything that is stored, as it goes into a JSON file.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be read.
    pub fn export(&self) -> Result<ProfileFile> {
        let state = self.lock();
        let mut all = exchange::read(&state.file).map_err(|error| self.refused(error))?;
        if let Some(spare) = &state.spare {
            let more = exchange::read(spare).map_err(|error| self.refused(error))?;
            drop(state);
            // both together, by the rules of merging
            let both = Profile::in_memory()?;
            both.import(&all, "")?;
            both.import(&more, "")?;
            all = both.export()?;
        }
        Ok(all)
    }

    /// Adds what another database holds, all or nothing. Batches that are here already are left out, of links and
    /// refusals the newer stay, values of plugins that are here stay. `source` names the file that it comes from.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the records contradict themselves, or the file cannot be written.
    pub fn import(&self, records: &ProfileFile, source: &str) -> Result<Merged> {
        records.check()?;
        self.writes.fetch_add(1, Ordering::Release);
        let mut state = self.lock();
        let merged = exchange::write(&mut state.file, records, source);
        drop(state);
        merged.map_err(|error| self.refused(error))
    }

    /// Loads a bundle: checks it against whom the app trusts and what was loaded before, and puts what it holds in the
    /// place of what an earlier one of the family said; all or nothing. Runs of nodes that an earlier one called refused
    /// stay so.
    ///
    /// # Errors
    /// The bundle is refused, by name, or cannot be kept; nothing of it is used then.
    pub fn load_bundle(&self, bytes: &[u8], trust: &Trust) -> std::result::Result<Bundle, BundleError> {
        let known = self.loaded_bundles().map_err(BundleError::io)?;
        let knowing = |known: Vec<Loaded>| known.into_iter().fold(trust.clone(), Trust::loaded);
        let bundle = Bundle::open(bytes, &knowing(known))?;
        self.writes.fetch_add(1, Ordering::Release);
        let mut state = self.lock();
        // another process may have loaded one since
        let written = exchange::write_bundle(&mut state.file, &bundle, |known, digest| {
            knowing(known).check_manifest(&bundle.manifest, digest)
        });
        drop(state);
        written.map_err(|error| BundleError::io(self.refused(error)))??;
        Ok(bundle)
    }

    /// The newest bundle of each family that was loaded.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be read.
    pub fn loaded_bundles(&self) -> Result<Vec<Loaded>> {
        let state = self.lock();
        exchange::loaded_bundles(&state.file).map_err(|error| self.refused(error))
    }

    /// What is fitted on those rows of a device that are nearest to what lasts of some conditions; what other processes
    /// write is seen when this one writes next.
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
        file.narrow(device, &now);
        let made = Arc::new(Regression::new(&file));
        let fitted = Fitted {
            writes,
            conditions,
            regression: Arc::clone(&made),
        };
        regression.insert(device.to_owned(), fitted);
        Ok(made)
    }

    /// What is known of each part, by device, operating point and time, the longest first.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be read.
    pub fn parts(&self) -> Result<Vec<PartSummary>> {
        Ok(list::parts(&self.export()?))
    }

    /// Predicts every whole model that was measured from what was measured of the other ones, on every device.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadProfile`] where the file cannot be read.
    pub fn predictions(&self) -> Result<Vec<DevicePrediction>> {
        Ok(predict::check(&self.export()?))
    }

    /// Writes to the file, and where that cannot be, to memory.
    fn write(&self, write: impl Fn(&Connection) -> rusqlite::Result<()>) -> Result<()> {
        self.writes.fetch_add(1, Ordering::Release);
        let mut state = self.lock();
        let flushed = state.flush();
        if let Err(error) = flushed.and_then(|()| whole(&mut state.file, &write)) {
            let words = self.refused(error);
            tracing::warn!("kept in memory: {words}");
            state.trouble = Some(words.to_string());
            if state.spare.is_none() {
                state.spare = Some(memory().map_err(|error| self.refused(error))?);
            }
            let spare = state.spare.as_mut().expect("invariant: made above");
            whole(spare, &write).map_err(|error| self.refused(error))?;
        }
        Ok(())
    }

    /// What memory holds, then what the file does.
    fn read_all<T>(&self, read: impl Fn(&Connection) -> rusqlite::Result<Vec<T>>) -> Result<Vec<T>> {
        let state = self.lock();
        let mut all = Vec::new();
        for connection in state.spare.iter().chain([&state.file]) {
            all.extend(read(connection).map_err(|error| self.refused(error))?);
        }
        Ok(all)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while holding the lock leaves no transaction open: SQLite rolls it back on drop.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self, error: rusqlite::Error) -> Error {
        Error::database(self.path.as_deref().unwrap_or(Path::new("(memory)")), error)
    }
}

impl State {
    /// Writes what memory holds to the file, now that it may be possible.
    fn flush(&mut self) -> rusqlite::Result<()> {
        if let Some(spare) = &self.spare {
            let records = exchange::read(spare)?;
            exchange::write(&mut self.file, &records, "")?;
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

/// An empty database in memory.
fn memory() -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    tables::create(&mut connection)?;
    Ok(connection)
}

/// All of a write or none of it. The lock is taken first, so that writers of other processes are waited for.
fn whole(
    connection: &mut Connection,
    write: impl Fn(&Connection) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    write(&transaction)?;
    transaction.commit()
}

/// A path in a URI of SQLite.
fn escaped(path: &Path) -> String {
    let path = path.to_string_lossy();
    path.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

#[cfg(test)]
mod tests;
