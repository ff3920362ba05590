//! Conditions: the state of a device and its machine during a measurement, on which times depend in
//! addition to a session's settings. Also selects the measurements that fit other conditions.
//!
//! Invariants:
//! 1. A value that the system does not report is absent; nothing is invented.
//! 2. The text is a function of the values, sorted by name, so that equal conditions have equal
//!    texts.
//! 3. A selection among batches is never empty if there are batches, and depends only on them and
//!    the current state.
//! 4. Batches that are selected together have one cadence.
//!
//! Not here: reading sensors (the scheduler), storage of batches (`database`).

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use polychip_partitioner::MilliCelsius;

use crate::cadence::Cadence;

/// Width of a temperature band in millidegrees: within ten degrees, the leakage and the clocks of a chip change by
/// less than runs differ.
const BAND_MC: i64 = 10_000;
/// Clocks are stated in steps of 100 MHz: cpufreq's own readings jitter by less.
const CLOCK_KHZ: u64 = 100_000;
/// Clocks that differ by less than this share of them are alike: as much as a chip's clock moves by itself under load.
const CLOCK_SHARE: u64 = 10;
/// Measurements without which a median has no interval of 95 %.
const ENOUGH: usize = 6;

/// The known state of a device and its machine.
///
/// ```
/// use polychip_profile::Conditions;
/// let conditions = Conditions { governor: Some("performance".into()), khz: Some(2_412_345), ..Conditions::default() };
/// assert_eq!(conditions.to_string(), "governor=performance load_mhz=2400");
/// assert_eq!("governor=performance load_mhz=2400".parse(), Ok(Conditions { khz: Some(2_400_000), ..conditions }));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// The cadence of the runs. Rows without one, from older versions, count as back to back.
    pub cadence: Option<Cadence>,
    /// The clock governor of the device.
    pub governor: Option<String>,
    /// The device's clock while it computes, in kilohertz. The clock of an idle chip is not
    /// recorded.
    pub khz: Option<u64>,
    /// The device's temperature.
    pub temperature: Option<MilliCelsius>,
    /// Power mode of the machine (`low-power`, `balanced`, `performance`).
    pub power_mode: Option<String>,
    /// Runnable threads of other programs.
    pub contention: Option<u32>,
    /// Whether the device's times were still changing when measuring began.
    pub unsteady: bool,
}

impl Conditions {
    /// Parses a text; unknown keys are ignored.
    #[must_use]
    pub fn read(text: &str) -> Conditions {
        match text.parse() {
            Ok(conditions) => conditions,
            Err(never) => match never {},
        }
    }

    /// Only cadence, governor, clock and power mode, which last until something changes them.
    #[must_use]
    pub fn lasting(&self) -> Conditions {
        Conditions {
            cadence: self.cadence,
            governor: self.governor.clone(),
            khz: self.khz,
            power_mode: self.power_mode.clone(),
            ..Conditions::default()
        }
    }

    /// Only cadence, governor and power mode, which are known even of an idle chip.
    #[must_use]
    pub fn settings(&self) -> Conditions {
        Conditions {
            khz: None,
            ..self.lasting()
        }
    }

    fn band(&self) -> Option<i64> {
        let temperature = self.temperature?;
        Some(temperature.millidegrees().div_euclid(BAND_MC))
    }

    /// Each named, in the text's order.
    fn named(&self) -> Vec<(&'static str, String)> {
        let mut named = Vec::new();
        named.extend(self.cadence.map(|cadence| ("cadence", cadence.to_string())));
        if let Some(band) = self.band() {
            let low = band * BAND_MC / 1_000;
            named.push(("celsius", format!("{low}..{}", low + BAND_MC / 1_000)));
        }
        named.extend(self.contention.map(|others| ("contention", others.to_string())));
        named.extend(self.governor.clone().map(|governor| ("governor", governor)));
        if let Some(khz) = self.khz {
            let steps = khz.saturating_add(CLOCK_KHZ / 2) / CLOCK_KHZ;
            named.push(("load_mhz", (steps * CLOCK_KHZ / 1_000).to_string()));
        }
        named.extend(self.power_mode.clone().map(|mode| ("power", mode)));
        if self.unsteady {
            named.push(("steady", "no".to_owned()));
        }
        named
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.named().into_iter();
        let words: Vec<String> = named.map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&words.join(" "))
    }
}

