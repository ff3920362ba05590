//! Worker processes: a program of their own for what walks text that a client or a model file wrote, that is chat
//! templates, JSON schemas and grammars. Such a text can use up the stack, the memory or the time of whoever reads it.
//!
//! Invariants:
//! 1. A worker is limited in memory, stack and processor time by the system, and in time by its starter, which ends it.
//!    Its death is an [`Error`](crate::Error) of the request, and names the limit.
//! 2. A worker ends with the process that started it.
//! 3. A worker opens no file but those of the system's time zones, and no connection. It loads no plugin.
//!
//! The program is found in this order: [`set_command`]; `polychip-llm-worker` beside the app's executable or in the
//! folder above. Without it, templates and grammars are read in the app's process, within stricter limits of size and
//! depth, but without a limit of memory (`docs/language-models.md`).
//!
//! Start reading at [`serve`] (the worker) and `Process` (its starter).

mod frame;
mod jobs;
mod process;
mod vocabulary;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

pub(crate) use process::{Failure, Process};
pub(crate) use vocabulary::TokenTable;

/// Memory that a job may take beside the vocabulary, in bytes.
const MEMORY: u64 = 256 << 20;
/// Stack of the thread that does the jobs, in bytes.
const STACK: usize = 64 << 20;
/// Processor time of a job in seconds: of reading a template or grammar, or of one token's mask. The system counts whole
/// seconds, so a job may get up to one more.
const CPU_SECONDS: u64 = 1;
/// Longest time of a job, on a machine that has no processor time for it.
const LONGEST: Duration = Duration::from_secs(10);
/// A worker whose job took longer is not used again: its memory may be large or in pieces.
pub(crate) const CHEAP: Duration = Duration::from_millis(250);
/// Most bytes of a message.
const MAX_FRAME: usize = 256 << 20;
/// Workers without a job that are kept for the next one.
const MAX_IDLE: usize = 4;

/// The kinds of messages: their first byte.
pub(crate) mod kind {
    pub(crate) const TEMPLATE: u8 = b'T';
    pub(crate) const VOCABULARY: u8 = b'V';
    pub(crate) const SCHEMA: u8 = b'J';
    pub(crate) const LARK: u8 = b'L';
    /// Begins an answer, gives it a token, ends it.
    pub(crate) const BEGIN: u8 = b'B';
    pub(crate) const TOKEN: u8 = b'K';
    pub(crate) const END: u8 = b'E';
    /// Forgets the grammar.
    pub(crate) const RESET: u8 = b'R';
    /// Reply: what was asked for.
    pub(crate) const DONE: u8 = b'd';
    /// Reply: why it cannot be done, in words.
    pub(crate) const REFUSED: u8 = b'r';
    /// Reply to a token: whether the answer is complete.
    pub(crate) const TAKEN: u8 = b't';
    /// Reply to a token: the tokens that may follow.
    pub(crate) const MASK: u8 = b'm';
    /// Reply to a token: why the answer cannot continue, in words.
    pub(crate) const FAILED: u8 = b'f';
}

pub(crate) use jobs::TemplateJob;

static COMMAND: Mutex<Option<Vec<OsString>>> = Mutex::new(None);

/// Sets the command that starts a worker: a program that calls [`serve`] and does nothing else, and its arguments. An
/// app that has no `polychip-llm-worker` beside it may name itself.
pub fn set_command(program: impl Into<PathBuf>, arguments: impl IntoIterator<Item = OsString>) {
    let program = program.into().into_os_string();
    let command = std::iter::once(program).chain(arguments).collect();
    *COMMAND.lock().unwrap_or_else(PoisonError::into_inner) = Some(command);
}

/// Whether templates and grammars are read in processes of their own.
#[must_use]
pub fn is_available() -> bool {
    command().is_some()
}

/// Does the jobs of the process that started this one, over standard input and output, until that one closes them.
/// Returns an exit code.
pub fn serve() -> u8 {
    jobs::serve()
}

/// The command that starts a worker.
fn command() -> Option<Vec<OsString>> {
    let set = COMMAND.lock().unwrap_or_else(PoisonError::into_inner).clone();
    set.or_else(|| found().map(|program| vec![program.clone().into_os_string()]))
}

/// The program beside this one, or in the folder above it.
fn found() -> Option<&'static PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let search = || {
        let own = std::env::current_exe().ok()?;
        let folders = own.ancestors().skip(1).take(2);
        let name = format!("polychip-llm-worker{}", std::env::consts::EXE_SUFFIX);
        let mut programs = folders.map(|folder: &Path| folder.join(&name));
        programs.find(|program| program.is_file())
    };
    FOUND.get_or_init(search).as_ref()
}

/// Idle workers of one kind.
#[derive(Debug, Default)]
pub(crate) struct Idle(Mutex<Vec<Process>>);

impl Idle {
    pub(crate) const fn new() -> Idle {
        Idle(Mutex::new(Vec::new()))
    }

    /// An idle worker that is alive.
    pub(crate) fn take(&self) -> Option<Process> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut process) = idle.pop() {
            if process.is_alive() {
                return Some(process);
            }
        }
        None
    }

    /// Keeps a worker for the next job; one too many is ended.
    pub(crate) fn give_back(&self, process: Process) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(process);
        }
    }
}
