//! Writes rows to the tables, and reads them.
//!
//! Invariant: times above SQLite's integer range (2^63 ns, three centuries) are stored as its
//! maximum; nothing wraps.

use std::collections::BTreeMap;

use polychip_partitioner::{Energy, Time};
use rusqlite::{Connection, params};

use crate::conditions::Conditions;
use crate::key::{KEPT, Measurement, PartKey};
use crate::link::LinkCost;
use crate::record::LinkRecord;
use crate::rows::{RecentSettings, Stated};
use crate::statistics::Measured;

pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// The row of a part, created if missing.
pub(crate) fn part(connection: &Connection, key: PartKey<'_>, emulated: bool) -> rusqlite::Result<i64> {
    connection.query_row(
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
    )
}

/// Adds a batch of measurements; the number added, none where the batch is there already.
pub(crate) fn add(
    connection: &Connection,
    part: i64,
    stated: &Stated<'_>,
    measurements: &[Measurement],
) -> rusqlite::Result<usize> {
    let made = connection.execute(
        "INSERT OR IGNORE INTO batch
         (part, recorded_us, build, conditions, source, digest, sensor, energy_low_uj, energy_high_uj)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            part,
            signed(stated.recorded_us),
            stated.build,
            stated.conditions,
            stated.source,
            stated.digest,
            stated.sensor,
            stated.energy_interval_uj.map(|[low, _]| signed(low)),
            stated.energy_interval_uj.map(|[_, high]| signed(high)),
        ],
    )?;
    if made == 0 {
        return Ok(0);
    }
    let batch = connection.last_insert_rowid();
    let mut insert = connection.prepare_cached(
        "INSERT INTO measurement (part, time_ns, energy_uj, batch) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for measurement in measurements {
        let time = signed(measurement.time.nanoseconds());
        insert.execute(params![part, time, measurement.energy_uj.map(signed), batch])?;
    }
    Ok(measurements.len())
}

/// Removes all but the newest measurements of a part, with energy and without, of each cadence, governor, power mode and clock,
/// and batches that have none left. Energy is measured seldom: times that are recorded with every run must not push it
/// out, and neither must those of a slow clock push out what was measured at a fast one.
pub(crate) fn prune(connection: &Connection, part: i64) -> rusqlite::Result<()> {
    let held: u32 = connection
        .prepare_cached("SELECT count(*) FROM measurement WHERE part = ?1")?
        .query_row(params![part], |row| row.get(0))?;
    if held <= KEPT {
        return Ok(());
    }
    let mut newest_first = connection.prepare_cached(
        "SELECT m.id, m.energy_uj IS NULL, b.conditions, b.source LIKE 'bundle %' FROM measurement m JOIN batch b ON b.id = m.batch
         WHERE m.part = ?1 ORDER BY b.recorded_us DESC, m.id DESC",
    )?;
    let mut rows = newest_first.query(params![part])?;
    let mut counts: BTreeMap<(String, bool, bool), u32> = BTreeMap::new();
    let mut states = RecentSettings::default();
    let mut too_many = Vec::new();
    while let Some(row) = rows.next()? {
        let (state, is_old) = states.of(&Conditions::read(&row.get::<_, String>(2)?));
        let has_energy = !row.get::<_, bool>(1)?;
        let is_old = is_old && !has_energy;
        // what a bundle brought goes with it, and pushes out nothing that was measured here
        let is_brought: bool = row.get(3)?;
        let count = counts.entry((state, has_energy, is_brought)).or_default();
        *count += 1;
        if is_old || *count > KEPT {
            too_many.push(row.get::<_, i64>(0)?);
        }
    }
    let mut remove = connection.prepare_cached("DELETE FROM measurement WHERE id = ?1")?;
    for id in too_many {
        remove.execute(params![id])?;
    }
    connection.execute(
        "DELETE FROM batch WHERE part = ?1 AND id NOT IN (SELECT batch FROM measurement WHERE part = ?1)",
        params![part],
    )?;
    Ok(())
}

