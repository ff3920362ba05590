//! What vendors' libraries write to standard error while they are loaded.
//!
//! Mesa, for one, prints lines that begin with `error:` where nothing is wrong, and a script that searches for errors
//! finds them.
//!
//! Invariants:
//! 1. Such lines appear only with the log at level debug (`-vv`), or if loading panics, fails or leaves something out.
//! 2. Standard error is restored in any case; lines of this program's own log are never withheld.

/// Calls `load`, and withholds what is written to standard error meanwhile if all is well with what was loaded.
#[cfg(unix)]
pub(crate) fn withheld<T, E>(
    load: impl FnOnce() -> Result<T, E>,
    is_well: impl FnOnce(&T) -> bool,
) -> Result<T, E> {
    let withheld = if tracing::enabled!(tracing::Level::DEBUG) {
        None
    } else {
        unix::Withheld::begin().ok()
    };
    let result = load();
    if let Some(mut withheld) = withheld {
        withheld.shows = !result.as_ref().is_ok_and(is_well);
    }
    result
}

#[cfg(not(unix))]
pub(crate) fn withheld<T, E>(
    load: impl FnOnce() -> Result<T, E>,
    _is_well: impl FnOnce(&T) -> bool,
) -> Result<T, E> {
    load()
}

/// Standard error as it was when the program began, for its own log.
#[cfg(unix)]
pub(crate) fn own_stderr() -> std::io::Result<std::fs::File> {
    use std::os::fd::AsFd;

    Ok(std::io::stderr().as_fd().try_clone_to_owned()?.into())
}

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io::{self, Seek};

    use super::own_stderr;

    /// Standard error leads to a file until this is dropped.
    pub(super) struct Withheld {
        stderr: File,
        written: File,
        pub(super) shows: bool,
    }

    impl Withheld {
        pub(super) fn begin() -> io::Result<Withheld> {
            let withheld = Withheld {
                stderr: own_stderr()?,
                written: tempfile::tempfile()?,
                // until loading has succeeded
                shows: true,
            };
            rustix::stdio::dup2_stderr(&withheld.written)?;
            Ok(withheld)
        }
    }

    impl Drop for Withheld {
        fn drop(&mut self) {
            // descriptor 2 exists, so it can be replaced; nobody could be told otherwise
            let _ = rustix::stdio::dup2_stderr(&self.stderr);
            if self.shows && self.written.rewind().is_ok() {
                let _ = io::copy(&mut self.written, &mut self.stderr);
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, Write};

    use super::withheld;

    /// What reaches standard error while `body` runs.
    fn seen(body: impl FnOnce()) -> String {
        let mut file: File = tempfile::tempfile().unwrap();
        let before = super::own_stderr().unwrap();
        rustix::stdio::dup2_stderr(&file).unwrap();
        body();
        rustix::stdio::dup2_stderr(&before).unwrap();
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn output_while_loading_appears_only_with_a_failure() {
        // no macro: the harness of tests keeps what those print
        let say = |text: &str| std::io::stderr().write_all(text.as_bytes()).unwrap();
        let seen = seen(|| {
            let loaded = withheld(
                || {
                    say("[noise of a driver]");
                    Ok::<_, ()>(7)
                },
                |_| true,
            );
            assert_eq!(loaded, Ok(7));
            say("[own line]");
            let partly = withheld(
                || {
                    say("[reason]");
                    Ok::<_, ()>(7)
                },
                |_| false,
            );
            assert_eq!(partly, Ok(7));
            let failed = withheld(
                || {
                    say("[cause]");
                    Err::<(), _>(8)
                },
                |()| true,
            );
            assert_eq!(failed, Err(8));
            let panicked = std::panic::catch_unwind(|| {
                withheld(
                    || -> Result<(), ()> {
                        say("[last words]");
                        std::panic::resume_unwind(Box::new(9))
                    },
                    |()| true,
                )
            });
            assert!(panicked.is_err());
        });
        assert_eq!(seen, "[own line][reason][cause][last words]");
    }
}
