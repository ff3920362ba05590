//! The boards of a desk: `farm.toml`.
//!
//! Invariant: a file with an error is refused as a whole, and the message names the board and the key.
//!
//! Not here: boards of a labgrid coordinator (`labgrid`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use polychip_farm_record::{InventoryEntry, Limits};
use serde::Deserialize;

use crate::transport::{Adb, Local, Ssh, Transport};

/// A board as an inventory describes it.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its name, its tags, and how it is reached.
    pub place: InventoryEntry,
    /// The connection to it.
    pub transport: Arc<dyn Transport>,
    /// Folder on the board that is the farm's own.
    pub folder: String,
    /// The runner for it, on this host; where absent, that of the driver's own system.
    pub runner: Option<PathBuf>,
    /// The conformance suite for it, on this host.
    pub conform: Option<PathBuf>,
    /// Plugin libraries for it, on this host.
    pub plugins: Vec<PathBuf>,
    /// When it is fit to be measured on.
    pub limits: Limits,
    /// Variables of the runner's environment.
    pub environment: Vec<(String, String)>,
    /// It is emulated: its times say nothing of a chip.
    pub emulated: bool,
    /// Longest that it is tried again while it cannot be reached; where absent, a few tries.
    pub reconnect: Option<Duration>,
    /// How it is held against others.
    pub hold: Hold,
}

/// What a board is held by while it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// A lock of this host, in this folder, under the board's address.
    Lock {
        /// Folder of locks.
        folder: PathBuf,
        /// The board, by how it is reached.
        name: String,
    },
    /// A place of labgrid's coordinator.
    Labgrid {
        /// The coordinator, `host:port`; absent for labgrid's own default.
        coordinator: Option<String>,
        /// The place.
        place: String,
    },
    /// By nothing: simulated boards are one run's.
    Nothing,
}

/// Why an inventory is refused.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// The file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is no TOML, or has keys that mean nothing.
    #[error("{path}: {words}", path = path.display())]
    BadToml {
        /// The file.
        path: PathBuf,
        /// Where, and why.
        words: String,
    },
    /// A board is described wrongly.
    #[error("{path}: board {board:?}: {words}", path = path.display())]
    BadBoard {
        /// The file.
        path: PathBuf,
        /// Its name.
        board: String,
        /// Why.
        words: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Folder of the locks that all users of the desk share.
    locks: Option<PathBuf>,
    #[serde(default, rename = "board")]
    boards: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    transport: String,
    address: Option<String>,
    port: Option<u16>,
    key: Option<PathBuf>,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    folder: Option<String>,
    runner: Option<PathBuf>,
    conform: Option<PathBuf>,
    #[serde(default)]
    plugins: Vec<PathBuf>,
    hottest_start_celsius: Option<f64>,
    coldest_start_celsius: Option<f64>,
    patience_s: Option<u32>,
    load_by_others_percent: Option<f64>,
    #[serde(default)]
    throttled: bool,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    emulated: bool,
    reconnect_s: Option<u64>,
}

/// Where the farm's folder is in the user's home on a board over ssh, if nothing else is said: boards that share homes
/// have folders of their own.
pub(crate) fn home_folder(name: &str) -> String {
    format!("~/.cache/polychip-farm/{name}")
}

/// Where the farm's folder is on a board over adb, if nothing else is said: what its shell may write, and run programs in.
pub(crate) const ADB_FOLDER: &str = "/data/local/tmp/polychip-farm";

/// Reads an inventory. Paths in it start where the file lies.
///
/// # Errors
/// It cannot be read, or is described wrongly.
pub fn read(path: &Path) -> Result<Vec<Member>, InventoryError> {
    let text = std::fs::read_to_string(path).map_err(|source| InventoryError::Io {
        path: path.to_owned(),
        source,
    })?;
    parse(&text, path)
}

fn parse(text: &str, path: &Path) -> Result<Vec<Member>, InventoryError> {
    let bad_toml = |words: String| InventoryError::BadToml {
        path: path.to_owned(),
        words,
    };
    let file: File = toml::from_str(text).map_err(|error| bad_toml(error.to_string()))?;
    if file.boards.is_empty() {
        return Err(bad_toml(
            "the file lists no board; a board begins with [[board]], a name and a transport".to_owned(),
        ));
    }
    let base = path.parent().unwrap_or(Path::new("."));
    let locks = file
        .locks
        .map_or_else(crate::lock::folder, |folder| base.join(folder));
    let mut names = BTreeSet::new();
    let mut members = Vec::new();
    for entry in file.boards {
        let board = entry.name.clone();
        let member = member(entry, base, &locks).and_then(|member| {
            if names.insert(member.place.name.clone()) {
                Ok(member)
            } else {
                Err("the name is used by another board".to_owned())
            }
        });
        members.push(member.map_err(|words| InventoryError::BadBoard {
            path: path.to_owned(),
            board,
            words,
        })?);
    }
    Ok(members)
}

