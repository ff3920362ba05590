//! Who may use the server: keys, host names, and pages of other origins.
//!
//! Invariants:
//! 1. Without a key, a server that listens locally accepts only names of this machine and those that it was given.
//! 2. A page of another origin reads nothing, unless the server was given that origin.

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// How long a browser may keep what it was allowed, in seconds.
const MAX_AGE: &str = "600";

/// Who may use the server.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) keys: Vec<blake3::Hash>,
    /// Whether clients must call the server by a name of this machine: a page of another site, whose name leads here, does not.
    pub(crate) is_local: bool,
    /// Further names by which it may be called.
    pub(crate) hosts: Vec<String>,
    /// Origins whose pages may use it; `*` for all.
    pub(crate) origins: Vec<String>,
}

impl Access {
    /// The index of the key that a request has; none without keys.
    pub(crate) fn admit(&self, parts: &Parts) -> Result<Option<usize>, Problem> {
        let headers = &parts.headers;
        if self.is_local {
            let host = headers.get(header::HOST).map(|host| host.to_str());
            let host = host.map(|host| host.unwrap_or("?")).or(parts.uri.host());
            if let Some(host) = host.filter(|host| !self.is_own(host)) {
                return Err(Problem::host(host));
            }
        }
        if parts.uri.path() == "/health" || self.keys.is_empty() || self.is_preflight(parts) {
            return Ok(None);
        }
        // hashes are compared in constant time, and all of them
        let sent = blake3::hash(key(headers).ok_or_else(Problem::key)?);
        let mut found = None;
        for (index, key) in self.keys.iter().enumerate() {
            if *key == sent {
                found = Some(index);
            }
        }
        found.map(Some).ok_or_else(Problem::key)
    }

    fn is_own(&self, host: &str) -> bool {
        let name = name(host);
        is_own_name(name) || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// The origin of a page that may use the server.
    fn origin<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        let text = origin.to_str().ok()?;
        let is_known = |known: &String| known == "*" || known.eq_ignore_ascii_case(text);
        self.origins.iter().any(is_known).then_some(origin)
    }

    /// Whether a browser asks for leave to send a page's request.
    fn is_preflight(&self, parts: &Parts) -> bool {
        parts.method == Method::OPTIONS
            && parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
            && self.origin(&parts.headers).is_some()
    }

    /// The answer to a browser that asks for leave.
    pub(crate) fn preflight(&self, parts: &Parts) -> Option<Response> {
        if !self.is_preflight(parts) {
            return None;
        }
        let mut response = StatusCode::NO_CONTENT.into_response();
        let headers = response.headers_mut();
        let fixed = HeaderValue::from_static;
        let wanted = parts.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
        let wanted = wanted
            .cloned()
            .unwrap_or_else(|| fixed("authorization, content-type"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, fixed("GET, POST, OPTIONS"));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, fixed(MAX_AGE));
        if parts
            .headers
            .contains_key("access-control-request-private-network")
        {
            headers.insert("access-control-allow-private-network", fixed("true"));
        }
        Some(response)
    }

    /// Lets a page of a known origin read the response to a request with these headers.
    pub(crate) fn open(&self, request: &HeaderMap, response: &mut HeaderMap) {
        if self.origins.is_empty() {
            return;
        }
        response.append(header::VARY, HeaderValue::from_static("Origin"));
        if let Some(origin) = self.origin(request) {
            response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        }
    }
}

/// The key that a request has, as clients of OpenAI or of Anthropic send it.
fn key(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(key)
    });
    bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes))
}

/// A host's name without its port and brackets.
fn name(host: &str) -> &str {
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    without_port
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(without_port)
}

/// Whether a name is this machine's own: `localhost`, 127.x.x.x, `::1`.
fn is_own_name(name: &str) -> bool {
    let is_loopback = |address: std::net::IpAddr| address.is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(hosts: &[&str], origins: &[&str]) -> Access {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Access {
            keys: Vec::new(),
            is_local: true,
            hosts: owned(hosts),
            origins: owned(origins),
        }
    }

    #[test]
    fn names_of_this_machine_are_known() {
        for own in [
            "localhost",
            "localhost:8080",
            "LOCALHOST",
            "127.0.0.1:1",
            "127.1.2.3",
            "[::1]:80",
            "[::1]",
        ] {
            assert!(access(&[], &[]).is_own(own), "{own}");
        }
        for other in [
            "example.com",
            "127.0.0.1.example.com:80",
            "10.0.0.1:80",
            "",
            "localhost.example.com",
        ] {
            assert!(!access(&[], &[]).is_own(other), "{other}");
        }
    }

    #[test]
    fn further_names_are_allowed() {
        let access = access(&["host.docker.internal"], &[]);
        assert!(access.is_own("Host.Docker.Internal:8080") && access.is_own("localhost"));
        assert!(!access.is_own("docker.internal"));
    }

    #[test]
    fn pages_of_known_origins_read_responses() {
        let allowed = |origins: &[&str], origin: &'static str| {
            let mut request = HeaderMap::new();
            request.insert(header::ORIGIN, HeaderValue::from_static(origin));
            let mut response = HeaderMap::new();
            access(&[], origins).open(&request, &mut response);
            response.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN)
        };
        assert!(allowed(&["*"], "https://a.example"));
        assert!(allowed(
            &["https://b.example", "https://a.example"],
            "https://a.example"
        ));
        assert!(!allowed(&["https://a.example"], "http://a.example"));
        assert!(!allowed(&["https://a.example"], "https://a.example.b.example"));
        assert!(!allowed(&[], "https://a.example"));
    }
}
