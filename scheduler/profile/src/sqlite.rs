//! Rows in a file, which is a SQLite database (feature `sqlite`).
//!
//! Invariants:
//! 1. A foreign or torn file, or one of another version, is refused and unchanged.
//! 2. A file of an older version is migrated when it is opened, without loss.
//! 3. One process writes at a time; readers continue while it commits.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, params};

use crate::bundle::{Bundle, BundleError, Loaded};
use crate::error::{Error, Result as ProfileResult};
use crate::key::{Measurement, PartKey};
use crate::link::LinkCost;
use crate::record::{LinkRecord, Merged, ProfileFile};
use crate::refusal::RefusedRun;
use crate::rows::{Check, Result, Rows, Stated};
use crate::statistics::Measured;

mod exchange;
mod store;
pub(crate) mod tables;

/// How long a writer waits for writers of other processes.
const TURN: Duration = Duration::from_secs(10);

/// An open file.
#[derive(Debug)]
pub(crate) struct File(Connection);

/// Refuses pipes, sockets and devices, which SQLite would open and wait for. What SQLite says to a folder is
/// left to it.
fn check_kind(path: &Path, kind: std::fs::FileType) -> ProfileResult<()> {
    if kind.is_file() || kind.is_dir() {
        return Ok(());
    }
    #[cfg(unix)]
    let name = {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            "a pipe"
        } else if kind.is_socket() {
            "a socket"
        } else {
            "a device"
        }
    };
    #[cfg(not(unix))]
    let name = "something else";
    let words = format!("is {name}, not a regular file");
    Err(Error::file(
        path,
        std::io::Error::new(std::io::ErrorKind::InvalidInput, words),
    ))
}

impl File {
    /// As [`crate::Profile::open`].
    pub(crate) fn open(path: &Path) -> ProfileResult<File> {
        let is_new = match std::fs::metadata(path) {
            Ok(metadata) => {
                check_kind(path, metadata.file_type())?;
                metadata.len() == 0
            }
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
            return File::open_read_only(path);
        }
        if !is_new {
            tables::check_ours(path, &connection)?;
        }
        // Write-ahead logging lets readers continue while a writer commits, and survives a crash.
        connection
            .pragma_update(None, "journal_mode", "WAL")
            .map_err(refuse)?;
        connection
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(refuse)?;
        tables::create(&mut connection).map_err(refuse)?;
        tables::check_ours(path, &connection)?;
        File::ready(connection).map_err(refuse)
    }

    /// As [`crate::Profile::open_read_only`].
    pub(crate) fn open_read_only(path: &Path) -> ProfileResult<File> {
        if let Ok(metadata) = std::fs::metadata(path) {
            check_kind(path, metadata.file_type())?;
        }
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
                "profile database {} has version {version} and is read-only; open it once with write access",
                path.display()
            );
            return Err(Error::bad(words));
        }
        File::ready(connection).map_err(refuse)
    }

    /// As [`crate::Profile::copy_to`]; the file must not exist.
    pub(crate) fn copy_to(&self, path: &Path) -> ProfileResult<()> {
        let copied = path
            .to_str()
            .ok_or_else(|| Error::bad(format!("{}: the name is not UTF-8", path.display())))
            .map(|name| self.0.execute("VACUUM INTO ?1", [name]))?;
        copied.map(drop).map_err(|error| Error::database(path, error))
    }

    fn ready(connection: Connection) -> rusqlite::Result<File> {
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(File(connection))
    }

    #[cfg(test)]
    pub(crate) fn connection(&self) -> &Connection {
        &self.0
    }

    /// All of a write or none of it. The lock is taken first, so that writers of other processes are waited for.
    fn whole<T>(&mut self, write: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let written = write(&transaction)?;
        transaction.commit()?;
        Ok(written)
    }
}

impl Rows for File {
    fn add(
        &mut self,
        key: PartKey<'_>,
        emulated: bool,
        stated: &Stated<'_>,
        measurements: &[Measurement],
    ) -> Result<()> {
        self.whole(|connection| {
            let part = store::part(connection, key, emulated)?;
            store::add(connection, part, stated, measurements)?;
            store::prune(connection, part)
        })
    }

    fn batches(&self, key: PartKey<'_>) -> Result<(Vec<Measured>, bool)> {
        Ok(store::batches(&self.0, key)?)
    }