/// Whether a name can be a file's, and is never taken for an option of a program.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with(['.', '-']) && name.chars().all(is_kept)
}

/// Variables of a runner's environment. They go through a shell, a line each.
fn environment(given: &BTreeMap<String, String>) -> Result<Vec<(String, String)>, String> {
    let is_identifier = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    given
        .iter()
        .map(|(name, value)| {
            // the value may be a secret, and is not repeated
            if !is_identifier(name) {
                Err(format!(
                    "environment: {name:?} is not a variable's name; use letters, digits and '_'"
                ))
            } else if name.starts_with("polychip_") {
                // the script that sets the variables has some of its own
                Err(format!(
                    "environment: {name}: names that begin with \"polychip_\" are reserved"
                ))
            } else if value.contains(['\n', '\r', '\0']) {
                Err(format!("environment: the value of {name} has more than one line"))
            } else {
                Ok((name.clone(), value.clone()))
            }
        })
        .collect()
}

fn member(entry: Entry, base: &Path, locks: &Path) -> Result<Member, String> {
    if !is_name(&entry.name) {
        return Err(
            "invalid name: use letters, digits, '-', '_' and '.', and start with a letter, a digit or '_'"
                .to_owned(),
        );
    }
    let (transport, default_folder) = transport(&entry, base)?;
    let folder = match (entry.folder.clone(), default_folder) {
        (Some(folder), _) if folder.starts_with(['/', '~']) && !folder.contains(char::is_control) => {
            let is_named = folder.split('/').skip(1).any(|part| !part.is_empty());
            if !is_named || (folder.starts_with('~') && !folder.starts_with("~/")) {
                return Err(format!("folder = {folder:?} is not a folder for the farm alone"));
            }
            folder.trim_end_matches('/').to_owned()
        }
        (Some(folder), _) => return Err(format!("folder = {folder:?} does not start with '/' or '~/'")),
        (None, folder) => folder,
    };
    let file = |key: &str, path: &Path| {
        let path = base.join(path);
        if path.is_file() {
            Ok(path)
        } else {
            Err(format!("{key}: file {} does not exist", path.display()))
        }
    };
    let address = entry.address.clone().unwrap_or_default();
    let port = entry.port.map_or_else(String::new, |port| format!(":{port}"));
    Ok(Member {
        place: InventoryEntry {
            name: entry.name.clone(),
            transport: transport.name().to_owned(),
            tags: tags(&entry.tags)?,
        },
        hold: Hold::Lock {
            folder: locks.to_owned(),
            name: match transport.name() {
                // whatever it is called and wherever its folder is: it is this machine
                "local" => "local".to_owned(),
                name => format!("{name} {address}{port}"),
            },
        },
        folder,
        runner: entry
            .runner
            .as_deref()
            .map(|path| file("runner", path))
            .transpose()?,
        conform: entry
            .conform
            .as_deref()
            .map(|path| file("conform", path))
            .transpose()?,
        plugins: entry
            .plugins
            .iter()
            .map(|path| file("plugins", path))
            .collect::<Result<_, _>>()?,
        limits: limits(&entry)?,
        environment: environment(&entry.environment)?,
        emulated: entry.emulated,
        reconnect: entry.reconnect_s.map(Duration::from_secs),
        transport,
    })
}

