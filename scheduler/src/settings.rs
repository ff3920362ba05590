//! Settings as text, for interfaces without types for them: the command line, the C library, other
//! language bindings.
//!
//! Invariants:
//! 1. A setting means the same in every interface, and has the name of the command line option,
//!    without dashes.
//! 2. An unknown name or value is an error that lists the valid ones; nothing is ignored silently.
//!
//! Not here: the effect of a setting ([`Policy`], [`Builder`]).

mod readings;

use std::time::Duration;

use polychip_host::Priority;
use polychip_partitioner::{Heat, MilliCelsius, Milliwatts};
use polychip_profile::bundle::PublicKey;

use crate::error::{Error, ErrorKind, Result};
use crate::late_policy::Late;
use crate::policy::{Aim, Policy, Precision};
use crate::runtime::Builder;
use crate::session::govern::hint::Hint;
use crate::session::settings_change::SettingsChange;
use readings::Read;

/// A named setting.
struct Setting<T> {
    name: &'static str,
    set: fn(T, &str) -> Read<T>,
}

/// Settings of a policy, in the order of their names.
const OF_POLICY: &[Setting<Policy>] = &[
    Setting {
        name: "background",
        set: |policy, value| flag(value).map(|on| if on { policy.background() } else { policy }),
    },
    Setting {
        name: "background-planning",
        set: |policy, value| flag(value).map(|on| if on { policy.background_planning() } else { policy }),
    },
    Setting {
        name: "battery-saver",
        set: |policy, value| flag(value).map(|on| if on { policy.battery_saver() } else { policy }),
    },
    Setting {
        name: "buckets",
        set: |policy, value| buckets(value).map(|(name, sizes)| policy.shapes(name, sizes)),
    },
    Setting {
        name: "calibrate",
        set: |policy, value| flag(value).map(|on| policy.calibrate(on)),
    },
    Setting {
        name: "deadline",
        set: |policy, value| milliseconds(value).map(|time| policy.deadline(time)),
    },
    Setting {
        name: "devices",
        set: |policy, value| list(value).map(|devices| policy.devices(devices)),
    },
    Setting {
        name: "energy-price",
        set: |policy, value| milliseconds(value).map(|price| policy.energy_price(price)),
    },
    Setting {
        name: "frame-period",
        set: |policy, value| milliseconds(value).map(|period| policy.frame_period(period)),
    },
    Setting {
        name: "governed",
        set: |policy, value| flag(value).map(|on| if on { policy.governed() } else { policy }),
    },
    Setting {
        name: "hang-timeout",
        set: |policy, value| timeout(value).map(|time| policy.hang_timeout(time)),
    },
    Setting {
        name: "heat",
        set: |policy, value| heat(value).map(|(device, heat)| policy.heat(device, heat)),
    },
    Setting {
        name: "in-flight",
        set: |policy, value| number(value, 1, 64).map(|runs| policy.in_flight(runs as usize)),
    },
    Setting {
        name: "late",
        set: |policy, value| {
            let rules = [
                ("finish", Late::Finish),
                ("drop", Late::Drop),
                ("latest", Late::Latest),
            ];
            one_of(value, &rules).map(|late| policy.late(late))
        },
    },
    Setting {
        name: "learn",
        set: |policy, value| value.parse().map(|learn| policy.learn(learn)),
    },
    Setting {
        name: "longest-part",
        set: |policy, value| milliseconds(value).map(|time| policy.longest_part(time)),
    },
    Setting {
        name: "max-power",
        set: |policy, value| watts(value).map(|limit| policy.max_power(limit)),
    },
    Setting {
        name: "max-predicted-power",
        set: |policy, value| watts(value).map(|limit| policy.max_predicted_power(limit)),
    },
    Setting {
        name: "max-predicted-temperature",
        set: |policy, value| celsius(value).map(|limit| policy.max_predicted_temperature(limit)),
    },
    Setting {
        name: "max-surface-temperature",
        set: |policy, value| celsius(value).map(|limit| policy.max_surface_temperature(limit)),
    },
    Setting {
        name: "max-temperature",
        set: |policy, value| celsius(value).map(|limit| policy.max_temperature(limit)),
    },
    Setting {
        name: "no-replan",
        set: |policy, value| flag(value).map(|on| policy.replan(!on)),
    },
    Setting {
        name: "period",
        set: |policy, value| period(value).map(|time| policy.period(time)),
    },
    Setting {
        name: "pin",
        set: |policy, value| pin(value).map(|(node, device)| policy.pin(node, device)),
    },
    Setting {
        name: "policy",
        set: |policy, value| {
            let aims = [
                ("latency", Aim::Latency),
                ("energy", Aim::Energy),
                ("balanced", Aim::Balanced),
                ("makespan", Aim::Makespan),
                ("throughput", Aim::Throughput),
            ];
            one_of(value, &aims).map(|aim| policy.with_aim(aim))
        },
    },
    Setting {
        name: "precision",
        set: |policy, value| {
            let words = [("exact", Precision::Exact), ("reduced", Precision::Reduced)];
            one_of(value, &words).map(|precision| policy.precision(precision))
        },
    },
    Setting {
        name: "priority",
        set: |policy, value| {
            let words = [
                ("batch", Priority::Batch),
                ("normal", Priority::Normal),
                ("urgent", Priority::Urgent),
            ];
            one_of(value, &words).map(|priority| policy.priority(priority))
        },
    },
    Setting {
        name: "replicas",
        set: |policy, value| flag(value).map(|allowed| policy.replicas(allowed)),
    },
    Setting {
        name: "retry",
        set: |policy, value| number(value, 0, 100).map(|times| policy.retry(times as u32)),
    },
    Setting {
        name: "sampling",
        set: |policy, value| milliseconds(value).map(|every| policy.sampling(every)),
    },
    Setting {
        name: "seed",
        set: |policy, value| number(value, 0, u64::MAX).map(|seed| policy.seed(seed)),
    },
    Setting {
        name: "specialization-cache-bytes",
        set: |policy, value| number(value, 0, u64::MAX).map(|bytes| policy.specialization_cache_bytes(bytes)),
    },
    Setting {
        name: "threads",
        set: |policy, value| number(value, 0, 1024).map(|threads| policy.threads(threads as u32)),
    },
];