impl FromStr for Conditions {
    type Err = Infallible;

    /// Reads what `Display` writes. Of a band of temperatures the lower end is taken. What is not understood is absent:
    /// files of older versions state `mhz`, the clock of the first core before the runs, which is no device's under
    /// load.
    fn from_str(text: &str) -> Result<Conditions, Infallible> {
        let mut found = Conditions::default();
        for (name, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
            match name {
                "governor" => found.governor = Some(value.to_owned()),
                "cadence" => found.cadence = value.parse().ok(),
                "power" => found.power_mode = Some(value.to_owned()),
                "contention" => found.contention = value.parse().ok(),
                "steady" => found.unsteady = value == "no",
                "load_mhz" => found.khz = value.parse().ok().and_then(|mhz: u64| mhz.checked_mul(1_000)),
                "celsius" => {
                    let low = value
                        .split_once("..")
                        .and_then(|(low, _)| low.parse::<i64>().ok());
                    let low = low.and_then(|low| low.checked_mul(1_000));
                    found.temperature = low.map(MilliCelsius::new);
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// What all of these have, in one line: values that differ are listed.
pub(crate) fn together<'a>(all: impl Iterator<Item = &'a Conditions>) -> String {
    let mut seen: std::collections::BTreeMap<&'static str, BTreeSet<String>> =
        std::collections::BTreeMap::new();
    for conditions in all {
        for (name, value) in conditions.named() {
            seen.entry(name).or_default().insert(value);
        }
    }
    let words = seen.into_iter().map(|(name, values)| {
        let values: Vec<String> = values.into_iter().collect();
        format!("{name}={}", values.join(","))
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Batches of measurements that are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Their places among those given, in their order.
    pub(crate) places: Vec<usize>,
    /// Whether they were measured under the governor and the power mode that hold, as far as these are known.
    pub(crate) agrees: bool,
    /// Whether they were measured at the cadence that is asked for, where one is.
    pub(crate) of_cadence: bool,
}

/// The batches, of which each is given with its number of measurements, that are nearest to what holds now. One field
/// after the other leaves out batches, never all of them:
///
/// 0. the cadence: those of the nearest one, which alone are compared at all;
/// 1. the governor, then the power mode: those that have the same, where any do;
/// 2. the clock: those that state it, if any do; of these the ones whose clock is within a tenth of the nearest to the
///    present one, or of the highest where the present one is not known, because a chip at work goes up to it;
/// 3. those whose times had become steady before they were measured, where any had;
/// 4. the band of temperature, then how many other threads could run, by powers of two: the nearest ones, as many as
///    have six measurements, without which there is no interval.
pub(crate) fn choose(now: &Conditions, batches: &[(Conditions, usize)]) -> Choice {
    let of = |place: &usize| &batches[*place].0;
    let mut places: Vec<usize> = (0..batches.len()).collect();
    let of_cadence = keep_nearest_cadence(now, batches, &mut places);
    let mut agrees = true;
    let settings: [fn(&Conditions) -> Option<&String>; 2] =
        [|one| one.governor.as_ref(), |one| one.power_mode.as_ref()];
    for setting in settings {
        if setting(now).is_some() {
            agrees &= keep(&mut places, |place| setting(of(place)) == setting(now));
        }
    }
    let clocks = places.iter().filter_map(|place| of(place).khz);
    let nearest = match now.khz {
        Some(khz) => clocks.min_by_key(|clock| (clock.abs_diff(khz), std::cmp::Reverse(*clock))),
        None => clocks.max(),
    };
    if let Some(nearest) = nearest {
        let alike = |clock: u64| clock.abs_diff(nearest) <= nearest / CLOCK_SHARE;
        keep(&mut places, |place| of(place).khz.is_some_and(alike));
    }
    keep(&mut places, |place| !of(place).unsteady);
    let bands: [fn(&Conditions) -> Option<i64>; 2] = [Conditions::band, |one| one.contention.map(magnitude)];
    for band in bands {
        let Some(here) = band(now) else { continue };
        let mut apart: Vec<(u64, usize)> = places
            .iter()
            .filter_map(|place| Some((band(of(place))?.abs_diff(here), batches[*place].1)))
            .collect();
        apart.sort_unstable();
        let mut held = 0;
        let furthest = apart.into_iter().find(|(_, measurements)| {
            held += measurements;
            held >= ENOUGH
        });
        if let Some((furthest, _)) = furthest {
            keep(&mut places, |place| {
                band(of(place)).is_some_and(|there| there.abs_diff(here) <= furthest)
            });
        }
    }
    Choice {
        places,
        agrees,
        of_cadence,
    }
}

/// Keeps those of the cadence that is nearest to the one asked for, which is back to back where nothing is asked; of two that
/// are as near, the one of longer gaps. Where some say that they are of it, those that state none are left out. Whether it is
/// the one that was asked for.
fn keep_nearest_cadence(now: &Conditions, batches: &[(Conditions, usize)], places: &mut Vec<usize>) -> bool {
    let asked = now.cadence.unwrap_or_default().rank();
    let distance = |place: &usize| {
        let stated = batches[*place].0.cadence;
        let rank = stated.unwrap_or_default().rank();
        (rank.abs_diff(asked), rank < asked, stated.is_none())
    };
    let Some(nearest) = places.iter().map(distance).min() else {
        return true;
    };
    places.retain(|place| distance(place) == nearest);
    now.cadence.is_none() || nearest.0 == 0
}

/// Keeps those that fit, where any do; whether any did.
fn keep(places: &mut Vec<usize>, fits: impl Fn(&usize) -> bool) -> bool {
    let any = places.iter().any(&fits);
    if any {
        places.retain(fits);
    }
    any
}

/// None, one, two or three, four to seven, …
fn magnitude(threads: u32) -> i64 {
    i64::from(u32::BITS - threads.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Conditions {
        text.parse().unwrap()
    }

    /// Which batches are chosen, of 11 measurements each.
    fn chosen(now: &str, batches: &[&str]) -> Vec<usize> {
        let batches: Vec<(Conditions, usize)> = batches.iter().map(|text| (read(text), 11)).collect();
        choose(&read(now), &batches).places
    }

    #[test]
    fn bands_reach_below_zero() {
        let at = |mc| Conditions {
            temperature: Some(MilliCelsius::new(mc)),
            ..Conditions::default()
        };
        assert_eq!(at(-1).to_string(), "celsius=-10..0");
        assert_eq!(at(0).to_string(), "celsius=0..10");
    }

    #[test]
    fn conditions_round_trip_and_unknown_keys_are_dropped() {
        let text = "celsius=-10..0 contention=3 governor=schedutil load_mhz=1700 power=balanced steady=no";
        assert_eq!(read(text).to_string(), text);
        assert_eq!(read("").to_string(), "");
        // the clock of the first core before the runs, of older versions
        assert_eq!(
            read("mhz=2400 other celsius=x load_mhz=-1"),
            Conditions::default()
        );
    }

    #[test]
    fn idle_chip_uses_its_boost_clock() {
        let batches = ["load_mhz=300", "load_mhz=1900", "", "load_mhz=2000"];
        assert_eq!(chosen("", &batches), [1, 3]);
        // a clock that is held down is another matter
        assert_eq!(chosen("load_mhz=700", &batches), [0]);
        assert_eq!(chosen("load_mhz=5000", &batches), [1, 3]);
        // as far from both: the higher one
        assert_eq!(chosen("load_mhz=1100", &batches[..2]), [1]);
        assert_eq!(chosen("load_mhz=1100", &["", "governor=a"]), [0, 1]);
    }

    #[test]
    fn governor_and_power_mode_come_before_the_clock() {
        let batches = [
            "governor=powersave load_mhz=800",
            "governor=performance load_mhz=2000",
            "load_mhz=2000",
            "governor=powersave load_mhz=900 power=low-power",
        ];
        assert_eq!(chosen("governor=powersave", &batches), [3]);
        assert_eq!(chosen("governor=powersave load_mhz=800", &batches), [0]);
        assert_eq!(chosen("governor=powersave power=low-power", &batches), [3]);
        assert_eq!(chosen("governor=performance power=low-power", &batches), [1]);
        let all: Vec<(Conditions, usize)> = batches.iter().map(|text| (read(text), 1)).collect();
        assert!(choose(&read("governor=powersave"), &all).agrees);
        let other = choose(&read("governor=ondemand"), &all);
        assert_eq!((other.places.as_slice(), other.agrees), (&[1, 2][..], false));
    }

    #[test]
    fn bands_and_contention_leave_six_measurements() {
        let batches = |counts: [usize; 3]| -> Vec<(Conditions, usize)> {
            let texts = [
                "celsius=40..50 contention=1",
                "celsius=50..60",
                "celsius=80..90 contention=9",
            ];
            texts.iter().map(|text| read(text)).zip(counts).collect()
        };
        let choose = |now: &str, counts| choose(&read(now), &batches(counts)).places;
        assert_eq!(choose("celsius=40..50", [6, 9, 9]), [0]);
        assert_eq!(choose("celsius=40..50", [5, 1, 9]), [0, 1]);
        assert_eq!(choose("celsius=40..50", [1, 1, 1]), [0, 1, 2]);
        assert_eq!(choose("celsius=70..80", [6, 9, 9]), [2]);
        assert_eq!(choose("contention=8", [6, 9, 6]), [2]);
        assert_eq!(choose("contention=8", [6, 9, 5]), [0, 2]);
        assert_eq!(choose("", [6, 9, 6]), [0, 1, 2]);
    }

    #[test]
    fn cadences_are_never_mixed() {
        let batches = [
            "load_mhz=1900",
            "cadence=28..56ms load_mhz=340",
            "cadence=back-to-back load_mhz=1900",
            "cadence=after-idle",
            "cadence=28..56ms load_mhz=2000",
        ];
        assert_eq!(chosen("cadence=back-to-back", &batches), [2]);
        assert_eq!(chosen("", &batches), [2]);
        assert_eq!(chosen("cadence=28..56ms load_mhz=340", &batches), [1]);
        assert_eq!(chosen("cadence=896..1792ms", &batches), [3]);
        // those of older versions are back to back
        assert_eq!(chosen("cadence=back-to-back", &batches[..2]), [0]);
        let all: Vec<(Conditions, usize)> = batches.iter().map(|text| (read(text), 11)).collect();
        let is_of_it = |now: &str| choose(&read(now), &all).of_cadence;
        assert!(is_of_it("cadence=28..56ms") && is_of_it(""));
        assert!(!is_of_it("cadence=56..112ms"));
    }

    #[test]
    fn unsteady_rows_are_the_last_resort() {
        let batches = ["load_mhz=1900 steady=no", "load_mhz=1800", "load_mhz=800"];
        assert_eq!(chosen("", &batches), [1]);
        assert_eq!(chosen("", &batches[..1]), [0]);
    }

    #[test]
    fn conditions_that_differ_are_listed_together() {
        let all = [
            read("governor=a load_mhz=1900"),
            read("governor=a load_mhz=2000 contention=1"),
        ];
        assert_eq!(together(all.iter()), "contention=1 governor=a load_mhz=1900,2000");
    }
}
