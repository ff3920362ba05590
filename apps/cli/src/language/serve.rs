//! `polychip serve`: a language model over HTTP, for clients of OpenAI's interface.
//!
//! Invariants:
//! 1. The line that says where it listens is printed once clients may connect.
//! 2. The first SIGINT or SIGTERM lets running answers end, the second gives them up; the exit code is 0 either way.

use std::env::VarError;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::Context as _;
use polychip_serve::{ErrorKind, Handle, Options, Server};
use schemars::JsonSchema;
use serde::Serialize;

use super::LanguageArguments;
use crate::exit::{Code, failure, usage, warn};
use crate::output::Output;
use crate::progress::Progress;

/// Names the key, so that it stands in no list of processes.
const KEY: &str = "POLYCHIP_API_KEY";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
paths: POST /v1/chat/completions, POST /v1/completions, GET /v1/models, GET /health, GET /metrics
environment: POLYCHIP_API_KEY is the key where --api-key gives none
SIGINT or SIGTERM lets running answers end, a second one gives them up")]
pub(crate) struct Arguments {
    /// Print where it listens as JSON
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
    /// Address to listen on; any but this machine's own is open to others
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// Port to listen on; 0 for one that is free
    #[arg(long, value_name = "N", default_value_t = 8080)]
    port: u16,
    /// The model's name for clients (the file's, without its end, where left out)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Clients must send this key as `Authorization: Bearer KEY`
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Answers that are made at once, each with keys and values of its own
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_active: u32,
    /// Answers that get a token by one run, with one read of the weights; 1 makes each as if it were alone
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=16))]
    max_batch: u32,
    /// Requests that may wait beside them; one more gets 429
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=65536))]
    max_queue: u32,
    /// Most tokens of an answer (as many as there is room for where left out)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// Memory for keys and values (what --max-active answers can need where left out, at most 4096)
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    kv_memory: Option<u32>,
    /// Longest time of a request, from its arrival to its answer's end
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// How long running answers may go on once the server is told to end
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: u32,
}

/// What `serve --json` prints, in one line, once it listens.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// Where it listens.
    address: String,
    /// What clients call the base URL.
    url: String,
    /// The model's name for clients.
    model: String,
    /// Positions that there is room for, of prompt and answer together.
    context: usize,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let asked = &arguments.server;
    let key = match (&asked.api_key, std::env::var(KEY)) {
        (Some(key), _) => Some(key.clone()),
        (None, Ok(key)) => Some(key).filter(|key| !key.is_empty()),
        (None, Err(VarError::NotPresent)) => None,
        // a key that cannot be read is not none
        (None, Err(VarError::NotUnicode(_))) => {
            return Err(usage(format!("{KEY}: a key is of visible ASCII characters")));
        }
    };
    if !asked.host.is_loopback() && key.is_none() {
        warn(format!(
            "whoever reaches {} may use the model: --api-key lets in only those who know it",
            asked.host
        ));
    }
    let model = arguments.model.open()?;
    let context = model.capacity();
    let server = {
        let _progress = Progress::of("packing weights");
        Server::new(model, asked.options(key)).map_err(explained)?
    };
    end_in_order(server.handle())?;
    let url = format!("http://{}/v1", server.address());
    let answer = Answer {
        address: server.address().to_string(),
        model: server.name().to_owned(),
        context,
        url,
    };
    match arguments.json {
        true => out.json_line(&answer)?,
        false => out.text(&format!("{} is served at {}", answer.model, answer.url))?,
    }
    server.run().map_err(explained)
}

impl ServerArguments {
    fn options(&self, key: Option<String>) -> Options {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        let mut options = Options::new()
            .address(self.host)
            .port(self.port)
            .max_active(self.max_active as usize)
            .max_batch(self.max_batch as usize)
            .max_queue(self.max_queue as usize)
            .timeout(seconds(self.timeout))
            .grace(seconds(self.grace));
        if let Some(name) = &self.name {
            options = options.name(name);
        }
        if let Some(key) = key {
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
