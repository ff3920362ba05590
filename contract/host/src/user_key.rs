//! A key that only this user has on this machine: it marks what was stored here, so that bytes from
//! elsewhere are recognized.
//!
//! Invariants:
//! 1. A key file is used only if it is a regular file of this user that no other user can read or
//!    write. A link is not followed.
//! 2. A file is made whole or not at all, and an existing one is never replaced: processes that start at the
//!    same time use the same key.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Name of the key file.
const NAME: &str = "user.key";
const BYTES: usize = 32;

/// The key of this user on this machine.
#[derive(Clone)]
pub struct UserKey([u8; BYTES]);

impl std::fmt::Debug for UserKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UserKey")
    }
}

impl UserKey {
    /// The folder for keys in the user's data folder (`~/.local/share/polychip` on Linux); `None` if
    /// the user has none.
    #[must_use]
    pub fn usual_folder() -> Option<PathBuf> {
        Some(directories::BaseDirs::new()?.data_local_dir().join("polychip"))
    }

    /// A random key that no file holds.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn in_memory() -> io::Result<UserKey> {
        let mut key = [0; BYTES];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(UserKey(key))
    }

    /// The key in this folder; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, has another size, is a link, belongs to another user, or others can read or write it.
    pub fn read(folder: &Path) -> io::Result<Option<UserKey>> {
        read(folder, own_id())
    }

    /// The key in this folder, made if there is none.
    ///
    /// # Errors
    /// As for [`UserKey::read`], or the folder or file cannot be written.
    pub fn read_or_create(folder: &Path) -> io::Result<UserKey> {
        if let Some(key) = UserKey::read(folder)? {
            return Ok(key);
        }
        make_private(folder)?;
        let key = UserKey::in_memory()?;
        // a name that no other process or thread uses
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(io::Error::other)?;
        let aside = folder.join(format!("{NAME}.{:016x}.part", u64::from_le_bytes(number)));
        let linked = write_new(&aside, &key.0).and_then(|()| std::fs::hard_link(&aside, folder.join(NAME)));
        let removed = std::fs::remove_file(&aside);
        match linked {
            Ok(()) => removed.map(|()| key),
            // another process was first
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                UserKey::read(folder)?.ok_or_else(|| io::ErrorKind::NotFound.into())
            }
            Err(error) => Err(error),
        }
    }

    /// The key.
    #[must_use]
    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }
}

/// As [`UserKey::read`], for the user of this number.
fn read(folder: &Path, user: u32) -> io::Result<Option<UserKey>> {
    let path = folder.join(NAME);
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    let mut file = match options.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(named(&path, error)),
    };
    check(&file, user).map_err(|error| named(&path, error))?;
    let mut bytes = Vec::with_capacity(BYTES + 1);
    Read::by_ref(&mut file)
        .take(BYTES as u64 + 1)
        .read_to_end(&mut bytes)?;
    let key = <[u8; BYTES]>::try_from(bytes).map_err(|bytes| {
        let words = format!(
            "a key file of {} bytes or more; it must have {BYTES}",
            bytes.len()
        );
        named(&path, io::Error::new(io::ErrorKind::InvalidData, words))
    })?;
    Ok(Some(UserKey(key)))
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Refuses a file that others may have written or read.
#[cfg(unix)]
fn check(file: &File, user: u32) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata()?;
    crate::open_file::check(metadata.file_type())?;
    let words = if metadata.uid() != user {
        format!("the file belongs to user {}, not to user {user}", metadata.uid())
    } else if metadata.mode() & 0o077 != 0 {
        format!(
            "other users may read or write the file (mode {:03o}; it must be 600)",
            metadata.mode() & 0o777
        )
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, words))
}

/// The folder is the user's own by the system's defaults.
#[cfg(not(unix))]
fn check(file: &File, _: u32) -> io::Result<()> {
    crate::open_file::check(file.metadata()?.file_type())
}

#[cfg(unix)]
fn own_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn own_id() -> u32 {
    0
}

/// Makes a folder, if it is missing, that only this user can enter.
///
/// # Errors
/// The system refuses.
pub fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes a new file that only this user can read and write.
///
/// # Errors
/// The file exists, or the system refuses.
pub fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_private(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(all(test, unix, not(miri)))] // Miri knows no modes of files
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn key_is_made_once_and_for_this_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a/b");
        assert!(UserKey::read(&folder).unwrap().is_none());
        let keys: Vec<_> = std::thread::scope(|scope| {
            let make = || *UserKey::read_or_create(&folder).unwrap().bytes();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(
            keys.iter().all(|key| *key == keys[0]),
            "threads made different keys"
        );
        assert_ne!(keys[0], [0; BYTES]);
        assert_eq!(UserKey::read(&folder).unwrap().unwrap().bytes(), &keys[0]);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(NAME))), (0o700, 0o600));
        assert_eq!(
            std::fs::read_dir(&folder).unwrap().count(),
            1,
            "no file is left aside"
        );
    }

    #[test]
    fn key_of_another_user_or_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        UserKey::read_or_create(folder.path()).unwrap();
        let error = read(folder.path(), own_id() + 1).unwrap_err().to_string();
        assert!(error.contains("belongs to user"), "{error}");
        let path = folder.path().join(NAME);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        for refused in [
            UserKey::read(folder.path()).map(drop),
            UserKey::read_or_create(folder.path()).map(drop),
        ] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("mode 640; it must be 600"), "{error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, [1; 33]).unwrap();
        let error = UserKey::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("must have 32"), "{error}");
        let other = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&path, other.path().join(NAME)).unwrap();
        assert!(UserKey::read(other.path()).is_err(), "a link is followed");
    }
}