/// Settings of a runtime, in the order of their names.
const OF_BUILDER: &[Setting<Builder>] = &[
    Setting {
        name: "allow-rollback",
        set: |builder, value| flag(value).map(|on| if on { builder.allow_rollback() } else { builder }),
    },
    Setting {
        name: "cache",
        set: |builder, value| path(value).map(|folder| builder.cache(folder)),
    },
    Setting {
        name: "call-timeout",
        set: |builder, value| timeout(value).map(|time| builder.call_timeout(time)),
    },
    Setting {
        name: "clear-quarantine",
        set: |builder, value| flag(value).map(|on| if on { builder.clear_quarantine() } else { builder }),
    },
    Setting {
        name: "compile-timeout",
        set: |builder, value| timeout(value).map(|time| builder.compile_timeout(time)),
    },
    Setting {
        name: "death-limit",
        set: |builder, value| {
            number(value, 1, u64::from(u32::MAX)).map(|deaths| builder.death_limit(deaths as u32))
        },
    },
    Setting {
        name: "guard-buffers",
        set: |builder, value| flag(value).map(|on| if on { builder.guard_buffers() } else { builder }),
    },
    Setting {
        name: "installation",
        set: |builder, value| word(value).map(|name| builder.installation(name)),
    },
    Setting {
        name: "isolate",
        set: |builder, value| value.parse().map(|isolate| builder.isolate(isolate)),
    },
    Setting {
        name: "measure-rates",
        set: |builder, value| flag(value).map(|on| if on { builder.measure_rates() } else { builder }),
    },
    Setting {
        name: "memory-limit",
        set: |builder, value| bytes(value).map(|bytes| builder.memory_limit(bytes)),
    },
    Setting {
        name: "memory-pressure",
        set: |builder, value| value.parse().map(|reaction| builder.memory_pressure(reaction)),
    },
    Setting {
        name: "model-files",
        set: |builder, value| value.parse().map(|files| builder.model_files(files)),
    },
    Setting {
        name: "only-given-folders",
        set: |builder, value| flag(value).map(|on| if on { builder.only_given_folders() } else { builder }),
    },
    Setting {
        name: "plugins",
        set: |builder, value| path(value).map(|folder| builder.plugins(folder)),
    },
    Setting {
        name: "profile",
        set: |builder, value| path(value).map(|file| builder.profiles(file)),
    },
    Setting {
        name: "restart-delay",
        set: |builder, value| match value {
            "0" => Ok(builder.restart_delay(Duration::ZERO)),
            value => timeout(value).map(|delay| builder.restart_delay(delay)),
        },
    },
    Setting {
        name: "sandbox",
        set: |builder, value| flag(value).map(|confines| builder.sandbox(confines)),
    },
    Setting {
        name: "set",
        set: |builder, value| {
            plugin_setting(value).map(|(plugin, key, value)| builder.configure(&plugin, &key, value))
        },
    },
    Setting {
        name: "trust",
        set: |builder, value| {
            let key = value.parse::<PublicKey>();
            key.map(|key| builder.trust(key))
                .map_err(|error| error.to_string())
        },
    },
    Setting {
        name: "virtual-time",
        set: |builder, value| flag(value).map(|on| if on { builder.virtual_time() } else { builder }),
    },
];

