//! A server of language models: chats and completions over HTTP, as clients of OpenAI's interface expect it.
//!
//! Invariants:
//! 1. One thread runs the model: it gives each answer a step in turn, so that no client waits for
//!    another one's whole prompt or answer, and no client's connection is ever waited for.
//! 2. All that clients can use up has a limit: connections, bytes of heads and bodies, time, requests that wait, answers in the
//!    making, memory of keys and values. Beyond it they are told so.
//! 3. A parameter that is not known or cannot be heeded is an error that names it; nothing is left out of account silently.
//! 4. Whoever is gone costs nothing more: an answer ends at the next step once its client has hung up.
//!
//! From a connection inwards: connections (`server`), routes (`routes`), what is asked (`request`, `prompt`), what waits
//! (`queue`), answers in the making (`rounds`), memory (`pool`), what goes back (`reply`, `problem`).
//!
//! Not here: TLS, several models, HTTP/2: a reverse proxy's. How a model is run (`polychip-llm`).
//!
//! Start with [`Server`].

#![forbid(unsafe_code)]

mod error;
mod job;
mod metrics;
mod options;
mod pool;
mod problem;
mod prompt;
mod queue;
mod reply;
mod request;
mod rounds;
mod routes;
mod server;

pub use error::{Error, ErrorKind};
pub use options::Options;
pub use server::{Handle, Server};
