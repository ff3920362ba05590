//! A board or phone over the system's `adb`.
//!
//! Invariants:
//! 1. Each board of a driver has an adb server of its own, with a port and a home folder of its own ([`Server`]): all servers
//!    of a user share the key pair and the log file of their home, whatever their port.
//! 2. The home is private: created anew for this user only, and removed with the server.

use std::fs::DirBuilder;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::process::{self, Limits, Stdin};
use super::quoted::quoted;
use super::shell::{self, Shell};
use super::{Counter, TransportError};
use crate::blob::Blob;

/// Runs on a board that has an adb daemon.
#[derive(Debug, Clone)]
pub struct Adb {
    /// Serial number, or `host:port` of a daemon on the network, which is connected to first.
    serial: String,
    /// Started by the first call, ended with the last copy of this.
    server: Arc<Mutex<Option<Server>>>,
}

/// An adb server of this driver, ended when dropped.
#[derive(Debug)]
struct Server {
    port: u16,
    /// Its keys and its log.
    home: PathBuf,
}

/// Longest that the end of a server is waited for.
const END: Duration = Duration::from_secs(5);

impl Server {
    /// A port and a home for a server, which the first call of `adb` starts.
    fn new(base: &Path) -> Result<Server, TransportError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // what a process of the same number left behind is passed by
        let home = (0..1000).find_map(|_| {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let home = base.join(format!("polychip-adb-{}-{count}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&home) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => None,
                made => Some(
                    made.map(|()| home.clone())
                        .map_err(|error| shell::host(&home, &error)),
                ),
            }
        });
        let home = home.unwrap_or_else(|| {
            Err(TransportError::Host {
                path: base.display().to_string(),
                words: "it has a thousand adb server homes (polychip-adb-*): remove them".to_owned(),
            })
        })?;
        // if another process takes the port in between, adb fails, and the next try uses another
        // port
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        match free {
            Ok(address) => Ok(Server {
                port: address.port(),
                home,
            }),
            Err(error) => {
                let _ = std::fs::remove_dir(&home);
                Err(shell::host(Path::new("a loopback port"), &error))
            }
        }
    }

    /// Where the homes are: a folder of this user's only, where the system has one.
    fn base() -> PathBuf {
        let told = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        told.filter(|path| path.is_absolute() && path.is_dir())
            .unwrap_or_else(std::env::temp_dir)
    }

    fn adb(&self) -> Program {
        let mut program = Program::new("adb");
        program
            .env("ANDROID_ADB_SERVER_PORT", self.port.to_string())
            .env("HOME", &self.home);
        // a phone knows the key that its user has let in once, which is the person's own
        let own = std::env::var_os("HOME").map(|home| Path::new(&home).join(".android/adbkey"));
        if std::env::var_os("ADB_VENDOR_KEYS").is_none()
            && let Some(own) = own.filter(|own| own.is_file())
        {
            program.env("ADB_VENDOR_KEYS", own);
        }
        program
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let limits = Limits {
            time: Some(END),
            silence: None,
        };
        let none = Stdin::Bytes(Vec::new());
        // a server that was never started has none to end
        let _ = process::run(self.adb().arg("kill-server"), none, limits, &mut |_| {});
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

impl Adb {
    /// A board by the serial number that `adb devices` prints, or `host:port`.
    #[must_use]
    pub fn of_serial(serial: &str) -> Adb {
        Adb {
            serial: serial.to_owned(),
            server: Arc::default(),
        }
    }

    /// A board whose daemon listens on the network.
    #[must_use]
    pub fn of_network(address: &str, port: u16) -> Adb {
        Adb::of_serial(&format!("{address}:{port}"))
    }

    /// The program with the server's settings; without them, before [`Shell::connect`].
    fn adb(&self) -> Program {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.as_ref().map_or_else(|| Program::new("adb"), Server::adb)
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
}

impl Shell for Adb {
    const NAME: &'static str = "adb";
    const ANDROID: bool = true;

    fn program(&self, script: &str) -> Program {
        let mut program = self.adb();
        program.args(["-s", &self.serial, "shell", "-T", script]);
        program
    }

    /// Connects to a daemon on the network, where it is one; a connection that stands is kept.
    fn connect(&self) -> Result<(), TransportError> {
        {
            let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
            if server.is_none() {
                *server = Some(Server::new(&Server::base())?);
            }
        }
        if !self.serial.contains(':') {
            return Ok(());
        }
        let said = self.host_command(&["connect", &self.serial], shell::SHORT)?;
        // it ends with code 0 whatever comes of it
        if said.contains("connected to") && !said.contains("cannot") {
            Ok(())
        } else {
            Err(TransportError::Unreachable { words: said })
        }
    }

    fn send(&self, blob: &Blob, to: &str, sent: &Counter) -> Result<(), TransportError> {
        let clear = format!("{} && rm -f {}", shell::make_folder(to), quoted(&shell::part(to)));
        shell::short(self, "making a folder", &clear)?;
        // a relative name may begin like an option
        let path = std::path::absolute(&blob.path).map_err(|error| shell::host(&blob.path, &error))?;
        let path = path.to_string_lossy();
        self.host_command(
            &["-s", &self.serial, "push", &path, &shell::part(to)],
            shell::time_of(blob.bytes),
        )?;
        // adb tells nothing before
        sent.fetch_add(blob.bytes, Ordering::Relaxed);
        shell::finish_put(self, blob, to)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn adb_server_has_its_own_port_and_home() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        // what another user may have put where the next home would be is left alone
        let first = Server::new(base).unwrap();
        let count: u32 = first
            .home
            .to_str()
            .unwrap()
            .rsplit('-')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let planted = base.join(format!("polychip-adb-{}-{}", std::process::id(), count + 1));
        std::os::unix::fs::symlink("/", &planted).unwrap();
        let second = Server::new(base).unwrap();
        assert_ne!((&first.home, first.port), (&second.home, second.port));
        assert_ne!(second.home, planted);
        for server in [&first, &second] {
            let mode = std::fs::symlink_metadata(&server.home)
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o7777, 0o700, "{}", server.home.display());
        }
        let home = first.home.clone();
        drop(first);
        assert!(!home.exists() && second.home.exists() && planted.is_symlink());
        assert!(matches!(
            Server::new(&base.join("no/such")),
            Err(TransportError::Host { .. })
        ));
    }
}
