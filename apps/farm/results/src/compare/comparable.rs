//! Rules for comparing two batches.

use polychip_farm_record::{Record, State};

use crate::batch::measured;

/// Farthest that the batches of a pair are apart, in seconds: what changes within hours (the day's load, the room) is
/// not in both.
pub(super) const APART_S: f64 = 3_600.0;
/// Farthest that a sensor's readings before both batches are apart, in millidegrees: chips throttle by steps of a few
/// degrees.
const APART_MC: i64 = 8_000;
/// Most that other programs may use of the processors, in thousandths.
const LOAD_MILLIS: u32 = 200;

/// Why a batch counts for nothing, whatever it is compared with.
pub(super) fn unfit(record: &Record) -> Option<&'static str> {
    let state = &record.before;
    if throttled(record) {
        return Some("the board was throttled");
    }
    if state.load_by_others_millis.is_some_and(|load| load > LOAD_MILLIS) {
        return Some("other programs used the board");
    }
    None
}

/// Whether a clock was held down.
pub(super) fn throttled(record: &Record) -> bool {
    record.before.throttled == Some(true)
}

/// Why two batches do not make a pair.
pub(super) fn apart(one: &Record, other: &Record) -> Option<&'static str> {
    if (middle_s(one) - middle_s(other)).abs() > APART_S {
        return Some("they are more than an hour apart");
    }
    apart_in_place(one, other)
}

/// Why two batches do not compare, whatever the time between them.
pub(super) fn apart_in_place(one: &Record, other: &Record) -> Option<&'static str> {
    if one.board != other.board {
        return Some("the board reports another system, memory or core count");
    }
    if measured(one).map(|one| one.emulated) != measured(other).map(|one| one.emulated) {
        return Some("one comes from an emulated device");
    }
    of_states(&one.before, &other.before)
}

/// The middle of a record's time, in seconds since 1970.
pub(super) fn middle_s(record: &Record) -> f64 {
    record.started_s as f64 + record.took_ms as f64 / 2_000.0
}

fn of_states(one: &State, other: &State) -> Option<&'static str> {
    if one.governors != other.governors {
        return Some("the frequency governor differs");
    }
    if one.charging.is_some() && other.charging.is_some() && one.charging != other.charging {
        return Some("one ran on mains power, the other on battery");
    }
    let mut both = one
        .temperatures_mc
        .iter()
        .filter_map(|(zone, temperature)| Some((temperature, other.temperatures_mc.get(zone)?)));
    if both.any(|(one, other)| (one - other).abs() > APART_MC) {
        return Some("they started at different temperatures");
    }
    None
}
