//! A board over the system's `ssh`. Files go through `cat` on the board: boards without an SFTP server are common.

use std::path::PathBuf;
use std::process::Command as Program;

use super::quoted::quoted;
use super::shell::Shell;

/// Runs on a board that has an SSH server.
#[derive(Debug, Clone, Default)]
pub struct Ssh {
    /// `user@host`, `host`, or a name of the user's SSH configuration.
    pub address: String,
    /// Port, where it is not the usual one.
    pub port: Option<u16>,
    /// File of the private key, unless it is one of ssh's defaults.
    pub key: Option<PathBuf>,
    /// Further options, each as `-o` takes it.
    pub options: Vec<String>,
}

impl Shell for Ssh {
    const NAME: &'static str = "ssh";

    fn program(&self, script: &str) -> Program {
        let mut program = Program::new("ssh");
        // no prompts, since no user could answer them; a cut connection is noticed within 15
        // seconds
        for option in [
            "BatchMode=yes",
            "ConnectTimeout=10",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=3",
        ] {
            program.args(["-o", option]);
        }
        for option in &self.options {
            program.args(["-o", option]);
        }
        if let Some(port) = self.port {
            program.args(["-p", &port.to_string()]);
        }
        if let Some(key) = &self.key {
            program.arg("-i").arg(key).args(["-o", "IdentitiesOnly=yes"]);
        }
        // the board's login shell may be any: it is asked for one word only
        program
            .args(["-T", "--", &self.address])
            .arg(format!("sh -c {}", quoted(script)));
        program
    }
}
