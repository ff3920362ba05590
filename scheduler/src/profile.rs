//! The profile database: what parts really cost on devices, and each plugin's own tuning values.
//!
//! Also which runs of nodes devices refused to compile. One SQLite file that an app may ship. Rows are keyed by device identity, part fingerprint and
//! operating point, and hold single measurements, so that statistics are never averages of averages.
//!
//! Invariants:
//! 1. A file that is not ours, is torn, or has another version is refused and left as it is.
//! 2. Only measurements are stored here; estimates are not. Figures of emulated devices carry the mark.
//! 3. At most 101 newest measurements are kept per key.
//! 4. A file of an older version is brought to this one when it is opened; nothing in it is lost.
//!
//! Not here: what to do with a cost (`price`), measuring (`session`).

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_partitioner::Nanos;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, params};

use crate::error::{Error, ErrorKind, Result};
use crate::refusal::RefusedRun;

/// Measurements kept per device, part and operating point.
pub(crate) const KEPT: u32 = 101;

/// "PLYC": marks a SQLite file as ours.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"PLYC");
/// Version of the tables below.
const VERSION: i32 = 3;

const SCHEMA: &str = "
    CREATE TABLE part (
        id INTEGER PRIMARY KEY,
        device TEXT NOT NULL,          -- identity of the device: plugin, build, device, driver
        fingerprint BLOB NOT NULL,     -- structure of the part, 32 bytes
        operating_point TEXT NOT NULL, -- name of the operating point, empty where not set
        emulated INTEGER NOT NULL,     -- 1: the figures are an emulated device's
        UNIQUE (device, fingerprint, operating_point)
    ) STRICT;
    CREATE TABLE measurement (
        id INTEGER PRIMARY KEY,
        part INTEGER NOT NULL REFERENCES part (id) ON DELETE CASCADE,
        time_ns INTEGER NOT NULL,
        energy_uj INTEGER              -- null where the device does not measure energy
    ) STRICT;
    CREATE INDEX measurement_of_part ON measurement (part, id);
    CREATE TABLE plugin_value (
        plugin TEXT NOT NULL,
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (plugin, key)
    ) STRICT;
";

/// What version 2 added; a file of version 1 gets it when it is opened.
const SINCE_2: &str = "
    CREATE TABLE refusal (
        device TEXT NOT NULL,          -- identity of the device: plugin, build, device, driver
        fingerprint BLOB NOT NULL,     -- structure of the run of nodes, 32 bytes
        nodes INTEGER NOT NULL,        -- length of the run
        words TEXT NOT NULL,           -- the vendor's words, with its code
        PRIMARY KEY (device, fingerprint)
    ) STRICT;
";

/// What version 3 added; a file of an older version gets it when it is opened.
const SINCE_3: &str = "
    CREATE TABLE link (
        from_device TEXT NOT NULL,     -- identity of the device that writes
        to_device TEXT NOT NULL,       -- of the one that reads; the same: what starting a run takes
        bytes INTEGER NOT NULL,        -- size of the tensor that was handed over
        time_ns INTEGER NOT NULL,      -- median of the newest measurement
        PRIMARY KEY (from_device, to_device, bytes)
    ) STRICT;
";

/// What identifies a row of measured parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartKey<'a> {
    /// Identity of the device: plugin, build, device and driver.
    pub device: &'a str,
    /// Structure fingerprint of the part.
    pub fingerprint: &'a [u8; 32],
    /// Name of the operating point; empty where none was set.
    pub operating_point: &'a str,
}

/// One measured run of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measurement {
    /// Time from the start to the end of the run on the device.
    pub time: Nanos,
    /// Energy of the run in microjoules, where the device measures it.
    pub energy_uj: Option<u64>,
}

/// What the stored measurements of one part say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Number of measurements.
    pub samples: u32,
    /// Tenth percentile of the time.
    pub p10: Nanos,
    /// Median of the time.
    pub p50: Nanos,
    /// Ninetieth percentile of the time.
    pub p90: Nanos,
    /// Median energy in microjoules, where measured.
    pub energy_uj: Option<u64>,
    /// The figures are an emulated device's.
    pub emulated: bool,
}

/// An open profile database. Threads share it; writers of several processes take turns.
#[derive(Debug)]
pub struct Profile {
    path: Option<PathBuf>,
    connection: Mutex<Connection>,
}

