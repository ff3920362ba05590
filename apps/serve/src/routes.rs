//! Routes and their handlers.
//!
//! Invariants:
//! 1. Every error response has a [`Problem`] body, except for input that is not HTTP.
//! 2. Reading a body, its JSON and its text blocks no thread that other clients need.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream::{Stream, unfold};
use http_body_util::BodyExt as _;
use polychip_llm::LanguageModel;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{timeout, timeout_at};

use crate::job::{Event, Events, job};
use crate::metrics::{MEDIA_TYPE, Metrics};
use crate::problem::Problem;
use crate::prompt::task;
use crate::queue::{Phase, Queue};
use crate::reply::{DONE, Reply, seconds};
use crate::request::{self, Asked};

/// Bodies that are read as JSON and text at once: each may take some memory and the time of a core.
const READERS: usize = 2;
/// Most bytes of a body that is too long that are read all the same.
const THROWN_AWAY: usize = 16 << 20;
/// Interval of keep-alive events in a silent stream: proxies close connections that are silent for
/// a minute.
const ALIVE: Duration = Duration::from_secs(10);

/// What requests share.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) model: LanguageModel,
    pub(crate) name: String,
    pub(crate) queue: Arc<Queue>,
    pub(crate) metrics: Metrics,
    pub(crate) key: Option<blake3::Hash>,
    /// Whether clients must call the server by a name of this machine: a page of another site, whose name leads here, does not.
    pub(crate) is_local: bool,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) max_body_bytes: usize,
    /// Bytes beyond which no text fits.
    pub(crate) max_text_bytes: usize,
    pub(crate) patience: Duration,
    pub(crate) timeout: Duration,
    pub(crate) readers: Arc<Semaphore>,
    pub(crate) created: u64,
}

impl Site {
    /// How many bodies are read at once.
    pub(crate) fn readers() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(READERS))
    }

    /// When the server was made.
    pub(crate) fn now() -> u64 {
        seconds()
    }
}

type Shared = Arc<Site>;

/// All paths.
pub(crate) fn router(site: Shared) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completion))
        .route("/v1/models", get(models))
        .route("/v1/models/{*name}", get(model))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .fallback(nothing)
        .method_not_allowed_fallback(not_that_way)
        .layer(from_fn_with_state(Arc::clone(&site), guard))
        .with_state(site)
}

/// Lets in who may come in, and counts.
async fn guard(State(site): State<Shared>, request: Request, next: Next) -> Response {
    let route = label(request.uri().path());
    let response = match admitted(&site, &request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    site.metrics.responded(route, response.status().as_u16());
    response
}

/// The path for counts: one of few, whatever clients send.
fn label(path: &str) -> &'static str {
    match path {
        "/v1/chat/completions" => "/v1/chat/completions",
        "/v1/completions" => "/v1/completions",
        "/health" => "/health",
        "/metrics" => "/metrics",
        path if path.starts_with("/v1/models") => "/v1/models",
        _ => "other",
    }
}

fn admitted(site: &Site, request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    if site.is_local {
        let host = headers.get(header::HOST).map(|host| host.to_str());
        let host = host.map(|host| host.unwrap_or("?")).or(request.uri().host());
        if let Some(host) = host.filter(|host| !is_own_name(host)) {
            return Err(Problem::host(host));
        }
    }
    if request.uri().path() == "/health" {
        return Ok(());
    }
    let Some(key) = site.key else {
        return Ok(());
    };
    let sent = headers.get(header::AUTHORIZATION);
    let sent = sent.and_then(|value| value.as_bytes().split_at_checked(7));
    match sent {
        // hashes are compared in constant time
        Some((scheme, sent)) if scheme.eq_ignore_ascii_case(b"bearer ") && blake3::hash(sent) == key => {
            Ok(())
        }
        _ => Err(Problem::key()),
    }
}

/// Whether a name, with or without a port, is this machine's own: `localhost`, 127.x.x.x, `[::1]`.
fn is_own_name(host: &str) -> bool {
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = without_port
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(without_port);
    let is_loopback = |address: std::net::IpAddr| address.is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_loopback)
}

async fn nothing(method: Method, uri: Uri) -> Problem {
    Problem::path(method.as_str(), uri.path())
}

async fn not_that_way(method: Method, uri: Uri) -> Problem {
    Problem::method(method.as_str(), uri.path())
}

async fn health(State(site): State<Shared>) -> Response {
    match site.queue.phase() {
        Phase::Open => Json(json!({"status": "ok"})).into_response(),
        Phase::Closing | Phase::GivenUp => Problem::shutting_down().into_response(),
        Phase::Ended => Problem::internal("the thread that runs the model has ended").into_response(),
    }
}

async fn metrics(State(site): State<Shared>) -> impl IntoResponse {
    let kind = HeaderValue::from_static(MEDIA_TYPE);
    ([(header::CONTENT_TYPE, kind)], site.metrics.text())
}

fn described(site: &Site) -> Value {
    json!({
        "id": site.name,
        "object": "model",
        "created": site.created,
        "owned_by": "polychip",
        "max_model_len": site.model.capacity(),
    })
}

async fn models(State(site): State<Shared>) -> Json<Value> {
    Json(json!({"object": "list", "data": [described(&site)]}))
}

async fn model(
    State(site): State<Shared>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    let Path(name) = name.map_err(|error| Problem::bad(error.body_text()))?;
    if name == site.name {
        Ok(Json(described(&site)))
    } else {
        Err(Problem::model(&name, &site.name))
    }
}

async fn chat(State(site): State<Shared>, headers: HeaderMap, body: Body) -> Result<Response, Problem> {
    answer(site, &headers, body, request::chat, true).await
}

