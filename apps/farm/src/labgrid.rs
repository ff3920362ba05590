//! Boards of a labgrid coordinator, via `labgrid-client`.
//!
//! A place is a board if it has a `NetworkService`: reached over ssh, or over adb where the place has the tag `via=adb`.
//!
//! Invariants:
//! 1. An acquired place is released on drop; labgrid itself keeps it for a dead client.
//! 2. A place that cannot be a board is skipped with the reason.
//! 3. A client call has a limit of one minute, so a hanging coordinator does not block.
//!
//! Not here: power switches and consoles, which stay labgrid's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use polychip_farm_record::{InventoryEntry, Limits};

use crate::hold::error::HoldError;
use crate::inventory::{Hold, Member};
use crate::transport::process::{self, Stdin};
use crate::transport::{Adb, Ssh, Transport};

/// What is asked of a coordinator.
#[derive(Debug, Clone, Default)]
pub struct Coordinator {
    /// `host:port`; absent for labgrid's own default (`LG_COORDINATOR`).
    pub address: Option<String>,
    /// File of the private key for boards over ssh, unless it is one of ssh's defaults.
    pub key: Option<PathBuf>,
    /// Further options for boards over ssh, each as `-o` takes it.
    pub options: Vec<String>,
}

/// Boards of a coordinator, and places that are not usable as boards.
#[derive(Debug, Default)]
pub struct Found {
    /// The boards, by name.
    pub members: Vec<Member>,
    /// Other places, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Tag of a place that is reached over adb.
const ADB: &str = "via=adb";
/// Where adb daemons listen.
const ADB_PORT: u16 = 5555;

impl Coordinator {
    /// The places that have all of these tags (`key=value`), or are called so.
    ///
    /// # Errors
    /// `labgrid-client` is not installed, or does not reach the coordinator; in its words.
    pub fn boards(&self, wanted: &[String]) -> Result<Found, String> {
        let address = self.address.as_deref();
        let text = said(client(address).args(["-v", "places"]))?;
        let mut found = Found::default();
        for (name, tags) in places(&text) {
            let mut place = InventoryEntry {
                name,
                transport: String::new(),
                tags,
            };
            if !crate::inventory::matches(&place, wanted) {
                continue;
            }
            // also a name of a file, and of a place that is acquired by it
            if !crate::inventory::is_name(&place.name) {
                let reason = "its name has characters other than letters, digits, '-', '_' and '.', or begins with '-'";
                found.left_out.push((place.name, reason.to_owned()));
                continue;
            }
            let shown = said(client(address).args(["-p", &place.name, "show"]))?;
            let Some(service) = service(&shown) else {
                let reason = "no NetworkService reports its address".to_owned();
                found.left_out.push((place.name, reason));
                continue;
            };
            let (transport, folder) = self.way(&place, service);
            place.transport = transport.name().to_owned();
            found.members.push(Member {
                hold: Hold::Labgrid {
                    coordinator: self.address.clone(),
                    place: place.name.clone(),
                },
                place,
                transport,
                folder,
                runner: None,
                conform: None,
                plugins: vec![],
                limits: Limits::default(),
                environment: vec![],
                emulated: false,
                reconnect: None,
            });
        }
        for member in &mut found.members {
            member.emulated = member.place.tags.iter().any(|tag| tag == "emulated=true");
        }
        Ok(found)
    }