    fn devices_of(&self, fingerprint: &[u8; 32]) -> Result<Vec<(String, String)>> {
        let mut statement = self
            .0
            .prepare_cached("SELECT device, operating_point FROM part WHERE fingerprint = ?1")?;
        let rows = statement.query_map(params![fingerprint.as_slice()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn devices_of_bundles(
        &self,
        fingerprint: &[u8; 32],
        operating_point: &str,
        emulated: bool,
    ) -> Result<Vec<String>> {
        let mut statement = self.0.prepare_cached(
            "SELECT device FROM part WHERE fingerprint = ?1 AND operating_point = ?2 AND emulated = ?3
             AND EXISTS (SELECT 1 FROM batch WHERE batch.part = part.id AND substr(source, 1, 8) = 'bundle \"')
             ORDER BY device",
        )?;
        let asked = params![fingerprint.as_slice(), operating_point, emulated];
        let rows = statement.query_map(asked, |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn has_batches(&self) -> Result<bool> {
        let mut statement = self.0.prepare_cached("SELECT 1 FROM batch LIMIT 1")?;
        Ok(statement.exists([])?)
    }

    fn describe(&mut self, fingerprint: &[u8; 32], content: &str) -> Result<()> {
        self.whole(|connection| {
            connection
                .execute(
                    "INSERT OR IGNORE INTO content (fingerprint, pieces) VALUES (?1, ?2)",
                    params![fingerprint.as_slice(), content],
                )
                .map(|_| ())
        })
    }

    fn refuse(&mut self, device: &str, run: &RefusedRun) -> Result<()> {
        let nodes = i64::try_from(run.nodes).unwrap_or(i64::MAX);
        self.whole(|connection| {
            connection
                .execute(
                    "INSERT INTO refusal (device, fingerprint, nodes, words) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (device, fingerprint) DO UPDATE SET words = excluded.words",
                    params![device, run.fingerprint.as_slice(), nodes, run.words],
                )
                .map(|_| ())
        })
    }

    fn refusals(&self, device: &str) -> Result<Vec<RefusedRun>> {
        let mut statement = self.0.prepare_cached(
            "SELECT fingerprint, nodes, words FROM refusal WHERE device = ?1 ORDER BY fingerprint",
        )?;
        let rows = statement.query_map(params![device], |row| {
            Ok(RefusedRun {
                fingerprint: row.get(0)?,
                nodes: usize::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
                words: row.get(2)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn forget_refusals(&mut self, device: Option<&str>) -> Result<usize> {
        let forget = "DELETE FROM refusal WHERE ?1 IS NULL OR device = ?1";
        Ok(self.0.execute(forget, params![device])?)
    }

    fn put_link(&mut self, link: &LinkRecord) -> Result<bool> {
        self.whole(|connection| store::put_link(connection, link))
    }

    fn links(&self, from: &str, to: &str) -> Result<Vec<(u64, LinkCost)>> {
        Ok(store::link(&self.0, from, to)?)
    }

    fn plugin_value(&self, plugin: &str, key: &str) -> Result<Option<Vec<u8>>> {
        let value = self.0.query_row(
            "SELECT value FROM plugin_value WHERE plugin = ?1 AND key = ?2",
            params![plugin, key],
            |row| row.get(0),
        );
        Ok(value.optional()?)
    }

    fn set_plugin_value(&mut self, plugin: &str, key: &str, value: &[u8]) -> Result<()> {
        self.whole(|connection| {
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

    fn read(&self) -> Result<ProfileFile> {
        Ok(exchange::read(&self.0)?)
    }

    fn write(&mut self, records: &ProfileFile, source: &str) -> Result<Merged> {
        Ok(exchange::write(&mut self.0, records, source)?)
    }

    fn write_bundle(
        &mut self,
        bundle: &Bundle,
        check: Check<'_>,
    ) -> Result<std::result::Result<(), BundleError>> {
        Ok(exchange::write_bundle(&mut self.0, bundle, check)?)
    }

    fn loaded_bundles(&self) -> Result<Vec<Loaded>> {
        Ok(exchange::loaded_bundles(&self.0)?)
    }
}

/// A path in a URI of SQLite.
fn escaped(path: &Path) -> String {
    let path = path.to_string_lossy();
    path.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}
