//! Server options.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
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
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) name: Option<String>,
    pub(crate) aliases: Vec<String>,
    pub(crate) any_model: bool,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) strict: bool,
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
            host: Ipv4Addr::LOCALHOST.to_string(),
            port: 8080,
            name: None,
            aliases: Vec::new(),
            any_model: false,
            allowed_hosts: Vec::new(),
            origins: Vec::new(),
            strict: false,
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
        self.host = address.to_string();
        self
    }

    /// The address to listen on, or a name of this machine such as `localhost`; default: 127.0.0.1.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Options {
        self.host = host.into();
        self
    }

    /// The port to listen on; default: 8080. With 0, the system chooses.
    #[must_use]
    pub fn port(mut self, port: u16) -> Options {
        self.port = port;
        self
    }

    /// The model's name for clients; default: the name of its file, without the extension. The name of its file is known
    /// with and without the extension in any case.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Options {
        self.name = Some(name.into());
        self
    }

    /// Adds a further name of the model for clients.
    #[must_use]
    pub fn alias(mut self, name: impl Into<String>) -> Options {
        self.aliases.push(name.into());
        self
    }

    /// Answers requests for any model; default: those for another one are refused.
    #[must_use]
    pub fn any_model(mut self, any: bool) -> Options {
        self.any_model = any;
        self
    }

    /// Adds a name by which clients may call a server that listens locally and has no key, such as
    /// `host.docker.internal`. Names of this machine are allowed in any case.
    #[must_use]
    pub fn allow_host(mut self, name: impl Into<String>) -> Options {
        self.allowed_hosts.push(name.into());
        self
    }

    /// Adds an origin, such as `https://app.example`, whose pages may use the server from a browser; `*` allows all.
    #[must_use]
    pub fn cors(mut self, origin: impl Into<String>) -> Options {
        self.origins.push(origin.into());
        self
    }

    /// Refuses request fields that are unknown or have no effect; default: they are ignored and logged.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Options {
        self.strict = strict;
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

    /// The addresses to listen on: the first that can be is taken.
    pub(crate) fn sockets(&self) -> Result<Vec<SocketAddr>, Error> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let resolved = (self.host.as_str(), self.port).to_socket_addrs();
        let mut sockets: Vec<SocketAddr> = resolved
            .map_err(|error| Error::options(format!("host {:?}: {error}", self.host)))?
            .collect();
        // clients try this family if the other one refuses, but not all the other way
        sockets.sort_by_key(|socket| socket.is_ipv6());
        if sockets.is_empty() {
            return Err(Error::options(format!("host {:?} has no address", self.host)));
        }
        Ok(sockets)
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
        if self.name.iter().chain(&self.aliases).any(String::is_empty) {
            return Err(Error::options("the name is empty".to_owned()));
        }
        if let Some(host) = self.allowed_hosts.iter().find(|host| !is_host(host)) {
            return Err(Error::options(format!(
                "allowed host {host:?} must be a name or an address without a port, such as host.docker.internal"
            )));
        }
        if let Some(origin) = self.origins.iter().find(|origin| !is_origin(origin)) {
            return Err(Error::options(format!(
                "origin {origin:?} must be `*` or a scheme and a host without a path, such as https://app.example"
            )));
        }
        let is_bearer = |key: &String| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        if !self.api_keys.iter().all(is_bearer) {
            let words = "the key must consist of one or more visible ASCII characters, because it is sent in a header";
            return Err(Error::options(words.to_owned()));
        }
        Ok(())
    }
}

fn is_host(host: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    let is_port_behind = host.matches(':').count() == 1;
    !host.is_empty() && host.bytes().all(is_part) && !is_port_behind
}

fn is_origin(origin: &str) -> bool {
    let Some((scheme, host)) = origin.split_once("://") else {
        return origin == "*";
    };
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(is_scheme);
    is_scheme && !host.is_empty() && host.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_origins_are_checked() {
        let is_right = |options: Options| options.check().is_ok();
        assert!(is_right(Options::new().allow_host("host.docker.internal")));
        assert!(is_right(Options::new().allow_host("fe80::1")));
        assert!(!is_right(Options::new().allow_host("host:80")) && !is_right(Options::new().allow_host("")));
        for right in [
            "*",
            "https://app.example",
            "http://localhost:3000",
            "app://obsidian.md",
            "http://[::1]:1",
        ] {
            assert!(is_right(Options::new().cors(right)), "{right}");
        }
        for wrong in [
            "",
            "app.example",
            "https://",
            "https://a/b",
            "https://a/",
            "null",
            "https://a b",
        ] {
            assert!(!is_right(Options::new().cors(wrong)), "{wrong}");
        }
        assert!(!is_right(Options::new().alias("")));
    }

    #[test]
    fn host_names_resolve_to_this_machine() {
        let sockets = Options::new().host("localhost").port(1).sockets().unwrap();
        assert!(
            sockets.iter().all(|socket| socket.ip().is_loopback()),
            "{sockets:?}"
        );
        assert!(Options::new().host("no such host").sockets().is_err());
    }
}