/// Former names of settings, with the current name.
const RENAMED: &[(&str, &str)] = &[
    ("hottest", "max-temperature"),
    ("kept-shapes", "specialization-cache-bytes"),
    ("max-surface", "max-surface-temperature"),
    ("patience", "hang-timeout"),
];

/// Settings that may be set several times, each adding to the earlier ones.
const REPEATED: &[&str] = &["buckets", "heat", "pin", "plugins", "profile", "set", "trust"];

/// Reads a change of a running session.
type ReadChange = fn(&str) -> Read<SettingsChange>;

/// Settings that may change while a session runs, by name.
const OF_SESSION: &[(&str, ReadChange)] = &[
    ("background", |value| {
        flag(value).map(|on| SettingsChange::Hint(Hint::Foreground(!on)))
    }),
    ("battery", |value| {
        or_no(value, readings::battery).map(|battery| SettingsChange::Hint(Hint::Battery(battery)))
    }),
    ("battery-saver", |value| {
        flag(value).map(|on| SettingsChange::Hint(Hint::BatterySaver(on)))
    }),
    ("deadline", |value| {
        or_no(value, milliseconds).map(SettingsChange::Deadline)
    }),
    ("frame-period", |value| {
        or_no(value, milliseconds).map(|period| SettingsChange::Hint(Hint::FramePeriod(period)))
    }),
    ("learn", |value| value.parse().map(SettingsChange::Learn)),
    ("max-power", |value| {
        or_no(value, watts).map(|limit| SettingsChange::Hint(Hint::MaxPower(limit)))
    }),
    ("max-surface-temperature", |value| {
        or_no(value, celsius).map(|limit| SettingsChange::Hint(Hint::MaxSurfaceTemperature(limit)))
    }),
    ("max-temperature", |value| {
        or_no(value, celsius).map(|limit| SettingsChange::Hint(Hint::MaxTemperature(limit)))
    }),
    ("thermal-headroom", |value| {
        or_no(value, readings::headroom).map(|headroom| SettingsChange::Hint(Hint::ThermalHeadroom(headroom)))
    }),
];

/// Names of the settings that can change while a session runs
/// ([`Session::set`](crate::Session::set)).
pub fn of_session() -> impl Iterator<Item = &'static str> {
    OF_SESSION.iter().map(|(name, _)| *name)
}

