//! This host through an SSH server of the test's own, with a throw-away key.

use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use polychip_farm::Blob;
use polychip_farm::transport::{Command, Ssh, Transport, TransportError};
use polychip_farm_record::{Job, Outcome};
use polychip_test_requirements::{Need, absent};

use crate::desk::{board, created, driven, header, records, settings, shapes};
use crate::proxy::Cable;

/// A server of its own, ended when dropped.
struct Server {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn sshd() -> Option<PathBuf> {
    let told = std::env::var_os("POLYCHIP_SSHD").map(PathBuf::from);
    let usual = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"].map(PathBuf::from);
    told.into_iter().chain(usual).find(|path| path.is_file())
}

fn keygen(path: &Path) -> std::io::Result<std::process::Output> {
    Program::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path)
        .output()
}

impl Server {
    /// A server in a folder; none, with the reason said, where this machine has none.
    fn start(folder: &Path) -> Option<Server> {
        let Some(program) = sshd() else {
            absent(
                Need::Sshd,
                "no sshd is installed (package openssh-server), and POLYCHIP_SSHD names none",
            );
            return None;
        };
        for key in ["host", "user"] {
            match keygen(&folder.join(key)) {
                Ok(output) if output.status.success() => {}
                other => {
                    absent(Need::Sshd, &format!("ssh-keygen: {other:?}"));
                    return None;
                }
            }
        }
        // if another process takes the port in between, the server fails, and the test reports it
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let shown = folder.display();
        // a session begins with an environment of its own, in which an emulated program would not be started
        let kept = ["PATH", "QEMU_CPU", "QEMU_LD_PREFIX", "G_SLICE"].map(|name| {
            let value = std::env::var(name).ok();
            value.map_or_else(String::new, |value| format!(" \"{name}={value}\""))
        });
        let kept = kept.concat();
        let settings = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {shown}/host\nAuthorizedKeysFile {shown}/user.pub\nStrictModes no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n\
             SetEnv{kept}\n"
        );
        std::fs::write(folder.join("config"), settings).unwrap();
        let process = Program::new(program)
            .args(["-D", "-e", "-f"])
            .arg(folder.join("config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut server = Server {
            process,
            folder: folder.to_owned(),
            port,
        };
        let end = Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = || std::fs::read_to_string(folder.join("log")).unwrap();
            if server.process.try_wait().unwrap().is_some() {
                absent(Need::Sshd, &format!("sshd does not start: {}", log()));
                return None;
            }
            assert!(Instant::now() < end, "sshd does not listen: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    /// The way to it through a port.
    fn way(&self, port: u16) -> Ssh {
        let user = Program::new("id").arg("-un").output().unwrap().stdout;
        let hosts = self.folder.join("known_hosts");
        Ssh {
            address: format!("{}@127.0.0.1", String::from_utf8(user).unwrap().trim()),
            port: Some(port),
            key: Some(self.folder.join("user")),
            options: vec![
                "StrictHostKeyChecking=accept-new".into(),
                format!("UserKnownHostsFile={}", hosts.display()),
            ],
        }
    }
}

#[test]
fn commands_files_and_failures_over_ssh() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = Server::start(folder.path()) else {
        return;
    };
    let way = server.way(server.port);
    assert!(way.probe().unwrap().contains(std::env::consts::ARCH));
    let mut lines = Vec::new();
    let mut command = Command::new(["sh", "-c", "cat; echo \"$0\" $X; exit 255", "it's \"a\" $HOME"]);
    command.stdin = b"read\n".to_vec();
    command.environment.push(("X".into(), "y".into()));
    // 255 is the program's own code for its own failures, and this is the command's
    let exit = way
        .execute(&command, &mut |line| lines.push(line.to_owned()))
        .unwrap();
    assert_eq!(
        (exit.code, lines),
        (255, vec!["read".to_owned(), "it's \"a\" $HOME y".to_owned()])
    );
    let blob = Blob::of(&shapes(), false).unwrap();
    let [to, back] = ["deep/er/to", "back"].map(|name| folder.path().join(name));
    way.put(&blob, to.to_str().unwrap(), &Default::default()).unwrap();
    assert_eq!(way.get(to.to_str().unwrap(), &back).unwrap(), blob.bytes);
    assert_eq!(std::fs::read(&back).unwrap(), std::fs::read(shapes()).unwrap());
    // another key is refused, which another try does not change
    keygen(&folder.path().join("other")).unwrap();
    let mut stranger = way.clone();
    stranger.key = Some(folder.path().join("other"));
    let error = stranger.probe().unwrap_err();
    assert!(
        matches!(error, TransportError::Refused { .. }) && !error.may_pass(),
        "{error:?}"
    );
    // a cable that is cut during a command, and before one
    let cable = Arc::new(Cable::to(server.port));
    let far = server.way(cable.port);
    far.probe().unwrap();
    let cut = Arc::clone(&cable);
    let error = far.execute(&Command::new(["sh", "-c", "echo here; sleep 30"]), &mut |line| {
        if line == "here" {
            cut.cut();
        }
    });
    assert!(
        matches!(error, Err(TransportError::Disconnected { .. })),
        "{error:?}"
    );
    assert!(matches!(far.probe(), Err(TransportError::Unreachable { .. })));
    cable.repair();
    far.probe().unwrap();
}

#[test]
fn cut_cable_loses_and_repeats_no_item() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = Server::start(folder.path()) else {
        return;
    };
    let cable = Arc::new(Cable::to(server.port));
    let boards = [board("far", &folder.path().join("board"), server.way(cable.port))];
    let path = folder.path().join("run");
    let run = created(&path, header("run", &boards, &[Job::Soak], 3));
    let cut = {
        let cable = Arc::clone(&cable);
        let journal = folder.path().join("board/runs/run/journal.jsonl");
        std::thread::spawn(move || {
            // once the first item is written down, the way goes, for longer than the second one takes
            let end = Instant::now() + Duration::from_secs(300);
            while std::fs::metadata(&journal).map_or(0, |data| data.len()) == 0 {
                assert!(Instant::now() < end, "nothing was measured");
                std::thread::sleep(Duration::from_millis(50));
            }
            cable.cut();
            std::thread::sleep(Duration::from_secs(5));
            cable.repair();
        })
    };
    let mut settings = settings();
    settings.tries = 8;
    let summary = driven(&run, &boards, &settings);
    cut.join().unwrap();
    assert_eq!(
        (summary.measured, summary.lost, summary.left),
        (3, 0, 0),
        "{summary:?}"
    );
    let found = records(&path, "far");
    assert_eq!(found.len(), 3);
    assert!(
        found
            .iter()
            .all(|record| matches!(record.outcome, Outcome::Measured(_)) && record.attempt == 1)
    );
    // what the board wrote down is what came here
    let text = std::fs::read_to_string(folder.path().join("board/runs/run/journal.jsonl")).unwrap();
    assert_eq!(polychip_farm_record::read_lines(&text).unwrap().records, found);
    let summary = driven(&run, &boards, &settings);
    assert_eq!(summary.sent.files, 0, "{summary:?}");
}
