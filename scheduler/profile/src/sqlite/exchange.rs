//! Exports records from the database, and imports them.
//!
//! Invariants:
//! 1. Exporting and importing gives the same database, row by row, with the origin of each row.
//! 2. Importing twice equals importing once: a batch is identified by the digest of its recorded
//!    values.

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::bundle::{Bundle, BundleError, Loaded};
use crate::hex::{hex, unhex};
use crate::key::PartKey;
use crate::record::{
    BatchRecord, ContentRecord, FORMAT, LinkRecord, Merged, PartRecord, ProfileFile, RefusalRecord, VERSION,
    ValueRecord,
};
use crate::rows::{self, Check, Stated};
use crate::sqlite::store::{self, signed, unsigned};

/// Everything in the tables, in a fixed order.
pub(crate) fn read(connection: &Connection) -> rusqlite::Result<ProfileFile> {
    // one transaction, so that a writer of another process is in all tables or in none
    let transaction = connection.unchecked_transaction()?;
    let file = ProfileFile {
        format: FORMAT.to_owned(),
        version: VERSION,
        parts: read_parts(&transaction)?,
        contents: all(
            &transaction,
            "SELECT fingerprint, pieces FROM content ORDER BY fingerprint",
            |row| {
                Ok(ContentRecord {
                    fingerprint: hex(&row.get::<_, Vec<u8>>(0)?),
                    content: row.get(1)?,
                })
            },
        )?,
        links: all(
            &transaction,
            "SELECT from_device, to_device, bytes, time_ns, recorded_us, build, source, energy_nj FROM link
             ORDER BY from_device, to_device, bytes",
            |row| {
                Ok(LinkRecord {
                    from: row.get(0)?,
                    to: row.get(1)?,
                    bytes: unsigned(row.get(2)?),
                    time_ns: unsigned(row.get(3)?),
                    recorded_us: unsigned(row.get(4)?),
                    build: row.get(5)?,
                    source: row.get(6)?,
                    energy_nj: row.get::<_, Option<i64>>(7)?.map(unsigned),
                })
            },
        )?,
        refusals: all(
            &transaction,
            "SELECT device, fingerprint, nodes, words FROM refusal ORDER BY device, fingerprint",
            |row| {
                Ok(RefusalRecord {
                    device: row.get(0)?,
                    fingerprint: hex(&row.get::<_, Vec<u8>>(1)?),
                    nodes: unsigned(row.get(2)?),
                    words: row.get(3)?,
                })
            },
        )?,
        plugin_values: all(
            &transaction,
            "SELECT plugin, key, value FROM plugin_value ORDER BY plugin, key",
            |row| {
                Ok(ValueRecord {
                    plugin: row.get(0)?,
                    key: row.get(1)?,
                    value: hex(&row.get::<_, Vec<u8>>(2)?),
                })
            },
        )?,
    };
    transaction.rollback()?;
    Ok(file)
}

fn all<T>(
    connection: &Connection,
    query: &str,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare(query)?.query_map([], read)?.collect()
}

fn read_parts(connection: &Connection) -> rusqlite::Result<Vec<PartRecord>> {
    let parts = all(
        connection,
        "SELECT id, device, fingerprint, operating_point, emulated FROM part
         ORDER BY device, fingerprint, operating_point",
        |row| {
            let record = PartRecord {
                device: row.get(1)?,
                fingerprint: hex(&row.get::<_, Vec<u8>>(2)?),
                operating_point: row.get(3)?,
                emulated: row.get(4)?,
                batches: Vec::new(),
            };
            Ok((row.get::<_, i64>(0)?, record))
        },
    )?;
    let mut batches = connection.prepare(
        "SELECT id, recorded_us, build, conditions, source, digest, sensor, energy_low_uj, energy_high_uj
         FROM batch WHERE part = ?1 ORDER BY recorded_us, digest",
    )?;
    let mut times =
        connection.prepare("SELECT time_ns, energy_uj FROM measurement WHERE batch = ?1 ORDER BY id")?;
    let mut records = Vec::with_capacity(parts.len());
    for (id, mut part) in parts {
        let found = batches.query_map(params![id], |row| {
            let record = BatchRecord {
                recorded_us: unsigned(row.get(1)?),
                build: row.get(2)?,
                conditions: row.get(3)?,
                source: row.get(4)?,
                digest: hex(&row.get::<_, Vec<u8>>(5)?),
                times_ns: Vec::new(),
                energies_uj: Vec::new(),
                sensor: row.get(6)?,
                energy_interval_uj: store::interval(row.get(7)?, row.get(8)?),
            };
            Ok((row.get::<_, i64>(0)?, record))
        })?;
        for found in found {
            let (id, mut batch) = found?;
            let mut rows = times.query(params![id])?;
            while let Some(row) = rows.next()? {
                batch.times_ns.push(unsigned(row.get(0)?));
                batch
                    .energies_uj
                    .push(row.get::<_, Option<i64>>(1)?.map(unsigned));
            }
            if batch.energies_uj.iter().all(Option::is_none) {
                batch.energies_uj.clear();
            }
            if !batch.times_ns.is_empty() {
                part.batches.push(batch);
            }
        }
        records.push(part);
    }
    Ok(records)
}