/// Reads a change of a running session.
pub(crate) fn read_change(name: &str, value: &str) -> Result<SettingsChange> {
    let bad = |words: String| Error::new(ErrorKind::BadInput, words);
    let Some((_, read)) = OF_SESSION.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = of_session().collect();
        if let Some(new) = renamed(name).filter(|new| known.contains(new)) {
            return Err(bad(format!("session setting {name:?} is now {new:?}")));
        }
        let also = if of_policy().any(|known| known == name) {
            " (set it in the session's policy)"
        } else {
            ""
        };
        return Err(bad(format!(
            "session setting {name:?} cannot change while it runs{also}; these can: {}",
            known.join(", ")
        )));
    };
    read(value).map_err(|words| bad(format!("session setting {name:?}: {words}")))
}

/// Names of the settings of a policy.
pub fn of_policy() -> impl Iterator<Item = &'static str> {
    OF_POLICY.iter().map(|setting| setting.name)
}

/// Names of the settings of a runtime.
pub fn of_runtime() -> impl Iterator<Item = &'static str> {
    OF_BUILDER.iter().map(|setting| setting.name)
}

/// Whether a setting may be given several times, such as `pin`. An interface with one value per
/// option must accept a list of values for it.
#[must_use]
pub fn is_repeated(name: &str) -> bool {
    REPEATED.contains(&name)
}

impl Policy {
    /// Applies a setting given as text: a command line option without its dashes, and its value.
    ///
    /// | name | value |
    /// |---|---|
    /// | `policy` | `latency`, `energy`, `balanced` ([`Policy::balanced`]), `makespan`, `throughput` |
    /// | `devices` | `cpu:0,gpu`: devices, or plugins for all of theirs |
    /// | `pin` | `PATTERN=DEVICE`; may be repeated |
    /// | `threads` | number of threads of a CPU; 0 leaves it to the plugin |
    /// | `precision` | `exact`, `reduced` |
    /// | `priority` | `batch`, `normal`, `urgent` |
    /// | `deadline`, `longest-part` | milliseconds: `33` or `33ms` |
    /// | `hang-timeout` | milliseconds, or seconds: `30s` |
    /// | `energy-price` | milliseconds per joule ([`Policy::energy_price`]) |
    /// | `period` | milliseconds, or frames per second: `33`, `33ms` or `30fps`; `0`: back to back |
    /// | `late` | `finish`, `drop`, `latest` |
    /// | `in-flight` | runs that may be in flight at once, 1 to 64 |
    /// | `retry` | how often a failed run is retried, 0 to 100 |
    /// | `seed` | the seed of random numbers, a whole number ([`Policy::seed`]) |
    /// | `learn` | `no`, `watch`, `yes`, or a budget from `2%` to `20%` |
    /// | `no-replan`, `background-planning`, `replicas` | `yes`, `no` |
    /// | `max-predicted-power` | watts: `5` or `5W` |
    /// | `max-temperature`, `max-predicted-temperature` | degrees Celsius: `80` or `80C` |
    /// | `governed`, `background`, `battery-saver` | `yes`, `no`; each makes the session governed ([`Policy::governed`]) |
    /// | `frame-period`, `sampling` | milliseconds; each makes the session governed |
    /// | `max-power` | watts; makes the session governed |
    /// | `max-surface-temperature` | degrees Celsius; makes the session governed |
    /// | `heat` | `npu:0=30C+9K/W`; may be repeated |
    /// | `buckets` | `NAME=1,4,16`; may be repeated |
    /// | `specialization-cache-bytes` | bytes |
    ///
    /// `max-power`, `max-temperature` and `max-surface-temperature` limit sensor readings;
    /// `max-predicted-power` and `max-predicted-temperature` limit the predictions of a plan. The order
    /// of the settings does not matter.
    ///
    /// ```
    /// # fn main() -> Result<(), polychip::Error> {
    /// let policy = polychip::Policy::latency().with_setting("deadline", "33ms")?.with_setting("threads", "2")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The setting does not exist, or its value is invalid.
    pub fn with_setting(self, name: &str, value: &str) -> Result<Policy> {
        set(OF_POLICY, "policy", self, name, value)
    }
}