    fn way(&self, place: &InventoryEntry, service: Service) -> (Arc<dyn Transport>, String) {
        if place.tags.iter().any(|tag| tag == ADB) {
            let port = service.port.unwrap_or(ADB_PORT);
            let adb = Adb::of_network(&service.address, port);
            return (Arc::new(adb), crate::inventory::ADB_FOLDER.to_owned());
        }
        let user = service.user.map_or_else(String::new, |user| format!("{user}@"));
        let ssh = Ssh {
            address: format!("{user}{}", service.address),
            port: service.port,
            key: self.key.as_deref().map(Path::to_owned),
            options: self.options.clone(),
        };
        (Arc::new(ssh), crate::inventory::home_folder(&place.name))
    }
}

/// What a `NetworkService` says.
#[derive(Debug, PartialEq, Eq)]
struct Service {
    address: String,
    user: Option<String>,
    port: Option<u16>,
}

/// Names and tags of the places that `labgrid-client -v places` lists.
fn places(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line
            .strip_prefix("Place '")
            .and_then(|rest| rest.strip_suffix("':"))
        {
            found.push((name.to_owned(), Vec::new()));
        } else if let (Some(tags), Some(place)) = (line.trim().strip_prefix("tags: "), found.last_mut()) {
            place.1 = tags.split(", ").map(str::to_owned).collect();
            place.1.sort();
        }
    }
    found.sort();
    found
}

/// The first `NetworkService` that `labgrid-client show` prints, whose parameters it writes as Python does.
fn service(text: &str) -> Option<Service> {
    let begins = |line: &str| line.contains(" resource '") && line.contains("/NetworkService/");
    let start = text.lines().position(begins)?;
    let block: Vec<&str> = text
        .lines()
        .skip(start + 1)
        .take_while(|line| !line.contains(" resource '"))
        .collect();
    let block = block.join(" ");
    let after = |key: &str| Some(block.split_once(&format!("'{key}': "))?.1);
    let text_of = |key: &str| {
        let rest = after(key)?.strip_prefix('\'')?;
        Some(rest.split_once('\'')?.0.to_owned())
    };
    let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
    Some(Service {
        address: text_of("address").filter(|address| !address.is_empty() && !address.starts_with('-'))?,
        // before the address, it must not make an option of it
        user: text_of("username").filter(|user| !user.is_empty() && !user.starts_with('-')),
        port: after("port").and_then(|rest| digits(rest).parse().ok()),
    })
}

/// What a call prints; an error in the client's words.
fn said(command: &mut Command) -> Result<String, String> {
    let answer = call(command, LIMIT)?;
    if answer.is_success {
        Ok(answer.said)
    } else {
        Err(format!("labgrid-client: {}", answer.words()))
    }
}

/// A place that is ours.
#[derive(Debug)]
pub(crate) struct Acquired {
    coordinator: Option<String>,
    place: String,
}

fn client(coordinator: Option<&str>) -> Command {
    let mut command = Command::new("labgrid-client");
    if let Some(coordinator) = coordinator {
        command.args(["-x", coordinator]);
    }
    command
}

/// Longest that a call of the client may take: it starts in half a second, and a coordinator answers at once.
const LIMIT: Duration = Duration::from_secs(60);

/// Exit and output of a call of the labgrid client.
struct ClientOutput {
    is_success: bool,
    said: String,
    complaint: String,
}

impl ClientOutput {
    /// Its last line of output.
    fn words(&self) -> String {
        let text = if self.complaint.is_empty() {
            &self.said
        } else {
            &self.complaint
        };
        let last = text.lines().last().unwrap_or("labgrid-client printed nothing");
        last.trim().to_owned()
    }
}

/// Runs the client to its end, or to the limit.
fn call(command: &mut Command, limit: Duration) -> Result<ClientOutput, String> {
    let mut bytes = Vec::new();
    let limits = process::Limits {
        time: Some(limit),
        silence: None,
    };
    let ended = process::run(command, Stdin::Bytes(Vec::new()), limits, &mut |said| {
        bytes.extend_from_slice(said);
    });
    let ended = ended.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "labgrid-client is not installed on this host".to_owned(),
        _ => format!("labgrid-client: {error}"),
    })?;
    match ended.limit {
        Some(limit) => Err(format!(
            "labgrid-client took more than {} s: the coordinator does not answer",
            limit.as_secs_f64()
        )),
        None => Ok(ClientOutput {
            is_success: ended.status.success(),
            said: String::from_utf8_lossy(&bytes).into_owned(),
            complaint: ended.stderr,
        }),
    }
}

