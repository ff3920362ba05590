//! The profile as JSON: exported, imported, merged.
//!
//! Invariants:
//! 1. What is exported and imported again is the same database, row by row, with where each row comes from.
//! 2. Importing twice is importing once: a batch is known by the digest of what was recorded.
//! 3. Records that contradict themselves are refused before anything is written.
//!
//! Not here: what differs between two databases (`diff`).

use polychip_partitioner::Nanos;
use rusqlite::{Connection, TransactionBehavior, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::statistics::Measured;
use super::store::{self, BUILD, Stated, signed, unsigned};
use super::{Measurement, PartKey};
use crate::conditions::{Conditions, choose};
use crate::error::{Error, ErrorKind, Result};

/// Version of the JSON file. Version 1 said nothing of the sensors of energies.
const VERSION: u32 = 2;
/// What the file says it is.
const FORMAT: &str = "polychip profile";

/// A profile database as a file of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileFile {
    /// `polychip profile`.
    pub format: String,
    /// Version of this format.
    pub version: u32,
    /// Measured parts, by device, fingerprint and operating point.
    pub parts: Vec<PartRecord>,
    /// What measured parts consist of.
    pub contents: Vec<ContentRecord>,
    /// What hand-overs and launches take.
    pub links: Vec<LinkRecord>,
    /// Runs of nodes that devices refused to compile.
    pub refusals: Vec<RefusalRecord>,
    /// The plugins' own values.
    pub plugin_values: Vec<ValueRecord>,
}

/// A part on a device at an operating point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartRecord {
    /// Identity of the device: plugin, build, device, driver.
    pub device: String,
    /// Structure of the part, 64 hexadecimal digits.
    pub fingerprint: String,
    /// What the policy asked of the device; empty where nothing.
    pub operating_point: String,
    /// The figures are an emulated device's.
    pub emulated: bool,
    /// Measurements by where they come from, oldest first.
    pub batches: Vec<BatchRecord>,
}

/// Measurements that were made together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRecord {
    /// When they were recorded, in microseconds since 1970; 0 where that is not known.
    pub recorded_us: u64,
    /// Version of the library that measured.
    pub build: String,
    /// State of the machine.
    pub conditions: String,
    /// File that they were imported from first; empty where they were measured into this one.
    pub source: String,
    /// Digest of what was recorded, 64 hexadecimal digits.
    pub digest: String,
    /// Times in nanoseconds, in the order in which they were measured.
    pub times_ns: Vec<u64>,
    /// Energies in microjoules, as many as times; empty where the device measures none.
    pub energies_uj: Vec<Option<u64>>,
    /// Sensor of the energies; empty where there are none or it is not known.
    #[serde(default)]
    pub sensor: String,
    /// Ends of the interval in microjoules of the one energy, where such was measured.
    #[serde(default)]
    pub energy_interval_uj: Option<[u64; 2]>,
}

impl BatchRecord {
    /// As what is chosen among.
    pub(super) fn measured(&self) -> Measured {
        Measured {
            conditions: store::conditions(&self.conditions),
            recorded_us: self.recorded_us,
            times_ns: self.times_ns.clone(),
            energies_uj: self.energies_uj.iter().copied().flatten().collect(),
            sensor: self.sensor.clone(),
            energy_interval_uj: self.energy_interval_uj,
        }
    }
}

/// What a part consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContentRecord {
    /// Structure of the part, 64 hexadecimal digits.
    pub fingerprint: String,
    /// Its pieces, as JSON in a string.
    pub pieces: String,
}

/// What a hand-over took, or a launch where both devices are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkRecord {
    /// Identity of the device that writes.
    pub from: String,
    /// Identity of the device that reads.
    pub to: String,
    /// Size of the tensor.
    pub bytes: u64,
    /// Median time in nanoseconds.
    pub time_ns: u64,
    /// When it was recorded, in microseconds since 1970; 0 where that is not known.
    pub recorded_us: u64,
    /// Version of the library that measured.
    pub build: String,
    /// File that it was imported from first; empty where it was measured into this one.
    pub source: String,
}

impl LinkRecord {
    pub(super) fn now(from: &str, to: &str, bytes: u64, time: Nanos) -> LinkRecord {
        LinkRecord {
            from: from.to_owned(),
            to: to.to_owned(),
            bytes,
            time_ns: time.nanoseconds(),
            recorded_us: store::now_us(),
            build: BUILD.to_owned(),
            source: String::new(),
        }
    }
}

/// A run of nodes that a device refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefusalRecord {
    /// Identity of the device.
    pub device: String,
    /// Structure of the run, 64 hexadecimal digits.
    pub fingerprint: String,
    /// Number of nodes.
    pub nodes: u64,
    /// The vendor's words.
    pub words: String,
}

/// A value of a plugin's own store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValueRecord {
    /// Name of the plugin.
    pub plugin: String,
    /// Its key.
    pub key: String,
    /// The bytes in hexadecimal digits.
    pub value: String,
}

/// What an import added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Merged {
    /// Batches of measurements.
    pub batches: u64,
    /// Batches that were there already.
    pub known: u64,
    /// Measurements.
    pub measurements: u64,
    /// Links that were new or newer.
    pub links: u64,
    /// Refused runs.
    pub refusals: u64,
    /// Values of plugins.
    pub plugin_values: u64,
}