impl Builder {
    /// Applies a setting given as text: a command line option without its dashes, and its value.
    ///
    /// | name | value |
    /// |---|---|
    /// | `plugins` | a folder; may be repeated |
    /// | `profile` | a file |
    /// | `cache` | a folder |
    /// | `set` | `PLUGIN.KEY=VALUE`; may be repeated |
    /// | `trust` | the public key of a bundle signer, as `polychip farm keygen` prints it; may be repeated |
    /// | `installation` | a random name that the app keeps ([`Builder::installation`]) |
    /// | `allow-rollback` | `yes`, `no` |
    /// | `isolate` | `none`, `auto`, `probe`, `vendors`, `all`: plugins in processes of their own ([`Builder::isolate`]) |
    /// | `memory-limit` | bytes: `800000000`, `800MB` or `1.5GiB`; `none` ([`Builder::memory_limit`]) |
    /// | `memory-pressure` | `follow`, `ignore` ([`Builder::memory_pressure`]) |
    /// | `model-files` | `guard`, `copy`, `map`: how model files are held in memory ([`Builder::model_files`]) |
    /// | `compile-timeout`, `call-timeout` | milliseconds, or seconds (`300s`): how long calls of such plugins may take |
    /// | `restart-delay` | milliseconds, or seconds; `0`: the delay before such a plugin is started again ([`Builder::restart_delay`]) |
    /// | `death-limit` | deaths of its process after which such a plugin is quarantined ([`Builder::death_limit`]) |
    /// | `clear-quarantine` | `yes`, `no`: forget quarantines of earlier programs ([`Builder::clear_quarantine`]) |
    /// | `guard-buffers` | `yes`, `no`: find plugins that write outside their tensors ([`Builder::guard_buffers`]) |
    /// | `measure-rates`, `only-given-folders`, `sandbox`, `virtual-time` | `yes`, `no` |
    ///
    /// ```
    /// # fn main() -> Result<(), polychip::Error> {
    /// let runtime = polychip::Runtime::builder().with_setting("set", "cpu.threads=2")?.build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The setting does not exist, or its value is invalid.
    pub fn with_setting(self, name: &str, value: &str) -> Result<Builder> {
        set(OF_BUILDER, "runtime", self, name, value)
    }
}

/// The current name of a setting that was renamed; `None` if no setting had the name `former`.
#[must_use]
pub fn renamed(former: &str) -> Option<&'static str> {
    RENAMED
        .iter()
        .find(|(old, _)| *old == former)
        .map(|(_, new)| *new)
}

fn set<T>(settings: &[Setting<T>], what: &str, thing: T, name: &str, value: &str) -> Result<T> {
    let Some(setting) = settings.iter().find(|setting| setting.name == name) else {
        let known: Vec<&str> = settings.iter().map(|setting| setting.name).collect();
        let words = match renamed(name).filter(|new| known.contains(new)) {
            Some(new) => format!("the {what} setting {name:?} is now {new:?}"),
            None => format!(
                "a {what} has no setting {name:?}; its settings are: {}",
                known.join(", ")
            ),
        };
        return Err(Error::new(ErrorKind::BadInput, words));
    };
    (setting.set)(thing, value)
        .map_err(|words| Error::new(ErrorKind::BadInput, format!("{what} setting {name:?}: {words}")))
}

/// Reads `yes` or `no`.
fn flag(text: &str) -> Read<bool> {
    one_of(text, &[("yes", true), ("no", false)])
}

fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Read<T> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    Err(format!("{text:?} is not one of {}", known.join(", ")))
}

fn number(text: &str, least: u64, most: u64) -> Read<u64> {
    match text.parse() {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        _ => Err(format!("{text:?} is not a whole number from {least} to {most}")),
    }
}

