//! A language model server: chats and completions over HTTP, for OpenAI API clients.
//!
//! Invariants:
//! 1. One thread runs the model and gives each answer a step in turn. No client waits for another's whole prompt or
//!    answer, and the thread never waits for a connection.
//! 2. Every resource that clients can use up is limited: connections, header and body bytes, time, waiting requests,
//!    answers in progress, KV cache memory. Requests beyond a limit get an error.
//! 3. A parameter that asks for something unsupported is an error that names it. One that is unknown or has no effect is
//!    ignored and logged, or refused by a strict server.
//! 4. A disconnected client costs nothing more: its answer ends at the next step.
//!
//! 5. No request ends the server: what walks a client's schema or a model's template does so in a sandbox process
//!    (`polychip_llm::sandbox`), under the system's limits.
//! 6. Keys are clients: no answer, count or time of one depends on what another has asked, but for the load.
//!
//! From the connection inwards: connections (`server`, `connections`), who may come in (`access`), turns of clients
//! (`gate`, `lanes`), routes (`routes`), interfaces (`api`), requests (`fields`, `request`, `prompt`), the queue (`queue`),
//! answers in progress (`rounds`), memory (`pool`), responses (`answer`, `stream`, `problem`).
//!
//! Not here: TLS, several models and HTTP/2, which a reverse proxy provides; running a model (`polychip-llm`).
//!
//! Start with [`Server`].

#![forbid(unsafe_code)]

mod access;
mod answer;
mod api;
mod connections;
mod error;
mod fields;
mod gate;
mod job;
mod lanes;
mod metrics;
mod options;
mod pool;
mod problem;
mod prompt;
mod queue;
mod request;
mod rounds;
mod routes;
mod server;
mod stream;

pub use error::{Error, ErrorKind};
pub use options::Options;
pub use server::{Handle, Server};

/// Reads a body as a request of each interface, for the fuzz target `request`.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn read_request(body: &[u8]) {
    let interfaces: [api::Read; 7] = [
        api::chat::read,
        api::completions::read,
        api::embeddings::read,
        api::responses::read,
        api::messages::read,
        api::ollama::read_chat,
        api::ollama::read_generate,
    ];
    for read in interfaces {
        let mut notes = fields::Notes::default();
        let asked = read(body, "model", &mut notes);
        if let Err(problem) = asked.and_then(|(asked, _)| asked.check()) {
            let text = problem.json().to_string();
            serde_json::from_str::<serde_json::Value>(&text).expect("a problem is JSON");
        }
    }
}