impl Profile {
    /// Opens the file, or makes it where there is none.
    ///
    /// # Errors
    /// [`ErrorKind::BadProfile`] where the file is not a profile database, is corrupt, or has a
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
        let refuse = |error| refused(path, error);
        let mut connection = Connection::open_with_flags(path, flags).map_err(refuse)?;
        connection.busy_timeout(Duration::from_secs(10)).map_err(refuse)?;
        if !is_new {
            check_ours(path, &connection)?;
        }
        // Write-ahead logging lets readers go on while a writer commits, and survives a crash.
        connection
            .pragma_update(None, "journal_mode", "WAL")
            .map_err(refuse)?;
        connection
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(refuse)?;
        create(&mut connection).map_err(refuse)?;
        check_ours(path, &connection)?;
        Self::ready(Some(path.to_owned()), connection).map_err(refuse)
    }

    /// A database that lives as long as this object.
    ///
    /// # Errors
    /// [`ErrorKind::BadProfile`] where SQLite has no memory.
    pub fn in_memory() -> Result<Self> {
        let refuse = |error| refused(Path::new("(memory)"), error);
        let mut connection = Connection::open_in_memory().map_err(refuse)?;
        create(&mut connection).map_err(refuse)?;
        Self::ready(None, connection).map_err(refuse)
    }

    fn ready(path: Option<PathBuf>, connection: Connection) -> rusqlite::Result<Self> {
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(Self {
            path,
            connection: Mutex::new(connection),
        })
    }

    /// The file, or `None` for a database in memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Adds measurements of one part, all or none.
    ///
    /// # Errors
    /// [`ErrorKind::BadProfile`] where the file cannot be written; what was stored before stays.
    pub fn record(&self, key: PartKey<'_>, emulated: bool, measurements: &[Measurement]) -> Result<()> {
        let mut connection = self.lock();
        let result = (|| {
            let transaction = connection.transaction()?;
            add(&transaction, key, emulated, measurements)?;
            transaction.commit()
        })();
        drop(connection);
        result.map_err(|error| self.refused(error))
    }

    /// What is known of one part.
    ///
    /// # Errors
    /// [`ErrorKind::BadProfile`] where the file cannot be read.
    pub fn part(&self, key: PartKey<'_>) -> Result<Option<Summary>> {
        summary(&self.lock(), key).map_err(|error| self.refused(error))
    }

    /// Remembers that a device refuses a run of nodes.
    ///
    /// # Errors
    /// [`ErrorKind::BadProfile`] where the file cannot be written.
    pub fn refuse(&self, device: &str, run: &RefusedRun) -> Result<()> {
        let nodes = i64::try_from(run.nodes).unwrap_or(i64::MAX);
        let result = self.lock().execute(
            "INSERT INTO refusal (device, fingerprint, nodes, words) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (device, fingerprint) DO UPDATE SET words = excluded.words",
            params![device, run.fingerprint.as_slice(), nodes, run.words],
        );
        result.map(|_| ()).map_err(|error| self.refused(error))
    }

    /// Runs of nodes that the device of this identity refused.
    ///
    /// # Errors
    /// [`ErrorKind::BadProfile`] where the file cannot be read.
    pub fn refusals(&self, device: &str) -> Result<Vec<RefusedRun>> {
        let connection = self.lock();
        let found = (|| {
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
            rows.collect::<rusqlite::Result<_>>()
        })();
        found.map_err(|error| self.refused(error))
    }

    /// Forgets what a device of this identity refused, or any device; the number of runs forgotten.
    /// The next session asks the device anew.
    ///
    /// # Errors
    /// [`ErrorKind::BadProfile`] where the file cannot be written.
    pub fn forget_refusals(&self, device: Option<&str>) -> Result<usize> {
        self.lock()
            .execute(
                "DELETE FROM refusal WHERE ?1 IS NULL OR device = ?1",
                params![device],
            )
            .map_err(|error| self.refused(error))
    }

    /// Stores what handing a tensor of so many bytes from one device to another took, in the place of what
    /// was known of it. The same device twice: what starting a run takes beside its time on the device.
    ///
    /// # Errors
    /// [`ErrorKind::BadProfile`] where the file cannot be written.
    pub fn record_link(&self, from: &str, to: &str, bytes: u64, time: Nanos) -> Result<()> {
        let clamp = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let result = self.lock().execute(
            "INSERT INTO link (from_device, to_device, bytes, time_ns) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (from_device, to_device, bytes) DO UPDATE SET time_ns = excluded.time_ns",
            params![from, to, clamp(bytes), clamp(time.nanoseconds())],
        );
        result.map(|_| ()).map_err(|error| self.refused(error))
    }

    /// What is known of handing tensors from one device to another: bytes and times, smallest first.
    ///
    /// # Errors
    /// [`ErrorKind::BadProfile`] where the file cannot be read.
    pub fn link(&self, from: &str, to: &str) -> Result<Vec<(u64, Nanos)>> {
        let connection = self.lock();
        let found = (|| {
            let mut statement = connection.prepare_cached(
                "SELECT bytes, time_ns FROM link WHERE from_device = ?1 AND to_device = ?2 ORDER BY bytes",
            )?;
            let rows = statement.query_map(params![from, to], |row| {
                let unsigned = |column| row.get::<_, i64>(column).map(|n| u64::try_from(n).unwrap_or(0));
                // the partitioner counts picoseconds in 64 bits
                Ok((
                    unsigned(0)?,
                    Nanos::from_nanoseconds(unsigned(1)?.min(u64::MAX / 1_000_000)),
                ))
            })?;
            rows.collect::<rusqlite::Result<_>>()
        })();
        found.map_err(|error| self.refused(error))
    }

    /// Reads a value of a plugin's own store.
    ///
    /// # Errors
    /// [`ErrorKind::BadProfile`] where the file cannot be read.
    pub fn plugin_value(&self, plugin: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.lock()
            .query_row(
                "SELECT value FROM plugin_value WHERE plugin = ?1 AND key = ?2",
                params![plugin, key],
                |row| row.get(0),
            )
            .optional()
            .map_err(|error| self.refused(error))
    }

    /// Writes a value of a plugin's own store; an empty value removes the key.
    ///
    /// # Errors
    /// [`ErrorKind::BadProfile`] where the file cannot be written.
    pub fn set_plugin_value(&self, plugin: &str, key: &str, value: &[u8]) -> Result<()> {
        let connection = self.lock();
        let result = if value.is_empty() {
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
        };
        result.map(|_| ()).map_err(|error| self.refused(error))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A panic while holding the lock leaves no transaction open: SQLite rolls it back on drop.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self, error: rusqlite::Error) -> Error {
        refused(self.path.as_deref().unwrap_or(Path::new("(memory)")), error)
    }
}