fn transport(entry: &Entry, base: &Path) -> Result<(Arc<dyn Transport>, String), String> {
    let address = || {
        let address = entry
            .address
            .clone()
            .filter(|address| !address.is_empty() && !address.starts_with('-'));
        address.ok_or(match &*entry.transport {
            "adb" => "address is missing: the serial number that `adb devices` prints, or host:port",
            _ => "address is missing: user@host, or a name of the SSH configuration",
        })
    };
    let only_ssh = [
        ("port", entry.port.is_some()),
        ("key", entry.key.is_some()),
        ("options", !entry.options.is_empty()),
    ];
    if let Some((key, _)) = only_ssh
        .iter()
        .find(|(_, given)| *given && entry.transport != "ssh")
    {
        return Err(format!(
            "{key} is not allowed with transport = {:?}",
            entry.transport
        ));
    }
    Ok(match &*entry.transport {
        "local" => {
            if entry.address.is_some() {
                return Err("address is not allowed with transport = \"local\"".to_owned());
            }
            (Arc::new(Local), home_folder(&entry.name))
        }
        "ssh" => {
            let key = entry.key.as_deref().map(|key| base.join(key));
            if let Some(key) = key.as_ref().filter(|key| !key.is_file()) {
                return Err(format!("key: file {} does not exist", key.display()));
            }
            let ssh = Ssh {
                address: address()?,
                port: entry.port,
                key,
                options: entry.options.clone(),
            };
            (Arc::new(ssh), home_folder(&entry.name))
        }
        "adb" => (Arc::new(Adb::of_serial(&address()?)), ADB_FOLDER.to_owned()),
        other => {
            return Err(format!(
                "unknown transport = {other:?}; expected \"local\", \"ssh\" or \"adb\""
            ));
        }
    })
}

fn tags(tags: &BTreeMap<String, String>) -> Result<Vec<String>, String> {
    tags.iter()
        .map(|(key, value)| {
            if key.contains(['=', ',']) || value.contains(',') {
                Err(format!("tag {key:?} = {value:?}: neither '=' nor ',' is allowed"))
            } else {
                Ok(format!("{key}={value}"))
            }
        })
        .collect()
}

fn limits(entry: &Entry) -> Result<Limits, String> {
    let default = Limits::default();
    let celsius = |key: &str, value: Option<f64>| match value {
        Some(value) if !(-55.0..=200.0).contains(&value) => Err(format!(
            "{key} = {value} is not a plausible chip temperature in degrees Celsius"
        )),
        value => Ok(value.map(|value| (value * 1e3).round() as i64)),
    };
    let share = match entry.load_by_others_percent {
        None => default.load_by_others_millis,
        Some(percent) if (0.0..=100.0).contains(&percent) => (percent * 10.0).round() as u32,
        Some(percent) => return Err(format!("load_by_others_percent = {percent}; expected 0 to 100")),
    };
    let limits = Limits {
        hottest_mc: celsius("hottest_start_celsius", entry.hottest_start_celsius)?,
        coldest_mc: celsius("coldest_start_celsius", entry.coldest_start_celsius)?,
        patience_s: entry.patience_s.unwrap_or(default.patience_s),
        load_by_others_millis: share,
        throttled: entry.throttled,
    };
    match (limits.coldest_mc, limits.hottest_mc) {
        (Some(coldest), Some(hottest)) if coldest >= hottest => {
            Err("coldest_start_celsius must be below hottest_start_celsius".to_owned())
        }
        _ => Ok(limits),
    }
}

/// Whether a board has all of these tags (`key=value`), or is called so.
#[must_use]
pub fn matches(place: &InventoryEntry, wanted: &[String]) -> bool {
    wanted.iter().all(|one| {
        if one.contains('=') {
            place.tags.contains(one)
        } else {
            place.name == *one
        }
    })
}

