//! A labgrid coordinator with an exporter, and a place per board.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::places::Board;
use crate::program::{Running, call, start};

const ADDRESS: &str = "127.0.0.1:20408";
/// The exporter's name.
const RACK: &str = "desk";

/// The coordinator, which ends when dropped.
#[derive(Debug)]
pub(crate) struct Coordinator {
    /// `host:port`.
    pub(crate) address: String,
    _running: [Running; 2],
}

impl Coordinator {
    /// Starts it, and makes a place per board.
    pub(crate) fn start(work: &Path, path: &OsStr, boards: &[Board]) -> Result<Coordinator> {
        let folder = work.join("labgrid");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("exporter.yaml"), exported(boards))?;
        let program = |name: &str| {
            let mut command = Command::new(name);
            command.current_dir(&folder).env("PATH", path);
            command
        };
        let mut coordinator = start(
            program("labgrid-coordinator").args(["-l", ADDRESS]),
            &folder.join("coordinator.log"),
        )
        .context("labgrid")?;
        coordinator.wait_until("labgrid's coordinator", Duration::from_secs(60), || {
            std::net::TcpStream::connect(ADDRESS).is_ok()
        })?;
        let mut exporter = start(
            program("labgrid-exporter").args([
                "-c",
                ADDRESS,
                "-n",
                RACK,
                "--hostname",
                "127.0.0.1",
                "exporter.yaml",
            ]),
            &folder.join("exporter.log"),
        )?;
        let client = |words: &[&str]| call(program("labgrid-client").args(["-x", ADDRESS]).args(words));
        exporter.wait_until("labgrid's exporter", Duration::from_secs(60), || {
            let said = client(&["resources"]).unwrap_or_default();
            boards.iter().all(|board| said.contains(&board.name))
        })?;
        for board in boards {
            let name = &*board.name;
            client(&["-p", name, "create"])?;
            client(&["-p", name, "add-match", &format!("{RACK}/{name}/NetworkService")])?;
            let mut tags = vec!["-p".to_owned(), name.to_owned(), "set-tags".to_owned()];
            tags.extend(board.tags.iter().cloned());
            client(&tags.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        Ok(Coordinator {
            address: ADDRESS.to_owned(),
            _running: [coordinator, exporter],
        })
    }
}

/// What the exporter offers.
fn exported(boards: &[Board]) -> String {
    let mut text = String::new();
    for board in boards {
        // a String takes all that is written
        let _ = write!(
            text,
            "{}:\n  NetworkService:\n    address: {}\n    username: root\n    port: {}\n",
            board.name, board.address, board.port
        );
    }
    text
}