/// Adds records that were checked, all or none.
pub(crate) fn write(
    connection: &mut Connection,
    records: &ProfileFile,
    source: &str,
) -> rusqlite::Result<Merged> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let merged = add(&transaction, records, source)?;
    transaction.commit()?;
    Ok(merged)
}

/// Replaces the records of the family's earlier bundles with those of this one, and remembers it; all or nothing. `check`
/// receives the loaded bundles, which do not change meanwhile, and the digest of the content. A bundle that is already
/// loaded changes nothing.
pub(crate) fn write_bundle(
    connection: &mut Connection,
    bundle: &Bundle,
    check: Check<'_>,
) -> rusqlite::Result<Result<(), BundleError>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let digest = rows::digest_of(bundle);
    let known = loaded_bundles(&transaction)?;
    let is_known = known.iter().any(|loaded| rows::is_same(loaded, bundle));
    if let Err(error) = check(known, &digest) {
        return Ok(Err(error));
    }
    if is_known {
        return Ok(Ok(()));
    }
    let (records, of_family) = rows::of_bundle(bundle);
    transaction.execute(
        "DELETE FROM batch WHERE substr(source, 1, length(?1)) = ?1",
        params![of_family],
    )?;
    transaction.execute(
        "DELETE FROM link WHERE substr(source, 1, length(?1)) = ?1",
        params![of_family],
    )?;
    add(&transaction, &records, "")?;
    transaction.execute(
        "INSERT INTO bundle (family, version, digest) VALUES (?1, ?2, ?3)
         ON CONFLICT (family) DO UPDATE SET version = excluded.version, digest = excluded.digest",
        params![
            bundle.manifest.family,
            signed(bundle.manifest.version),
            &digest[..]
        ],
    )?;
    transaction.commit().map(Ok)
}

/// The newest bundle of each family that was loaded.
pub(crate) fn loaded_bundles(connection: &Connection) -> rusqlite::Result<Vec<Loaded>> {
    // a file of an older version that may only be read has no such table
    let has_table = "SELECT 1 FROM sqlite_schema WHERE name = 'bundle'";
    if connection.prepare(has_table)?.query([])?.next()?.is_none() {
        return Ok(Vec::new());
    }
    all(
        connection,
        "SELECT family, version, digest FROM bundle ORDER BY family",
        |row| {
            Ok(Loaded {
                family: row.get(0)?,
                version: unsigned(row.get(1)?),
                digest: row.get(2)?,
            })
        },
    )
}

fn add(transaction: &Transaction<'_>, records: &ProfileFile, source: &str) -> rusqlite::Result<Merged> {
    let bytes = |text: &str| unhex(text).unwrap_or_default();
    let origin = |known: &str| {
        if known.is_empty() {
            source.to_owned()
        } else {
            known.to_owned()
        }
    };
    let mut merged = Merged::default();
    for record in &records.parts {
        let Ok(fingerprint) = <[u8; 32]>::try_from(bytes(&record.fingerprint)) else {
            continue;
        };
        let key = PartKey {
            device: &record.device,
            fingerprint: &fingerprint,
            operating_point: &record.operating_point,
        };
        let part = store::part(transaction, key, record.emulated)?;
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
            let measurements = rows::measurements_of(batch);
            match store::add(transaction, part, &stated, &measurements)? {
                0 => merged.known += 1,
                added => {
                    merged.batches += 1;
                    merged.measurements += added as u64;
                }
            }
        }
        store::prune(transaction, part)?;
    }
    for content in &records.contents {
        transaction.execute(
            "INSERT OR IGNORE INTO content (fingerprint, pieces) VALUES (?1, ?2)",
            params![bytes(&content.fingerprint), content.content],
        )?;
    }
    for link in &records.links {
        let link = LinkRecord {
            source: origin(&link.source),
            ..link.clone()
        };
        merged.links += u64::from(store::put_link(transaction, &link)?);
    }
    for refusal in &records.refusals {
        merged.refusals += transaction.execute(
            "INSERT OR IGNORE INTO refusal (device, fingerprint, nodes, words) VALUES (?1, ?2, ?3, ?4)",
            params![
                refusal.device,
                bytes(&refusal.fingerprint),
                signed(refusal.nodes),
                refusal.words
            ],
        )? as u64;
    }
    for value in &records.plugin_values {
        merged.plugin_values += transaction.execute(
            "INSERT OR IGNORE INTO plugin_value (plugin, key, value) VALUES (?1, ?2, ?3)",
            params![value.plugin, value.key, bytes(&value.value)],
        )? as u64;
    }
    Ok(merged)
}
