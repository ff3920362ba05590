//! A board or phone over the system's `adb`.
//!
//! Invariant: each board has an adb server of its own, with a port and a home folder of its own: all servers of a user
//! share the key pair and the log file of their home, whatever their port.

use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::time::Duration;

use super::process::{self, Limits, Stdin};
use super::shell::{self, Shell};
use super::{Command, Exit, Transport, TransportError};
use crate::blob::Blob;

/// Runs on a board that has an adb daemon.
#[derive(Debug, Clone)]
pub struct Adb {
    /// Serial number, or `host:port` of a daemon on the network, which is connected to first.
    pub serial: String,
    /// Port of the adb server on this host.
    pub server_port: u16,
    /// Home folder of the adb server: its keys and its log.
    pub home: PathBuf,
}

/// Port of the first board's adb server: 5037 is the one that a person's own commands start.
const FIRST_SERVER: u16 = 5137;

impl Adb {
    /// A board by the serial number that `adb devices` prints, or `host:port`; its place in the inventory gives the
    /// server's port, its name the server's home.
    #[must_use]
    pub fn of_serial(serial: &str, name: &str, index: usize) -> Adb {
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        Adb {
            serial: serial.to_owned(),
            // past the last port, boards share a server
            server_port: FIRST_SERVER.saturating_add(index),
            home: std::env::temp_dir().join(format!("polychip-farm-adb-{name}")),
        }
    }

    /// A board whose daemon listens on the network.
    #[must_use]
    pub fn of_network(address: &str, port: u16, name: &str, index: usize) -> Adb {
        Adb::of_serial(&format!("{address}:{port}"), name, index)
    }

    fn adb(&self) -> Program {
        let mut program = Program::new("adb");
        program
            .env("ANDROID_ADB_SERVER_PORT", self.server_port.to_string())
            .env("HOME", &self.home);
        program
    }

    /// Runs an adb command of this host; an error where it fails.
    fn host_command(&self, words: &[&str], time: Duration) -> Result<String, TransportError> {
        let mut said = Vec::new();
        let limits = Limits {
            time: Some(time),
            silence: None,
        };
        let ended = process::run(
            self.adb().args(words),
            Stdin::Bytes(Vec::new()),
            limits,
            &mut |bytes| said.extend_from_slice(bytes),
        );
        let ended = ended.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => TransportError::NoProgram {
                program: "adb".to_owned(),
            },
            _ => TransportError::Unreachable {
                words: error.to_string(),
            },
        })?;
        let text = String::from_utf8_lossy(&said).trim().to_owned();
        let words = if ended.stderr.is_empty() {
            &text
        } else {
            &ended.stderr
        };
        match (ended.limit, ended.status.success()) {
            (None, true) => Ok(text),
            (None, false) if words.contains("No space left") => {
                Err(TransportError::NoSpace { words: words.clone() })
            }
            (None, false) if words.contains("unauthorized") => {
                Err(TransportError::Refused { words: words.clone() })
            }
            (None, false) => Err(TransportError::Unreachable { words: words.clone() }),
            (Some(limit), _) => Err(TransportError::TimedOut {
                what: "adb".to_owned(),
                seconds: limit.as_secs(),
            }),
        }
    }

    /// Connects to a daemon on the network, where it is one; a connection that stands is kept.
    fn connect(&self) -> Result<(), TransportError> {
        std::fs::create_dir_all(&self.home).map_err(|error| shell::host(&self.home, &error))?;
        if !self.serial.contains(':') {
            return Ok(());
        }
        let said = self.host_command(&["connect", &self.serial], shell::SHORT)?;
        // it ends with code 0 whatever comes of it
        match said.contains("connected to") && !said.contains("cannot") {
            true => Ok(()),
            false => Err(TransportError::Unreachable { words: said }),
        }
    }
}

impl Shell for Adb {
    fn program(&self, script: &str) -> Program {
        let mut program = self.adb();
        program.args(["-s", &self.serial, "shell", "-T", script]);
        program
    }
}

impl Transport for Adb {
    fn name(&self) -> &'static str {
        "adb"
    }

    fn execute(&self, command: &Command, line: &mut dyn FnMut(&str)) -> Result<Exit, TransportError> {
        self.connect()?;
        shell::execute(self, command, line)
    }

    fn put(&self, blob: &Blob, to: &str) -> Result<(), TransportError> {
        self.connect()?;
        shell::short(self, "making a folder", &shell::make_folder(to))?;
        let path = blob.path.to_string_lossy();
        self.host_command(
            &["-s", &self.serial, "push", &path, &shell::part(to)],
            shell::time_of(blob.bytes),
        )?;
        shell::finish_put(self, blob, to)
    }

    fn get(&self, from: &str, to: &Path) -> Result<u64, TransportError> {
        self.connect()?;
        shell::get(self, from, to)
    }

    fn lengths(&self, paths: &[String]) -> Result<Vec<Option<u64>>, TransportError> {
        self.connect()?;
        shell::lengths(self, paths)
    }

    fn probe(&self) -> Result<String, TransportError> {
        self.connect()?;
        shell::probe(self)
    }
}