/// Acquires a place.
///
/// # Errors
/// Somebody else has it, or the client fails.
pub(crate) fn acquire(coordinator: Option<&str>, place: &str) -> Result<Acquired, HoldError> {
    let answer = call(client(coordinator).args(["-p", place, "acquire"]), LIMIT)
        .map_err(|words| HoldError::Failed { words })?;
    if answer.is_success {
        return Ok(Acquired {
            coordinator: coordinator.map(str::to_owned),
            place: place.to_owned(),
        });
    }
    let words = format!("labgrid place {place}: {}", answer.words());
    // the client's one code for all failures
    if words.contains("already acquired") {
        Err(HoldError::InUse { words })
    } else {
        Err(HoldError::Failed { words })
    }
}

impl Drop for Acquired {
    fn drop(&mut self) {
        let mut release = client(self.coordinator.as_deref());
        release.args(["-p", &self.place, "release"]);
        let trouble = match call(&mut release, LIMIT) {
            Ok(answer) if answer.is_success => return,
            Ok(answer) => answer.words(),
            Err(words) => words,
        };
        eprintln!(
            "warning: labgrid place {} is not released: {trouble}; release it with `labgrid-client -p {} release`",
            self.place, self.place
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hanging_client_is_killed() {
        let sh = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let start = std::time::Instant::now();
        let late = call(&mut sh("sleep 77"), Duration::from_millis(300)).err();
        assert!(start.elapsed() < Duration::from_secs(20));
        assert_eq!(
            late.as_deref(),
            Some("labgrid-client took more than 0.3 s: the coordinator does not answer")
        );
        let answer = call(&mut sh("echo said; echo first >&2; echo last >&2; exit 1"), LIMIT).unwrap();
        assert_eq!(
            (answer.is_success, &*answer.said, &*answer.words()),
            (false, "said\n", "last")
        );
        let missing = call(&mut Command::new("/no/client"), LIMIT).err();
        assert!(missing.unwrap().contains("not installed"));
    }

    #[test]
    fn places_and_their_tags_are_read() {
        let text = "Place 'rock-b':\n  tags: npu=v2, soc=rk3588\n  matches:\n    rack1/rock-b/NetworkService\n  acquired: None\n\
                    Place 'bench':\n  comment: mine\n  matches:\n  acquired: host/me\n";
        assert_eq!(
            places(text),
            [
                ("bench".to_owned(), vec![]),
                (
                    "rock-b".to_owned(),
                    vec!["npu=v2".to_owned(), "soc=rk3588".to_owned()]
                )
            ]
        );
    }

    #[test]
    fn address_is_parsed_or_absent() {
        let text = "Place 'rock-b':\n  acquired: None\n\
            Matching resource 'NetworkPowerPort' (rack1/rock-b/NetworkPowerPort/NetworkPowerPort):\n  {'params': {'address': 'no'}}\n\
            Matching resource 'NetworkService' (rack1/rock-b/NetworkService/NetworkService):\n  {'acquired': None,\n   'avail': True,\n   \
            'cls': 'NetworkService',\n   'params': {'address': '10.77.0.11',\n              'extra': {'proxy': 'rack1'},\n              \
            'port': 2222,\n              'username': 'root'}}\n";
        let expected = Service {
            address: "10.77.0.11".into(),
            user: Some("root".into()),
            port: Some(2222),
        };
        assert_eq!(service(text), Some(expected));
        assert_eq!(service("Place 'x':\n  acquired: None\n"), None);
        assert_eq!(service(&text.replace("'10.77.0.11'", "'-oProxyCommand=x'")), None);
        let option = service(&text.replace("'root'", "'-oProxyCommand=x'")).unwrap();
        assert_eq!(option.user, None);
    }
}