/// Groups of interchangeable boards: those with the same tags. A board without tags is alone.
#[must_use]
pub fn interchangeable_boards(places: &[InventoryEntry]) -> Vec<Vec<String>> {
    let mut groups: BTreeMap<Vec<&str>, Vec<String>> = BTreeMap::new();
    for place in places {
        let key = if place.tags.is_empty() {
            // no tag has such a name
            vec!["", &*place.name]
        } else {
            place.tags.iter().map(String::as_str).collect()
        };
        groups.entry(key).or_default().push(place.name.clone());
    }
    let mut groups: Vec<Vec<String>> = groups.into_values().collect();
    let first = |group: &[String]| places.iter().position(|place| place.name == group[0]);
    groups.sort_by_key(|group| first(group));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse(text, Path::new("desk/farm.toml")).unwrap_err().to_string()
    }

    #[test]
    fn a_desk_is_read() {
        let text = r#"
            locks = "locks"
            [[board]]
            name = "this"
            transport = "local"
            [[board]]
            name = "rock-a"
            transport = "ssh"
            address = "root@10.0.0.5"
            port = 2222
            tags = { soc = "rk3588", npu = "v2" }
            hottest_start_celsius = 45
            load_by_others_percent = 2.5
            environment = { LD_LIBRARY_PATH = "/opt/lib" }
            [[board]]
            name = "phone"
            transport = "adb"
            address = "R5CT1"
            tags = { soc = "sm8650" }
            throttled = true
        "#;
        let members = parse(text, Path::new("desk/farm.toml")).unwrap();
        let names: Vec<&str> = members.iter().map(|member| &*member.place.name).collect();
        assert_eq!(names, ["this", "rock-a", "phone"]);
        let rock = &members[1];
        assert_eq!(rock.place.tags, ["npu=v2", "soc=rk3588"]);
        assert_eq!(
            (rock.limits.hottest_mc, rock.limits.load_by_others_millis),
            (Some(45_000), 25)
        );
        assert_eq!(rock.folder, "~/.cache/polychip-farm/rock-a");
        let Hold::Lock { folder, name } = &rock.hold else {
            panic!()
        };
        assert_eq!(
            (folder.to_str(), name.as_str()),
            (Some("desk/locks"), "ssh root@10.0.0.5:2222")
        );
        assert_eq!(members[2].place.transport, "adb");
        assert!(members[2].limits.throttled);
        assert!(matches(&rock.place, &["soc=rk3588".into()]) && !matches(&rock.place, &["soc=rk".into()]));
        assert!(matches(&rock.place, &["rock-a".into()]) && !matches(&rock.place, &["rock".into()]));
    }

    #[test]
    fn inventory_error_names_its_board() {
        let board = |rest: &str| format!("[[board]]\nname = \"a\"\n{rest}\n");
        for (text, words) in [
            (String::new(), "lists no board"),
            ("[[board]]\nname = 1".to_owned(), "line 2"),
            (board("transport = \"usb\""), "\"a\": unknown transport = \"usb\""),
            (board("transport = \"ssh\""), "address is missing"),
            (
                board("transport = \"ssh\"\naddress = \"-oProxyCommand=x\""),
                "address is missing",
            ),
            (
                board("transport = \"local\"\naddress = \"x\""),
                "address is not allowed",
            ),
            (
                board("transport = \"adb\"\naddress = \"x\"\nport = 1"),
                "port is not allowed",
            ),
            (board("transport = \"local\"\nspeed = 1"), "unknown field `speed`"),
            (
                board("transport = \"local\"\nfolder = \"x\""),
                "does not start with '/'",
            ),
            (
                board("transport = \"local\"\nrunner = \"no\""),
                "runner: file desk/no does not exist",
            ),
            (
                board("transport = \"local\"\nhottest_start_celsius = 900"),
                "not a plausible chip temperature",
            ),
            (
                board("transport = \"local\"\nload_by_others_percent = 101"),
                "expected 0 to 100",
            ),
            (
                board("transport = \"local\"\nhottest_start_celsius = 40\ncoldest_start_celsius = 50"),
                "must be below",
            ),
            (
                board("transport = \"local\"").repeat(2),
                "the name is used by another board",
            ),
            (
                board("transport = \"local\"").replace("\"a\"", "\"a/b\""),
                "invalid name",
            ),
            (
                board("transport = \"local\"").replace("\"a\"", "\"-oProxyCommand=x\""),
                "invalid name",
            ),
            (
                board("transport = \"local\"").replace("\"a\"", "\"-a\""),
                "invalid name",
            ),
            (
                board("transport = \"local\"\nenvironment = { \"A=B\" = \"c\" }"),
                "\"A=B\" is not a variable's name",
            ),
            (
                board("transport = \"local\"\nenvironment = { polychip_k_ = \"1\" }"),
                "names that begin with \"polychip_\" are reserved",
            ),
            (
                board("transport = \"local\"\nenvironment = { A = \"secret\\nexport B=c\" }"),
                "the value of A has more than one line",
            ),
            (
                board("transport = \"local\"\nfolder = \"/\""),
                "not a folder for the farm alone",
            ),
            (
                board("transport = \"local\"\nfolder = \"~root/x\""),
                "not a folder for the farm alone",
            ),
            (board("transport = \"local\"\ntags = { a = \"b,c\" }"), "nor ','"),
        ] {
            let error = refused(&text);
            assert!(
                error.starts_with("desk/farm.toml") && error.contains(words),
                "{words}: {error}"
            );
        }
    }

    #[test]
    fn interchangeable_boards_have_the_same_tags() {
        let place = |name: &str, tags: &[&str]| InventoryEntry {
            name: name.into(),
            transport: "ssh".into(),
            tags: tags.iter().map(ToString::to_string).collect(),
        };
        let places = [
            place("c", &["soc=x"]),
            place("alone", &[]),
            place("b", &["soc=y"]),
            place("a", &["soc=x"]),
            place("other", &[]),
        ];
        assert_eq!(
            interchangeable_boards(&places),
            [vec!["c", "a"], vec!["alone"], vec!["b"], vec!["other"]]
        );
    }
}
