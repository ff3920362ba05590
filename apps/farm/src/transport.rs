//! The connection to a board: commands, files, and their failures.
//!
//! Invariants:
//! 1. An exit code is the command's own: a connection that ends without one is an error, never a code.
//! 2. A sent file is complete under its name, or the name does not exist.
//!
//! Not here: the files to send (`upload`), the programs to run (`drive`).

mod adb;
mod local;
pub(crate) mod process;
mod quoted;
mod shell;
mod simulated;
mod ssh;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

pub use adb::Adb;
pub use local::Local;
pub use simulated::{Course, Faults, Simulated, World};
pub use ssh::Ssh;

pub(crate) use shell::time_of;

use crate::blob::Blob;

/// How a board is reached. All calls block, and may be made from any thread, one at a time.
pub trait Transport: Debug + Send + Sync {
    /// The name in records: `local`, `ssh`, `adb`, `simulated`.
    fn name(&self) -> &'static str;

    /// Runs a command, and gives each line of its standard output as it comes, without its end.
    ///
    /// # Errors
    /// The board is not reached, the connection is lost, or the time is over. A command that fails is an [`Exit`].
    fn execute(&self, command: &Command, line: &mut dyn FnMut(&str)) -> Result<Exit, TransportError>;

    /// Copies a file of this host to the board, under a temporary name until its length is right. Folders are made.
    /// `sent` counts the bytes that have left this host, where the transport tells.
    ///
    /// # Errors
    /// As of [`Transport::execute`]; the board's disk is full, or fewer bytes arrived than were sent.
    fn put(&self, blob: &Blob, to: &str, sent: &Counter) -> Result<(), TransportError>;

    /// Copies a file of the board to this host, under a temporary name until its length is right.
    ///
    /// # Errors
    /// As of [`Transport::execute`]; no such file, or fewer bytes arrived than it has.
    fn get(&self, from: &str, to: &Path) -> Result<u64, TransportError>;

    /// Lengths of files of the board in bytes, none where no such file.
    ///
    /// # Errors
    /// As of [`Transport::execute`].
    fn lengths(&self, paths: &[String]) -> Result<Vec<Option<u64>>, TransportError>;

    /// System and processor of the board, as `uname -sm` says them.
    ///
    /// # Errors
    /// As of [`Transport::execute`].
    fn probe(&self) -> Result<String, TransportError>;

    /// Makes the farm's folder on the board, and checks that only the transport's user can change it. `~/` at its
    /// beginning is the user's home.
    ///
    /// # Errors
    /// As of [`Transport::execute`]; [`TransportError::UnsafeFolder`] where another user of the board could change it.
    fn prepare(&self, folder: &str) -> Result<Prepared, TransportError>;

    /// Whether a program of this host is on the board, by its contents. False also where the board cannot compute a
    /// SHA-256, or the program has none here ([`Blob::sha256`]).
    ///
    /// # Errors
    /// As of [`Transport::execute`].
    fn has(&self, blob: &Blob, at: &str) -> Result<bool, TransportError>;
}

/// A number that one thread counts up and others read.
pub type Counter = Arc<AtomicU64>;

/// A board that is ready for files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Absolute path of the farm's folder, without symbolic links.
    pub folder: String,
    /// System and processor, as [`Transport::probe`].
    pub system: String,
    /// The board's clock in seconds since 1970 in UTC; absent if it does not tell.
    pub clock_s: Option<u64>,
}

/// A command for a board.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables of its environment beside those of the board.
    pub environment: Vec<(String, String)>,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// Longest that it may take.
    pub time_limit: Option<Duration>,
    /// Longest that it may say nothing on standard output.
    pub silence_limit: Option<Duration>,
}

impl Command {
    /// A program with its arguments.
    pub fn new<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Command {
        Command {
            words: words.into_iter().map(Into::into).collect(),
            ..Command::default()
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Its own exit code; 128 and a signal's number where a signal ended it.
    pub code: i32,
    /// The end of what it said on standard error.
    pub stderr: String,
}

/// What went wrong with a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The program that reaches it is not installed here.
    #[error("{program} is not installed on this host")]
    NoProgram {
        /// Its name.
        program: String,
    },
    /// Nothing was begun on the board.
    #[error("unreachable: {words}")]
    Unreachable {
        /// What the program that connects says.
        words: String,
    },
    /// The board does not let this user in.
    #[error("refused: {words}")]
    Refused {
        /// What the program that connects says.
        words: String,
    },
    /// The connection was cut after a command began; whether the command still runs is unknown.
    #[error("cut off: {words}")]
    Disconnected {
        /// What the program that connects says.
        words: String,
    },
    /// The time is over.
    #[error("{what} took more than {seconds} s")]
    TimedOut {
        /// What it was.
        what: String,
        /// The limit.
        seconds: u64,
    },
    /// A file arrived in part.
    #[error("{path}: {arrived} of {sent} bytes arrived")]
    Partial {
        /// Its name where it was to go.
        path: String,
        /// Bytes that were sent.
        sent: u64,
        /// Bytes that arrived.
        arrived: u64,
    },
    /// A file arrived with other bytes.
    #[error("{path}: the received bytes differ from those sent: {words}")]
    Corrupt {
        /// Its name on the board.
        path: String,
        /// What the runner says.
        words: String,
    },
    /// The board's disk is full.
    #[error("the board's disk is full: {words}")]
    NoSpace {
        /// What the board says.
        words: String,
    },
    /// Another user of the board could change what is executed there.
    #[error(
        "the farm's folder on the board is not private: {words}; set `folder` in the inventory to a folder that only its user can change, or delete what is there"
    )]
    UnsafeFolder {
        /// Which folder, and why.
        words: String,
    },
    /// The board does the transfer's command in another way than expected.
    #[error("{what} failed on the board with exit code {code}: {words}")]
    Failed {
        /// What it was.
        what: String,
        /// Its exit code.
        code: i32,
        /// What it said.
        words: String,
    },
    /// A file of this host.
    #[error("{path}: {words}")]
    Host {
        /// Its name.
        path: String,
        /// What the system says.
        words: String,
    },
}

impl TransportError {
    /// Another try may succeed: the connection, not the board or this host, failed.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            TransportError::Unreachable { .. }
            | TransportError::Disconnected { .. }
            | TransportError::TimedOut { .. }
            | TransportError::Partial { .. }
            | TransportError::Corrupt { .. } => true,
            TransportError::NoProgram { .. }
            | TransportError::Refused { .. }
            | TransportError::NoSpace { .. }
            | TransportError::UnsafeFolder { .. }
            | TransportError::Failed { .. }
            | TransportError::Host { .. } => false,
        }
    }
}