async fn completion(State(site): State<Shared>, headers: HeaderMap, body: Body) -> Result<Response, Problem> {
    answer(site, &headers, body, request::completion, false).await
}

async fn answer(
    site: Shared,
    headers: &HeaderMap,
    body: Body,
    read: fn(&[u8]) -> Result<Asked, Problem>,
    is_chat: bool,
) -> Result<Response, Problem> {
    let accepted = Instant::now();
    // said before a body of some megabytes is read
    if site.queue.phase() != Phase::Open {
        return Err(Problem::shutting_down());
    }
    is_json(headers)?;
    let body = whole(&site, body).await?;
    let permit = Arc::clone(&site.readers).acquire_owned().await;
    let shared = Arc::clone(&site);
    let reading = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let asked = read(&body)?;
        if let Some(name) = asked.model.as_ref().filter(|name| **name != shared.name) {
            return Err(Problem::model(name, &shared.name));
        }
        let (is_streamed, wants_usage) = (asked.is_streamed, asked.wants_usage);
        Ok((
            task(asked, &shared.model, shared.max_tokens, shared.max_text_bytes)?,
            is_streamed,
            wants_usage,
        ))
    });
    let read = reading.await;
    let (task, is_streamed, wants_usage) = read.map_err(|_| {
        Problem::internal("internal error while reading a request; its message is on standard error")
    })??;
    let reply = Reply::new(&site.name, is_chat, wants_usage)?;
    let (job, events) = job(task, accepted);
    site.queue.push(job)?;
    let timed = Timed {
        events,
        deadline: accepted + site.timeout,
        timeout: site.timeout,
    };
    if is_streamed {
        Ok(streamed(reply, timed))
    } else {
        collected(&reply, timed).await
    }
}

fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return Err(Problem::content_type("of no type"));
    };
    let value = value.to_str().unwrap_or("?");
    let kind = value.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        Ok(())
    } else {
        Err(Problem::content_type(&format!("of type {kind:?}")))
    }
}

/// The whole body, if it is short enough and comes in time.
async fn whole(site: &Site, body: Body) -> Result<Bytes, Problem> {
    let arrived = timeout(site.patience, arrived(body, site.max_body_bytes)).await;
    arrived.unwrap_or_else(|_| Err(Problem::slow_body(site.patience.as_secs())))
}

/// The whole body. Of one that is too long some is read and thrown away: a client that is still sending when the connection is
/// closed does not see the answer.
async fn arrived(mut body: Body, limit: usize) -> Result<Bytes, Problem> {
    let (mut whole, mut count) = (Vec::new(), 0usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Problem::bad(format!("the body cannot be read: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        count = count.saturating_add(data.len());
        if count <= limit {
            whole.extend_from_slice(&data);
        } else if count > limit.saturating_add(THROWN_AWAY) {
            break;
        } else {
            whole = Vec::new();
        }
    }
    if count <= limit {
        Ok(whole.into())
    } else {
        Err(Problem::large_body(limit))
    }
}

/// What comes of an answer, until its time is up.
struct Timed {
    events: Events,
    deadline: Instant,
    timeout: Duration,
}

impl Timed {
    async fn next(&mut self) -> Event {
        let next = timeout_at(self.deadline.into(), self.events.next()).await;
        next.unwrap_or_else(|_| Event::Failed(Problem::timeout(self.timeout.as_secs())))
    }
}

/// The answer as one object.
async fn collected(reply: &Reply, mut events: Timed) -> Result<Response, Problem> {
    let mut text = String::new();
    loop {
        match events.next().await {
            Event::Piece(piece) => text.push_str(&piece),
            Event::Failed(problem) => return Err(problem),
            Event::Ended(ended) => {
                text.push_str(&ended.rest);
                return Ok(Json(reply.whole(&text, &ended)).into_response());
            }
        }
    }
}

/// The answer as events.
fn streamed(reply: Reply, events: Timed) -> Response {
    let opening = reply.opening();
    let open = Open {
        ready: opening.into_iter().map(|event| event.to_string()).collect(),
        events: Some(events),
        reply,
    };
    let alive = KeepAlive::new().interval(ALIVE);
    let mut response = Sse::new(open.stream()).keep_alive(alive).into_response();
    let headers = response.headers_mut();
    // proxies that hold events back until a block is full
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A stream of events that is not at its end.
struct Open {
    reply: Reply,
    /// None once the last of them came.
    events: Option<Timed>,
    /// What is to be sent before the next of them.
    ready: std::collections::VecDeque<String>,
}

impl Open {
    fn stream(self) -> impl Stream<Item = Result<SseEvent, std::convert::Infallible>> {
        unfold(self, |mut open| async move {
            let data = open.next().await?;
            Some((Ok(SseEvent::default().data(data)), open))
        })
    }

    async fn next(&mut self) -> Option<String> {
        if let Some(ready) = self.ready.pop_front() {
            return Some(ready);
        }
        match self.events.as_mut()?.next().await {
            Event::Piece(piece) => return Some(self.reply.piece(&piece).to_string()),
            Event::Ended(ended) => {
                let closing = self.reply.closing(&ended);
                self.ready.extend(closing.iter().map(Value::to_string));
                self.ready.push_back(DONE.to_owned());
            }
            // the status is sent already
            Event::Failed(problem) => self.ready.push_back(problem.json().to_string()),
        }
        self.events = None;
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(is_own_name(own), "{own}");
        }
        for other in [
            "example.com",
            "127.0.0.1.example.com:80",
            "10.0.0.1:80",
            "",
            "localhost.example.com",
        ] {
            assert!(!is_own_name(other), "{other}");
        }
    }
}