fn path(text: &str) -> Read<&str> {
    match text {
        "" => Err("the path is empty".to_owned()),
        path => Ok(path),
    }
}

fn word(text: &str) -> Read<&str> {
    match text {
        "" => Err("the name is empty".to_owned()),
        word => Ok(word),
    }
}

/// Reads a value, or `no`, which removes it.
fn or_no<T>(text: &str, read: fn(&str) -> Read<T>) -> Read<Option<T>> {
    match text {
        "no" => Ok(None),
        text => read(text)
            .map(Some)
            .map_err(|words| format!("{words}; `no` removes the value")),
    }
}

fn list(text: &str) -> Read<Vec<String>> {
    let names = text.split(',').map(|name| match name.trim() {
        "" => Err(format!(
            "empty name in {text:?}; expected plugin:index, separated by commas"
        )),
        name => Ok(name.to_owned()),
    });
    names.collect()
}

/// Reads watts: `300` or `300W`.
///
/// # Errors
/// A message with the valid form, if the text is not a power from above 0 to 1 MW.
pub fn watts(text: &str) -> Read<Milliwatts> {
    let number = text.trim_end_matches(['W', 'w']).trim();
    match number.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(Milliwatts::new((value * 1e3).round() as u64)),
        _ => Err(format!(
            "invalid power {text:?}; expected watts above 0, e.g. 300 or 300W"
        )),
    }
}

/// Reads a size of memory in bytes: `800000000`, `800MB` or `1.5GiB`; `none` gives the largest number, which
/// means no limit.
///
/// # Errors
/// A message with the valid form, if the text is not a size.
pub fn bytes(text: &str) -> Read<u64> {
    /// Units, of which those with a common end are listed first.
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];
    if text == "none" {
        return Ok(u64::MAX);
    }
    let bad = || format!("invalid size {text:?}; expected bytes, e.g. 800000000, 800MB or 1.5GiB, or none");
    let unit = UNITS
        .iter()
        .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
    match unit {
        None => text.parse().map_err(|_| bad()),
        Some((number, unit)) => match number.trim().parse::<f64>() {
            // `as` is exact enough for a size that was given in units
            Ok(number) if (0.0..=1e9).contains(&number) => Ok((number * unit as f64).round() as u64),
            _ => Err(bad()),
        },
    }
}

/// Reads degrees Celsius: `80` or `80C`.
///
/// # Errors
/// A message with the valid form, if the text is not a temperature from -50 °C to 200 °C.
pub fn celsius(text: &str) -> Read<MilliCelsius> {
    let number = text.trim_end_matches(['C', 'c', '°']).trim();
    match number.parse::<f64>() {
        Ok(value) if (-50.0..=200.0).contains(&value) => Ok(MilliCelsius::from_celsius(value)),
        _ => Err(format!(
            "invalid temperature {text:?}; expected -50 to 200 degrees Celsius, e.g. 80 or 80C"
        )),
    }
}

/// Reads milliseconds: `33` or `33ms`.
///
/// # Errors
/// A message with the valid form, if the text is not a time above 0.
pub fn milliseconds(text: &str) -> Read<Duration> {
    let number = text.strip_suffix("ms").unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e9 => Ok(Duration::from_secs_f64(value / 1e3)),
        _ => Err(format!(
            "invalid time {text:?}; expected milliseconds above 0, e.g. 33 or 33ms"
        )),
    }
}

/// Reads a time limit: `30000`, `30000ms` or `30s`.
///
/// # Errors
/// A message with the valid form, if the text is not a time above 0.
pub fn timeout(text: &str) -> Read<Duration> {
    let seconds = text.strip_suffix('s').filter(|number| !number.ends_with('m'));
    match seconds.map(|number| number.trim().parse::<f64>()) {
        None => milliseconds(text),
        Some(Ok(value)) if value > 0.0 && value <= 1e6 => Ok(Duration::from_secs_f64(value)),
        Some(_) => Err(format!(
            "invalid time {text:?}; expected a time above 0, e.g. 30s or 500ms"
        )),
    }
}