/// The batches of a part, oldest first, and whether its figures are an emulated device's.
pub(crate) fn batches(connection: &Connection, key: PartKey<'_>) -> rusqlite::Result<(Vec<Measured>, bool)> {
    let mut statement = connection.prepare_cached(
        "SELECT b.id, b.conditions, b.recorded_us, m.time_ns, m.energy_uj, p.emulated,
         b.sensor, b.energy_low_uj, b.energy_high_uj FROM part p
         JOIN measurement m ON m.part = p.id JOIN batch b ON b.id = m.batch
         WHERE p.device = ?1 AND p.fingerprint = ?2 AND p.operating_point = ?3
         ORDER BY b.recorded_us, b.id, m.id",
    )?;
    let mut rows = statement.query(params![
        key.device,
        key.fingerprint.as_slice(),
        key.operating_point
    ])?;
    let (mut found, mut last, mut emulated) = (Vec::<Measured>::new(), None, false);
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        if last != Some(id) {
            found.push(Measured {
                conditions: Conditions::read(&row.get::<_, String>(1)?),
                recorded_us: unsigned(row.get(2)?),
                times_ns: Vec::new(),
                energies_uj: Vec::new(),
                sensor: row.get(6)?,
                energy_interval_uj: interval(row.get(7)?, row.get(8)?),
            });
            last = Some(id);
        }
        let batch = found.last_mut().expect("invariant: pushed for its first row");
        batch.times_ns.push(unsigned(row.get(3)?));
        batch
            .energies_uj
            .extend(row.get::<_, Option<i64>>(4)?.map(unsigned));
        emulated |= row.get::<_, bool>(5)?;
    }
    Ok((found, emulated))
}

/// Both ends of an interval, where both are known.
pub(crate) fn interval(low: Option<i64>, high: Option<i64>) -> Option<[u64; 2]> {
    low.zip(high).map(|(low, high)| [unsigned(low), unsigned(high)])
}

/// Stores a link, where what is known of it is not newer; whether it was stored. What was measured here goes before what a
/// bundle brought.
pub(crate) fn put_link(connection: &Connection, link: &LinkRecord) -> rusqlite::Result<bool> {
    let changed = connection.execute(
        "INSERT INTO link (from_device, to_device, bytes, time_ns, recorded_us, build, source, energy_nj)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (from_device, to_device, bytes) DO UPDATE SET time_ns = excluded.time_ns,
             energy_nj = CASE WHEN excluded.energy_nj IS NULL AND excluded.source = source THEN energy_nj
                 ELSE excluded.energy_nj END, recorded_us = excluded.recorded_us, build = excluded.build, source = excluded.source
         WHERE (source LIKE 'bundle %' AND excluded.source = '')
             OR ((source LIKE 'bundle %' OR excluded.source NOT LIKE 'bundle %') AND (excluded.recorded_us > recorded_us
                 OR (excluded.recorded_us = recorded_us AND excluded.source = '' AND source = '')))",
        params![
            link.from,
            link.to,
            signed(link.bytes),
            signed(link.time_ns),
            signed(link.recorded_us),
            link.build,
            link.source,
            link.energy_nj.map(signed)
        ],
    )?;
    Ok(changed > 0)
}

/// Bytes and costs of a link.
pub(crate) fn link(connection: &Connection, from: &str, to: &str) -> rusqlite::Result<Vec<(u64, LinkCost)>> {
    let mut statement = connection.prepare_cached(
        "SELECT bytes, time_ns, energy_nj FROM link WHERE from_device = ?1 AND to_device = ?2 ORDER BY bytes",
    )?;
    let rows = statement.query_map(params![from, to], |row| {
        // the partitioner counts picoseconds in 64 bits
        let time = unsigned(row.get(1)?).min(u64::MAX / 1_000_000);
        let energy: Option<i64> = row.get(2)?;
        let cost = LinkCost {
            time: Time::from_nanoseconds(time),
            energy: energy.map(|energy| Energy::from_nanojoules(unsigned(energy))),
        };
        Ok((unsigned(row.get(0)?), cost))
    })?;
    rows.collect()
}
