//! Server options.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::Error;

/// Default limit of KV cache memory in bytes; lower if all sequences together need less.
const KV_BYTES: u64 = 4 << 30;

/// Longest time that a server may be told to wait.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Default number of connections beyond those of requests, and the least default in total.
const SPARE_CONNECTIONS: usize = 64;
const CONNECTIONS: usize = 512;

/// Default maximum body, unless there is room for long texts.
const BODY_BYTES: usize = 1 << 20;

/// The longest bodies that may be on their way at once.
const BODIES: usize = 32;

/// Server options.
///
/// ```
/// use polychip_serve::Options;
///
/// let options = Options::new().port(0).max_active(4).api_key("secret");
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) name: Option<String>,
    pub(crate) api_keys: Vec<String>,
    pub(crate) max_active: usize,
    pub(crate) max_batch: usize,
    pub(crate) max_queue: usize,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) kv_bytes: Option<u64>,
    pub(crate) timeout: Duration,
    pub(crate) grace: Duration,
    pub(crate) patience: Duration,
    pub(crate) max_body_bytes: Option<usize>,
    pub(crate) max_connections: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 8080,
            name: None,
            api_keys: Vec::new(),
            max_active: 8,
            max_batch: 16,
            max_queue: 64,
            max_tokens: None,
            kv_bytes: None,
            timeout: Duration::from_secs(600),
            grace: Duration::from_secs(30),
            patience: Duration::from_secs(30),
            max_body_bytes: None,
            max_connections: None,
        }
    }
}

impl Options {
    /// The defaults: port 8080 of this machine alone, no key, 8 answers at once and 64 requests that wait.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// The address to listen on; default: 127.0.0.1.
    #[must_use]
    pub fn address(mut self, address: IpAddr) -> Options {
        self.address = address;
        self
    }

    /// The port to listen on; default: 8080. With 0, the system chooses.
    #[must_use]
    pub fn port(mut self, port: u16) -> Options {
        self.port = port;
        self
    }

    /// The model's name for clients; default: the name of its file, without the extension.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Options {
        self.name = Some(name.into());
        self
    }

    /// Adds a key: clients must send one of the keys as `Authorization: Bearer KEY`. Each key is a client of its own,
    /// which takes its turn, and whose prompts no other client's requests reuse.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Options {
        self.api_keys.push(key.into());
        self
    }

    /// Maximum number of concurrent answers; each has its own KV cache.
    #[must_use]
    pub fn max_active(mut self, answers: usize) -> Options {
        self.max_active = answers;
        self
    }

    /// Maximum number of answers that get a token by one run, with one read of the weights;
    /// default: 16, the maximum. 1 makes each answer as if it were alone.
    #[must_use]
    pub fn max_batch(mut self, answers: usize) -> Options {
        self.max_batch = answers;
        self
    }

    /// Most requests that wait beside those that are answered; one more gets 429.
    #[must_use]
    pub fn max_queue(mut self, requests: usize) -> Options {
        self.max_queue = requests;
        self
    }

    /// Maximum number of tokens of an answer; default: as many as there is room for. A request that
    /// asks for more is refused.
    #[must_use]
    pub fn max_tokens(mut self, tokens: usize) -> Options {
        self.max_tokens = Some(tokens);
        self
    }

    /// KV cache memory in bytes for active answers and for chats that may continue. Default: the need
    /// of [`Options::max_active`] answers, at most 4 GiB. One answer is always possible.
    #[must_use]
    pub fn kv_bytes(mut self, bytes: u64) -> Options {
        self.kv_bytes = Some(bytes);
        self
    }

    /// Maximum time of a request, from its arrival to the end of its answer; default: 600 seconds.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Options {
        self.timeout = time;
        self
    }

    /// Time for running answers to finish after the server is shut down; default: 30 seconds.
    #[must_use]
    pub fn grace(mut self, time: Duration) -> Options {
        self.grace = time;
        self
    }

    /// Maximum time for a client to send a head or a body, or to read pending output; default: 30
    /// seconds.
    #[must_use]
    pub fn patience(mut self, time: Duration) -> Options {
        self.patience = time;
        self
    }

    /// Maximum bytes of a request's body; default: 1 MiB, or 16 for each position that there is
    /// room for, if that is more.
    #[must_use]
    pub fn max_body_bytes(mut self, bytes: usize) -> Options {
        self.max_body_bytes = Some(bytes);
        self
    }

    /// Maximum number of open connections. Where all are taken, one that has sent nothing for the longest time makes
    /// room for a new one; where all are being answered, the new one waits. Default: 64 more than the
    /// requests in progress and waiting, and at least 512, so that health checks get in.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Options {
        self.max_connections = Some(connections);
        self
    }

    pub(crate) fn connections(&self) -> usize {
        let requests = self.max_active.saturating_add(self.max_queue);
        let usual = requests.saturating_add(SPARE_CONNECTIONS).max(CONNECTIONS);
        self.max_connections.unwrap_or(usual)
    }

    pub(crate) fn socket(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// Most bytes of a body, where there is room for so many positions: a token seldom has more than 16 as JSON writes it.
    pub(crate) fn body_bytes(&self, capacity: usize) -> usize {
        let usual = capacity.saturating_mul(16).max(BODY_BYTES);
        self.max_body_bytes.unwrap_or(usual)
    }

    /// Bytes of all bodies together that are on their way, without the first 64 KiB of each.
    pub(crate) fn all_bodies_bytes(&self, capacity: usize) -> usize {
        self.body_bytes(capacity).saturating_mul(BODIES)
    }

    /// KV cache memory, if one sequence needs at most this many bytes.
    pub(crate) fn budget(&self, of_one: u64) -> u64 {
        let all = of_one.saturating_mul(self.max_active as u64);
        self.kv_bytes.unwrap_or_else(|| all.min(KV_BYTES)).max(of_one)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        for (what, value) in [
            ("max_active", self.max_active),
            ("max_batch", self.max_batch),
            ("max_tokens", self.max_tokens.unwrap_or(1)),
            ("max_body_bytes", self.max_body_bytes.unwrap_or(1)),
            ("max_connections", self.max_connections.unwrap_or(1)),
        ] {
            if value == 0 {
                return Err(Error::options(format!("{what} is 0; it must be at least 1")));
            }
        }
        for (what, time) in [("timeout", self.timeout), ("patience", self.patience)] {
            if time.is_zero() {
                return Err(Error::options(format!("{what} is 0 seconds; it must be longer")));
            }
        }
        if self.timeout > LONGEST || self.patience > LONGEST || self.grace > LONGEST {
            return Err(Error::options(format!(
                "timeout, patience and grace must be at most {} seconds",
                LONGEST.as_secs()
            )));
        }
        if self.name.as_ref().is_some_and(String::is_empty) {
            return Err(Error::options("the name is empty".to_owned()));
        }
        let is_bearer = |key: &String| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        if !self.api_keys.iter().all(is_bearer) {
            let words = "the key must consist of one or more visible ASCII characters, because it is sent in a header";
            return Err(Error::options(words.to_owned()));
        }
        Ok(())
    }
}
