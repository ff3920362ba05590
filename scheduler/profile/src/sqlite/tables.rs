//! The tables of the profile database, and the migration of older files.
//!
//! Invariants:
//! 1. A migrated file keeps every row; values that its version did not store are marked unknown.
//! 2. A migration is one transaction: a crash in the middle leaves the old version.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::error::{Error, Result};

/// "PLYC": marks a SQLite file as ours.
pub(crate) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"PLYC");
/// Version of the tables below.
///
/// Version 7 has the tables of version 6. Conditions of its batches state the cadence, which a build that does not know it
/// would mix.
pub(crate) const VERSION: i32 = 7;
/// The build of measurements that older versions stored.
const OLD_BUILD: &str = "before version 4";

pub(crate) const SCHEMA: &str = "
    CREATE TABLE part (
        id INTEGER PRIMARY KEY,
        device TEXT NOT NULL,          -- identity of the device: plugin, build, device, driver
        fingerprint BLOB NOT NULL,     -- structure of the part, 32 bytes
        operating_point TEXT NOT NULL, -- what the policy asked of the device, empty where nothing
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
pub(crate) const SINCE_2: &str = "
    CREATE TABLE refusal (
        device TEXT NOT NULL,          -- identity of the device: plugin, build, device, driver
        fingerprint BLOB NOT NULL,     -- structure of the run of nodes, 32 bytes
        nodes INTEGER NOT NULL,        -- length of the run
        words TEXT NOT NULL,           -- the vendor's words, with its code
        PRIMARY KEY (device, fingerprint)
    ) STRICT;
";

/// What version 3 added.
pub(crate) const SINCE_3: &str = "
    CREATE TABLE link (
        from_device TEXT NOT NULL,     -- identity of the device that writes
        to_device TEXT NOT NULL,       -- of the one that reads; the same: what starting a run takes
        bytes INTEGER NOT NULL,        -- size of the transferred tensor
        time_ns INTEGER NOT NULL,      -- median of the newest measurement
        PRIMARY KEY (from_device, to_device, bytes)
    ) STRICT;
";

/// What version 4 added: where measurements come from, and what the parts that were measured consist of.
pub(crate) const SINCE_4: &str = "
    CREATE TABLE batch (
        id INTEGER PRIMARY KEY,
        part INTEGER NOT NULL REFERENCES part (id) ON DELETE CASCADE,
        recorded_us INTEGER NOT NULL,  -- microseconds since 1970, 0 where not known
        build TEXT NOT NULL,           -- version of the library that measured
        conditions TEXT NOT NULL,      -- of the machine: governor, clocks, temperature band, contention
        source TEXT NOT NULL,          -- file that it was imported from, empty where it was measured into this one
        digest BLOB NOT NULL,          -- of what was recorded, so that merging twice adds it once
        UNIQUE (part, digest)
    ) STRICT;
    ALTER TABLE measurement ADD COLUMN batch INTEGER REFERENCES batch (id) ON DELETE CASCADE;
    CREATE INDEX measurement_of_batch ON measurement (batch);
    CREATE TABLE content (
        fingerprint BLOB PRIMARY KEY,  -- structure of the part
        pieces TEXT NOT NULL           -- what it consists of, as JSON: ops, multiply-adds, bytes
    ) STRICT;
    ALTER TABLE link ADD COLUMN recorded_us INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE link ADD COLUMN build TEXT NOT NULL DEFAULT 'before version 4';
    ALTER TABLE link ADD COLUMN source TEXT NOT NULL DEFAULT '';
";

/// What version 5 added: where energies come from.
pub(crate) const SINCE_5: &str = "
    ALTER TABLE batch ADD COLUMN sensor TEXT NOT NULL DEFAULT ''; -- of the energies, empty where that is not known
    ALTER TABLE batch ADD COLUMN energy_low_uj INTEGER;  -- ends of the interval of 95 % of a batch's one energy, null
    ALTER TABLE batch ADD COLUMN energy_high_uj INTEGER; -- where single runs were measured, or that is not known
";

/// What version 6 added: energies of transfers and launches; which bundles were loaded, so that no older one is taken for new.
pub(crate) const SINCE_6: &str = "
    ALTER TABLE link ADD COLUMN energy_nj INTEGER;       -- net of a resting machine; null where that was not measured
    CREATE TABLE bundle (
        family TEXT PRIMARY KEY,       -- chips that it was measured on
        version INTEGER NOT NULL,      -- of the one that was loaded last
        digest BLOB NOT NULL           -- of its content, 32 bytes
    ) STRICT;
";

/// Makes the tables, or brings those of an older version to this one.
pub(crate) fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have made the tables while this one waited.
    let made: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if made >= VERSION {
        return Ok(());
    }
    if made == 0 {
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    if made < 2 {
        transaction.execute_batch(SINCE_2)?;
    }
    if made < 3 {
        transaction.execute_batch(SINCE_3)?;
    }
    if made < 4 {
        transaction.execute_batch(SINCE_4)?;
        name_old_batches(&transaction)?;
    }
    if made < 5 {
        transaction.execute_batch(SINCE_5)?;
    }
    if made < 6 {
        transaction.execute_batch(SINCE_6)?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

/// Measurements that an older version stored become one batch per part, whose time and conditions are not known.
fn name_old_batches(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut parts =
        transaction.prepare("SELECT DISTINCT part FROM measurement WHERE batch IS NULL ORDER BY part")?;
    let parts: Vec<i64> = parts
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut rows =
        transaction.prepare("SELECT time_ns, energy_uj FROM measurement WHERE part = ?1 ORDER BY id")?;
    for part in parts {
        let mut digest = blake3::Hasher::new();
        digest.update(OLD_BUILD.as_bytes());
        let mut rows = rows.query(params![part])?;
        while let Some(row) = rows.next()? {
            digest.update(&row.get::<_, i64>(0)?.to_le_bytes());
            digest.update(&row.get::<_, Option<i64>>(1)?.unwrap_or(-1).to_le_bytes());
        }
        transaction.execute(
            "INSERT INTO batch (part, recorded_us, build, conditions, source, digest) VALUES (?1, 0, ?2, '', '', ?3)",
            params![part, OLD_BUILD, digest.finalize().as_bytes().as_slice()],
        )?;
        transaction.execute(
            "UPDATE measurement SET batch = ?1 WHERE part = ?2",
            params![transaction.last_insert_rowid(), part],
        )?;
    }
    Ok(())
}

/// Refuses a file of another program or of a version that this build does not read.
pub(crate) fn check_ours(path: &Path, connection: &Connection) -> Result<()> {
    let number = |name| {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, i32>(0))
            .map_err(|error| Error::database(path, error))
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
    Err(Error::bad(format!("{words}; it is unchanged, use another file")))
}
