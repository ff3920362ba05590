//! `polychip serve`: a language model over HTTP, for OpenAI API clients.
//!
//! Invariants:
//! 1. The address line is printed once clients can connect.
//! 2. The first SIGINT or SIGTERM lets running answers finish, the second aborts them; the exit code is 0 in both
//!    cases.

use std::env::VarError;
use std::time::Duration;

use anyhow::Context as _;
use polychip_serve::{ErrorKind, Handle, Options, Server};
use schemars::JsonSchema;
use serde::Serialize;

use super::{LanguageArguments, PrecisionOutput};
use crate::exit::{Code, failure, usage, warn};
use crate::output::Output;
use crate::progress::Progress;

/// Holds the API keys, which would otherwise appear in process lists.
const KEY: &str = "POLYCHIP_API_KEY";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
paths: POST /v1/chat/completions, /v1/completions, /v1/responses (OpenAI), /v1/messages (Anthropic), /api/chat,
       /api/generate (Ollama), /tokenize, /detokenize; GET / lists all of them
environment: POLYCHIP_API_KEY sets the keys, separated by blanks, if --api-key is absent
SIGINT or SIGTERM lets running answers finish; a second signal drops them")]
pub(crate) struct Arguments {
    /// Print the listening address as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: LanguageArguments,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
struct ServerArguments {
    /// Address or host name to listen on; any address but a loopback one is open to other machines
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Port to listen on; 0 for a free port
    #[arg(long, value_name = "N", default_value_t = 8080)]
    port: u16,
    /// Model name for clients; default: the file name without its extension
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Further model name for clients; repeatable
    #[arg(long, value_name = "NAME")]
    alias: Vec<String>,
    /// Answer requests for any model name
    #[arg(long)]
    any_model: bool,
    /// Host name that clients may use for a server without a key, such as host.docker.internal; repeatable
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Origin whose pages may use the server from a browser, such as https://app.example, or `*` for all; repeatable
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    /// Refuse request fields that are unknown or have no effect; default: ignore and log each once
    #[arg(long)]
    strict: bool,
    /// Key that clients must send as `Authorization: Bearer KEY`; repeatable: each key is a client of its own, whose
    /// cached prompts no other key's requests reuse
    #[arg(long, value_name = "KEY")]
    api_key: Vec<String>,
    /// Maximum number of concurrent answers, each with its own KV cache
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_active: u32,
    /// Maximum batch size: answers that share one run and one read of the weights per token; 1 computes each answer
    /// alone
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=16))]
    max_batch: u32,
    /// Maximum number of waiting requests; further ones get status 429
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=65536))]
    max_queue: u32,
    /// Maximum number of tokens of an answer; default: as many as fit in the context
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// KV cache memory in MiB; default: the need of --max-active answers, at most 4096
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    kv_memory: Option<u32>,
    /// Maximum seconds of a request, from its arrival to the end of its answer
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// Seconds for running answers to finish once the server is asked to stop
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: u32,
}

/// Output of `serve --json`: one line, printed once the server listens.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ServeOutput {
    /// Address of the server.
    address: String,
    /// Base URL for clients.
    url: String,
    /// The model's name for clients.
    model: String,
    /// Positions that there is room for, of prompt and answer together.
    context: usize,
    /// The precision that it computes in.
    precision: PrecisionOutput,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let asked = &arguments.server;
    let keys = match std::env::var(KEY) {
        _ if !asked.api_key.is_empty() => asked.api_key.clone(),
        Ok(keys) => keys.split_whitespace().map(str::to_owned).collect(),
        Err(VarError::NotPresent) => Vec::new(),
        // a key that cannot be read is not none
        Err(VarError::NotUnicode(_)) => {
            return Err(usage(format!(
                "{KEY}: a key must consist of visible ASCII characters"
            )));
        }
    };
    let is_open = keys.is_empty();
    let model = arguments.model.open()?;
    let context = model.capacity();
    let precision = {
        let _progress = Progress::of("comparing precisions");
        PrecisionOutput::of(&model)
    };
    let server = {
        let _progress = Progress::of("packing weights");
        Server::new(model, asked.options(keys)).map_err(explained)?
    };
    if !server.address().ip().is_loopback() && is_open {
        warn(format!(
            "every machine that reaches {} can use the model; restrict access with --api-key",
            server.address().ip()
        ));
    }
    end_in_order(server.handle())?;
    let url = format!("http://{}/v1", server.address());
    let answer = ServeOutput {
        address: server.address().to_string(),
        model: server.name().to_owned(),
        context,
        precision,
        url,
    };
    if arguments.json {
        out.json_line(&answer)?
    } else {
        out.text(&format!(
            "{} is served at {}\nprecision: {} ({})",
            answer.model, answer.url, answer.precision.chosen, answer.precision.reason
        ))?
    }
    server.run().map_err(explained)
}

impl ServerArguments {
    fn options(&self, keys: Vec<String>) -> Options {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        let mut options = Options::new()
            .host(&self.host)
            .port(self.port)
            .any_model(self.any_model)
            .strict(self.strict)
            .max_active(self.max_active as usize)
            .max_batch(self.max_batch as usize)
            .max_queue(self.max_queue as usize)
            .timeout(seconds(self.timeout))
            .grace(seconds(self.grace));
        if let Some(name) = &self.name {
            options = options.name(name);
        }
        for name in &self.alias {
            options = options.alias(name);
        }
        for name in &self.allow_host {
            options = options.allow_host(name);
        }
        for origin in &self.cors {
            options = options.cors(origin);
        }
        for key in keys {
            options = options.api_key(key);
        }
        if let Some(tokens) = self.max_tokens {
            options = options.max_tokens(tokens as usize);
        }
        if let Some(mebibytes) = self.kv_memory {
            options = options.kv_bytes(u64::from(mebibytes) << 20);
        }
        options
    }
}

/// With the exit code that it has.
fn explained(error: polychip_serve::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::Options | ErrorKind::Listen => failure(Code::Usage, error),
        ErrorKind::Ended => failure(Code::DeviceFailed, error),
        _ => error.into(),
    }
}

/// Shuts the server down where the command is ended, and gives up where that is said twice.
fn end_in_order(handle: Handle) -> anyhow::Result<()> {
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGINT, SIGTERM};
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("signals")?;
        let listen = move || {
            for (index, _) in signals.forever().enumerate() {
                match index {
                    0 => handle.shut_down(),
                    _ => handle.give_up(),
                }
            }
        };
        let thread = std::thread::Builder::new().name("polychip-signals".to_owned());
        thread.spawn(listen).context("a thread for signals")?;
    }
    #[cfg(not(unix))]
    let _ = handle;
    Ok(())
}
