//! Sandbox processes, which read text that a client or a model file wrote: chat templates, JSON
//! schemas and grammars. Such a text can use up its reader's stack, memory or time.
//!
//! Invariants:
//! 1. A sandbox is limited in memory, stack and processor time by the system, and in time by its starter, which ends it.
//!    Its death is an [`Error`](crate::Error) of the request, and names the limit.
//! 2. A sandbox ends with the process that started it.
//! 3. A sandbox opens no file but those of the system's time zones, and no connection. It loads no plugin.
//!
//! The program is found in this order: [`set_command`]; `polychip-llm-sandbox` beside the app's executable, for tests and
//! examples also in the folder above. Without it, templates and grammars are read in the app's process, within stricter limits of size and
//! depth, but without a limit of memory (`docs/language-models.md`).
//!
//! Start reading at [`serve`] (the sandbox) and `Process` (its starter).

mod command;
mod frame;
mod idle;
mod jobs;
pub(crate) mod kind;
mod limits;
mod process;
mod vocabulary;

pub use command::{is_available, set_command};
pub(crate) use idle::Idle;
pub(crate) use jobs::TemplateJob;
pub use jobs::serve;
pub(crate) use limits::CHEAP;
pub(crate) use process::{Failure, Process};
pub(crate) use vocabulary::TokenTable;