impl ProfileFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// [`ErrorKind::BadProfile`] where the text is no such file, has another version or contradicts itself.
    pub fn from_json(text: &str) -> Result<ProfileFile> {
        let file: ProfileFile = serde_json::from_str(text)
            .map_err(|error| Error::caused(ErrorKind::BadProfile, "not a profile in JSON", error))?;
        file.check()?;
        Ok(file)
    }

    /// Leaves only the parts of one device, and of each part the batches that are nearest to what holds.
    pub(super) fn narrow(&mut self, device: &str, now: &Conditions) {
        self.parts.retain(|part| part.device == device);
        for part in &mut self.parts {
            let batches: Vec<(Conditions, usize)> = part
                .batches
                .iter()
                .map(|batch| (store::conditions(&batch.conditions), batch.times_ns.len()))
                .collect();
            let choice = choose(now, &batches);
            let mut place = 0..;
            part.batches
                .retain(|_| place.next().is_some_and(|place| choice.places.contains(&place)));
        }
    }

    /// Refuses records that contradict themselves.
    pub(super) fn check(&self) -> Result<()> {
        let bad = |words: String| Err(Error::new(ErrorKind::BadProfile, words));
        if self.format != FORMAT || !(1..=VERSION).contains(&self.version) {
            return bad(format!(
                "a file of {:?} version {}, this build reads {FORMAT:?} versions 1 to {VERSION}",
                self.format, self.version
            ));
        }
        let parts = self.parts.iter().map(|part| &part.fingerprint);
        let contents = self.contents.iter().map(|content| &content.fingerprint);
        let refusals = self.refusals.iter().map(|refusal| &refusal.fingerprint);
        let batches = || self.parts.iter().flat_map(|part| &part.batches);
        let digests = batches().map(|batch| &batch.digest);
        for text in parts.chain(contents).chain(refusals).chain(digests) {
            if unhex(text).is_none_or(|bytes| bytes.len() != 32) {
                return bad(format!("{text:?} is not 64 hexadecimal digits"));
            }
        }
        for batch in batches() {
            let (times, energies) = (batch.times_ns.len(), batch.energies_uj.len());
            if times == 0 || (energies != 0 && energies != times) {
                return bad(format!("a batch of {times} times and {energies} energies"));
            }
        }
        for value in &self.plugin_values {
            if unhex(&value.value).is_none() {
                return bad(format!(
                    "value {:?} of plugin {} is not in hexadecimal digits",
                    value.key, value.plugin
                ));
            }
        }
        Ok(())
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hexadecimal digits as bytes.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

/// Everything in the tables, in a fixed order.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<ProfileFile> {
    // one transaction, so that a writer of another process is in all tables or in none
    let transaction = connection.unchecked_transaction()?;
    let file = ProfileFile {
        format: FORMAT.to_owned(),
        version: VERSION,
        parts: read_parts(&transaction)?,
        contents: rows(
            &transaction,
            "SELECT fingerprint, pieces FROM content ORDER BY fingerprint",
            |row| {
                Ok(ContentRecord {
                    fingerprint: hex(&row.get::<_, Vec<u8>>(0)?),
                    pieces: row.get(1)?,
                })
            },
        )?,
        links: rows(
            &transaction,
            "SELECT from_device, to_device, bytes, time_ns, recorded_us, build, source FROM link
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
                })
            },
        )?,
        refusals: rows(
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
        plugin_values: rows(
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

fn rows<T>(
    connection: &Connection,
    query: &str,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare(query)?.query_map([], read)?.collect()
}

fn read_parts(connection: &Connection) -> rusqlite::Result<Vec<PartRecord>> {
    let parts = rows(
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
    let mut all = Vec::with_capacity(parts.len());
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
        all.push(part);
    }
    Ok(all)
}

/// Adds records that were checked, all or none.
pub(super) fn write(
    connection: &mut Connection,
    records: &ProfileFile,
    source: &str,
) -> rusqlite::Result<Merged> {
    let bytes = |text: &str| unhex(text).unwrap_or_default();
    let origin = |known: &str| {
        if known.is_empty() {
            source.to_owned()
        } else {
            known.to_owned()
        }
    };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
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
        let part = store::part(&transaction, key, record.emulated)?;
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
            let energy = |at: usize| batch.energies_uj.get(at).copied().flatten();
            let measurements: Vec<Measurement> = batch
                .times_ns
                .iter()
                .enumerate()
                .map(|(at, &ns)| Measurement {
                    time: Nanos::from_nanoseconds(ns.min(u64::MAX / 1_000_000)),
                    energy_uj: energy(at),
                })
                .collect();
            match store::add(&transaction, part, &stated, &measurements)? {
                0 => merged.known += 1,
                added => {
                    merged.batches += 1;
                    merged.measurements += added as u64;
                }
            }
        }
        store::prune(&transaction, part)?;
    }
    for content in &records.contents {
        transaction.execute(
            "INSERT OR IGNORE INTO content (fingerprint, pieces) VALUES (?1, ?2)",
            params![bytes(&content.fingerprint), content.pieces],
        )?;
    }
    for link in &records.links {
        let link = LinkRecord {
            source: origin(&link.source),
            ..link.clone()
        };
        merged.links += u64::from(store::put_link(&transaction, &link)?);
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
    transaction.commit()?;
    Ok(merged)
}