fn refused(path: &Path, error: rusqlite::Error) -> Error {
    Error::caused(
        ErrorKind::BadProfile,
        format!(
            "profile database {} (left as it is; give another file or move it away)",
            path.display()
        ),
        error,
    )
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Another process may have made the tables while this one waited.
    let made: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if made == 0 {
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    if made < 2 {
        transaction.execute_batch(SINCE_2)?;
    }
    if made < 3 {
        transaction.execute_batch(SINCE_3)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

fn check_ours(path: &Path, connection: &Connection) -> Result<()> {
    let number = |name| {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, i32>(0))
            .map_err(|error| refused(path, error))
    };
    let (application, version) = (number("application_id")?, number("user_version")?);
    let words = if application != APPLICATION_ID {
        format!(
            "{} is a SQLite file of another program (application id {application:#x})",
            path.display()
        )
    } else if !(1..=VERSION).contains(&version) {
        format!(
            "profile database {} has version {version}, this build reads versions 1 to {VERSION}",
            path.display()
        )
    } else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::BadProfile,
        format!("{words}; it is left as it is, give another file"),
    ))
}

fn add(
    transaction: &Transaction<'_>,
    key: PartKey<'_>,
    emulated: bool,
    measurements: &[Measurement],
) -> rusqlite::Result<()> {
    let part: i64 = transaction.query_row(
        "INSERT INTO part (device, fingerprint, operating_point, emulated) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (device, fingerprint, operating_point) DO UPDATE SET emulated = excluded.emulated
         RETURNING id",
        params![
            key.device,
            key.fingerprint.as_slice(),
            key.operating_point,
            emulated
        ],
        |row| row.get(0),
    )?;
    let mut insert =
        transaction.prepare("INSERT INTO measurement (part, time_ns, energy_uj) VALUES (?1, ?2, ?3)")?;
    for measurement in measurements {
        let time = i64::try_from(measurement.time.nanoseconds()).unwrap_or(i64::MAX);
        let energy = measurement
            .energy_uj
            .map(|value| i64::try_from(value).unwrap_or(i64::MAX));
        insert.execute(params![part, time, energy])?;
    }
    transaction.execute(
        "DELETE FROM measurement WHERE part = ?1 AND id NOT IN
         (SELECT id FROM measurement WHERE part = ?1 ORDER BY id DESC LIMIT ?2)",
        params![part, KEPT],
    )?;
    Ok(())
}

fn summary(connection: &Connection, key: PartKey<'_>) -> rusqlite::Result<Option<Summary>> {
    let mut statement = connection.prepare_cached(
        "SELECT m.time_ns, m.energy_uj, p.emulated FROM part p JOIN measurement m ON m.part = p.id
         WHERE p.device = ?1 AND p.fingerprint = ?2 AND p.operating_point = ?3 ORDER BY m.time_ns",
    )?;
    let rows = statement.query_map(
        params![key.device, key.fingerprint.as_slice(), key.operating_point],
        |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, Option<i64>>(1)?,
                row.get::<_, bool>(2)?,
            ))
        },
    )?;
    let rows: Vec<(i64, Option<i64>, bool)> = rows.collect::<rusqlite::Result<_>>()?;
    let Some(last) = rows.len().checked_sub(1) else {
        return Ok(None);
    };
    let at =
        |permille: usize| Nanos::from_nanoseconds(u64::try_from(rows[last * permille / 1000].0).unwrap_or(0));
    let mut energies: Vec<u64> = rows
        .iter()
        .filter_map(|row| row.1.and_then(|value| u64::try_from(value).ok()))
        .collect();
    energies.sort_unstable();
    Ok(Some(Summary {
        samples: u32::try_from(rows.len()).unwrap_or(u32::MAX),
        p10: at(100),
        p50: at(500),
        p90: at(900),
        energy_uj: energies.get(energies.len() / 2).copied(),
        emulated: rows[0].2,
    }))
}

#[cfg(test)]
mod tests;
