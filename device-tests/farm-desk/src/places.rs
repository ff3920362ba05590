//! Places over ssh: network namespaces on one bridge, each with an SSH server and a `/tmp` of its own,
//! which is also its users' home: farms keep their files there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::program::{Running, call, start};

/// A board as registered with the coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Board {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) port: u16,
    /// `key=value`.
    pub(crate) tags: Vec<String>,
    pub(crate) emulated: bool,
}

/// The places, which end when dropped.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) boards: Vec<Board>,
    /// File of the private key that all let in.
    pub(crate) key: PathBuf,
    _servers: Vec<Running>,
}

const BRIDGE: &str = "desk";
const NAMES: [&str; 2] = ["namespace-a", "namespace-b"];

impl Places {
    /// Two places.
    pub(crate) fn both(work: &Path) -> Result<Places> {
        let folder = work.join("ssh");
        fs::create_dir_all(&folder)?;
        for key in ["host", "user"] {
            call(
                Command::new("ssh-keygen")
                    .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                    .arg(folder.join(key)),
            )?;
        }
        ip(&["link", "add", BRIDGE, "type", "bridge"])?;
        ip(&["addr", "add", "10.77.0.1/24", "dev", BRIDGE])?;
        ip(&["link", "set", BRIDGE, "up"])?;
        let mut boards = Vec::new();
        let mut servers = Vec::new();
        for (index, name) in NAMES.iter().enumerate() {
            let address = format!("10.77.0.{}", 11 + index);
            servers.push(server(&folder, name, index, &address)?);
            boards.push(Board {
                name: (*name).to_owned(),
                address,
                port: 22,
                tags: vec![format!("host={name}")],
                emulated: false,
            });
        }
        Ok(Places {
            boards,
            key: folder.join("user"),
            _servers: servers,
        })
    }
}

fn ip(words: &[&str]) -> Result<String> {
    call(Command::new("ip").args(words))
}

/// Where Debian puts the server, or what the environment names.
fn sshd() -> PathBuf {
    let told = std::env::var_os("POLYCHIP_SSHD").map(PathBuf::from);
    told.unwrap_or_else(|| PathBuf::from("/usr/sbin/sshd"))
}

/// Starts a place, and waits until its server listens.
fn server(folder: &Path, name: &str, index: usize, address: &str) -> Result<Running> {
    let settings = folder.join(format!("{name}.config"));
    let (host, user) = (folder.join("host"), folder.join("user.pub"));
    // the server looks at who may write to its files, and the checkout may be anyone's
    fs::set_permissions(&host, fs::Permissions::from_mode(0o600))?;
    fs::write(
        &settings,
        format!(
            "Port 22\nListenAddress 0.0.0.0\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nUseDNS no\n\
             SetEnv HOME=/tmp\n",
            host.display(),
            user.display()
        ),
    )?;
    let script =
        "mount -t tmpfs tmpfs /tmp && mkdir -p /run/sshd && hostname \"$1\" && exec \"$2\" -D -e -f \"$3\"";
    let mut command = Command::new("unshare");
    command
        .args([
            "--net",
            "--mount",
            "--uts",
            "--propagation",
            "private",
            "--",
            "sh",
            "-c",
            script,
            "sh",
            name,
        ])
        .arg(sshd())
        .arg(&settings);
    let mut running = start(&mut command, &folder.join(format!("{name}.log")))?;
    let id = running.id().to_string();
    let own = fs::read_link("/proc/self/ns/net").context("/proc/self/ns/net")?;
    running.wait_until("a network namespace", Duration::from_secs(20), || {
        fs::read_link(format!("/proc/{id}/ns/net")).is_ok_and(|theirs| theirs != own)
    })?;
    let cable = format!("cable{index}");
    ip(&[
        "link", "add", &cable, "type", "veth", "peer", "name", "eth0", "netns", &id,
    ])?;
    ip(&["link", "set", &cable, "master", BRIDGE, "up"])?;
    for words in [
        ["addr", "add", &format!("{address}/24"), "dev", "eth0"],
        ["link", "set", "dev", "eth0", "up"],
        ["link", "set", "dev", "lo", "up"],
    ] {
        call(Command::new("nsenter").args(["-t", &id, "-n", "ip"]).args(words))?;
    }
    running.wait_until(
        &format!("the SSH server of {name}"),
        Duration::from_secs(20),
        || std::net::TcpStream::connect((address, 22)).is_ok(),
    )?;
    Ok(running)
}
