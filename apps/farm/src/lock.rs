//! One owner per board and per run, among all programs of this host.
//!
//! Invariant: a lock ends with its process, however the process ends.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Something that one program owns at a time; given back when dropped.
#[derive(Debug)]
pub struct Lock {
    // the lock is the open file's
    file: File,
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another one has it.
    #[error("in use by {owner}")]
    Held {
        /// Who, as they wrote it.
        owner: String,
    },
    /// The file cannot be made or opened.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The folder of boards' locks that all users of this host share.
#[must_use]
pub fn folder() -> PathBuf {
    let shared = Path::new("/run/lock");
    let base = if shared.is_dir() {
        shared.to_owned()
    } else {
        std::env::temp_dir()
    };
    base.join("polychip-farm")
}

impl Lock {
    /// Takes the lock of a name in a folder, which all users may use; a name is one board's, whatever an inventory calls it.
    ///
    /// # Errors
    /// Another program has it, or the file cannot be made.
    pub fn board(folder: &Path, name: &str) -> Result<Lock, LockError> {
        let made = std::fs::create_dir(folder);
        if made.is_ok() {
            // the next user must be able to make files, too; not ours to change where somebody else made it
            let _ = std::fs::set_permissions(folder, Permissions::from_mode(0o1777));
        }
        let is_kept = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let file: String = name.chars().map(|c| if is_kept(c) { c } else { '_' }).collect();
        Lock::take(&folder.join(format!("{file}.lock")))
    }

    /// Takes the lock of a file.
    ///
    /// # Errors
    /// Another program has it, or the file cannot be made.
    pub fn take(path: &Path) -> Result<Lock, LockError> {
        let io = |source| LockError::Io {
            path: path.to_owned(),
            source,
        };
        // what another user put into a shared folder may lead to any file of ours, or be a pipe without a writer
        let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK)
            .bits()
            .cast_signed();
        let open = |write: bool, create: bool| {
            OpenOptions::new()
                .read(true)
                .write(write)
                .create(create)
                .truncate(false)
                .mode(0o644)
                .custom_flags(flags)
                .open(path)
        };
        // a file of another user in a sticky folder may be opened, and not with the flag that makes one
        let file = match open(true, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => open(true, true),
            // it belongs to another user: a reader may lock it, too
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open(false, false),
            other => other,
        };
        let mut file = file.map_err(io)?;
        if !file.metadata().map_err(io)?.is_file() {
            return Err(io(io::Error::other("it is not a regular file; delete it")));
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut owner = String::new();
                let _ = (&mut file).take(LONGEST).read_to_string(&mut owner);
                return Err(LockError::Held {
                    owner: holder(&owner),
                });
            }
            Err(error) => return Err(io(error.into())),
        }
        // who reads it needs to know whom to ask; nothing depends on it
        let user = std::env::var("USER").unwrap_or_else(|_| "somebody".to_owned());
        let words = format!("{user}, process {}", std::process::id());
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(words.as_bytes()));
        Ok(Lock { file })
    }
}

/// Longest text of a lock that is read, in bytes.
const LONGEST: u64 = 200;

/// Who holds a lock, by its text. Another user's text is out of date where this one holds a file that only that user may
/// write: then its process has ended.
fn holder(text: &str) -> String {
    let process = text
        .rsplit_once("process ")
        .and_then(|(_, id)| id.trim().parse().ok());
    let ended = |id| {
        matches!(
            rustix::process::test_kill_process(id),
            Err(rustix::io::Errno::SRCH)
        )
    };
    match process.and_then(rustix::process::Pid::from_raw) {
        Some(id) if !ended(id) => polychip_farm_record::printable(text.trim()).into_owned(),
        _ => "a program of another user".to_owned(),
    }
}

impl Drop for Lock {
    /// Closing the file would do only once no duplicate is left, and a child that another thread has just forked holds one until
    /// it becomes its program.
    fn drop(&mut self) {
        // nothing can be done where it fails, and the file is closed next
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_of_the_file_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path).unwrap();
        let duplicate = first.file.try_clone().unwrap();
        assert!(matches!(Lock::take(&path), Err(LockError::Held { .. })));
        drop(first);
        Lock::take(&path).unwrap();
        drop(duplicate);
    }

    #[test]
    fn held_lock_names_a_living_process_without_control_characters() {
        let own = std::process::id();
        assert_eq!(
            holder(&format!("ann\nerror: forged, process {own}")),
            format!("ann\\nerror: forged, process {own}")
        );
        assert_eq!(holder("ann, process 2147483600"), "a program of another user");
        assert_eq!(holder(""), "a program of another user");
    }

    #[test]
    fn board_lock_has_one_named_owner() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("locks");
        let first = Lock::board(&folder, "ssh root@10.0.0.1:22").unwrap();
        let other = Lock::board(&folder, "ssh root@10.0.0.2:22").unwrap();
        let held = Lock::board(&folder, "ssh root@10.0.0.1:22")
            .unwrap_err()
            .to_string();
        assert!(
            held.contains(&format!("process {}", std::process::id())),
            "{held}"
        );
        drop(first);
        drop(Lock::board(&folder, "ssh root@10.0.0.1:22").unwrap());
        drop(other);
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o1777);
        let (link, other) = (folder.join("link.lock"), folder.join("precious"));
        std::fs::write(&other, "words").unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert!(matches!(Lock::take(&link), Err(LockError::Io { .. })));
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "words");
        let mode = |name: &str| {
            let path = folder.join(name);
            std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
        };
        assert_eq!(
            mode("ssh_root_10.0.0.1_22.lock") & 0o022,
            0,
            "others cannot write into it"
        );
        let pipe = folder.join("pipe.lock");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success() && matches!(Lock::take(&pipe), Err(LockError::Io { .. })));
        assert!(matches!(
            Lock::take(Path::new("/no/such")),
            Err(LockError::Io { .. })
        ));
    }
}