/// Reads a run period: `33`, `33ms`, `1s` or `30fps`; `0` means back to back.
///
/// # Errors
/// A message with the valid form, if the text is not a period.
pub fn period(text: &str) -> Read<Duration> {
    let bad = || format!("invalid period {text:?}; expected e.g. 33ms, 1s, 30fps, or 0 for back to back");
    if let Some(rate) = text.strip_suffix("fps") {
        return match rate.trim().parse::<f64>() {
            Ok(rate) if (1e-3..=1e6).contains(&rate) => Ok(Duration::from_secs_f64(1.0 / rate)),
            _ => Err(bad()),
        };
    }
    let (number, seconds) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (None, Some(number)) => (number, 1.0),
        (number, _) => (number.unwrap_or(text), 1e-3),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if (0.0..=1e9).contains(&value) => Ok(Duration::from_secs_f64(value * seconds)),
        _ => Err(bad()),
    }
}

/// Reads a thermal model of a device: `DEVICE=CELSIUS+KELVIN/W`.
///
/// # Errors
/// A message with the valid form, if the text is not a thermal model.
pub fn heat(text: &str) -> Read<(String, Heat)> {
    let shape = || format!("invalid thermal model {text:?}; expected e.g. npu:0=30C+9K/W");
    let (device, figures) = text.rsplit_once('=').ok_or_else(shape)?;
    let (rest, rise) = figures.split_once('+').ok_or_else(shape)?;
    let rise = rise.strip_suffix("K/W").unwrap_or(rise).trim();
    let resistance = match rise.parse::<f64>() {
        Ok(value) if (0.0..=1e6).contains(&value) => (value * 1e3).round() as u64,
        _ => return Err(shape()),
    };
    let heat = Heat {
        rest: celsius(rest)?,
        resistance_mk_per_w: resistance,
    };
    if device.is_empty() {
        Err(shape())
    } else {
        Ok((device.to_owned(), heat))
    }
}

/// Reads the bucket sizes of an open dimension: `NAME=1,4,16`.
///
/// # Errors
/// A message with the valid form, if the text is not a list of buckets.
pub fn buckets(text: &str) -> Read<(String, Vec<usize>)> {
    const FORM: &str = "write NAME=1,4,16";
    let (name, list) = text.rsplit_once('=').ok_or(FORM)?;
    if name.is_empty() {
        return Err(format!("the dimension's name is empty; {FORM}"));
    }
    let sizes = list.split(',').map(|size| match size.parse() {
        Ok(0) | Err(_) => Err(format!(
            "invalid size {size:?} in {list:?}, expected a whole number above 0; {FORM}"
        )),
        Ok(size) => Ok(size),
    });
    Ok((name.to_owned(), sizes.collect::<Read<Vec<usize>>>()?))
}

/// Reads a pin of nodes to a device: `PATTERN=DEVICE`.
///
/// # Errors
/// A message with the valid form, if the text is not a pin.
pub fn pin(text: &str) -> Read<(String, String)> {
    match text.rsplit_once('=') {
        Some((pattern, device)) if !pattern.is_empty() && !device.is_empty() => {
            Ok((pattern.to_owned(), device.to_owned()))
        }
        _ => Err("write PATTERN=DEVICE".into()),
    }
}

/// Reads a plugin setting: `PLUGIN.KEY=VALUE`; the value may hold any characters.
///
/// # Errors
/// A message with the valid form, if the text is not a plugin setting.
pub fn plugin_setting(text: &str) -> Read<(String, String, String)> {
    let shape = "write PLUGIN.KEY=VALUE";
    let (name, value) = text.split_once('=').ok_or(shape)?;
    let (plugin, key) = name.split_once('.').ok_or(shape)?;
    if plugin.is_empty() || key.is_empty() {
        return Err(format!("{name:?} does not name a plugin setting; {shape}"));
    }
    Ok((plugin.to_owned(), key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests;
