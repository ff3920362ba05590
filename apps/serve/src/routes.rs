//! Routes and their handlers.
//!
//! Invariants:
//! 1. Every error response has a [`Problem`] body, except for input that is not HTTP.
//! 2. Reading a body, its JSON and its text blocks no thread that other clients need.
//! 3. Reading is bounded in memory and time ([`Lanes`]), ends with its client or `timeout`, and clients alternate. A
//!    request without a grammar waits for none with one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Uri, Version, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream::{Stream, unfold};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use polychip_llm::{Grammar, LanguageModel};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout, timeout_at};

use crate::Options;
use crate::connections::{Connection, Stage};
use crate::gate::{Gate, Visitor};
use crate::job::{Event, Events, Owner, Task, job};
use crate::metrics::{MEDIA_TYPE, Metrics};
use crate::problem::Problem;
use crate::prompt::{grammar, task};
use crate::queue::{Phase, Queue};
use crate::reply::{DONE, Reply, seconds};
use crate::request::{self, Format};

/// Bodies that are read as JSON and text at once: each may take some memory and the time of a core.
const READERS: usize = 2;
/// Grammars that are compiled at once.
const COMPILERS: usize = 2;
/// Bytes of a body that every request may send; those beyond are counted for all together.
const SMALL_BODY: usize = 64 << 10;
/// Most bytes of a body that is too long that are read all the same.
const THROWN_AWAY: usize = 16 << 20;
/// Bytes of bodies after which the heap's free pages are given back to the system, and how long after their end.
const WORTH_A_TRIM: usize = 8 << 20;
const SETTLE: Duration = Duration::from_millis(500);
/// Interval of keep-alive events in a silent stream: proxies close connections that are silent for
/// a minute.
const ALIVE: Duration = Duration::from_secs(10);
/// How often a silent stream looks whether its client may have gone.
const LOOK: Duration = Duration::from_secs(1);

/// What requests share.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) model: LanguageModel,
    pub(crate) name: String,
    pub(crate) queue: Arc<Queue>,
    pub(crate) metrics: Metrics,
    pub(crate) keys: Vec<blake3::Hash>,
    /// Whether clients must call the server by a name of this machine: a page of another site, whose name leads here, does not.
    pub(crate) is_local: bool,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) max_body_bytes: usize,
    /// Bytes beyond which no text fits.
    pub(crate) max_text_bytes: usize,
    pub(crate) patience: Duration,
    pub(crate) timeout: Duration,
    pub(crate) lanes: Lanes,
    pub(crate) created: u64,
}

/// What reading requests may take of the server.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Bytes of bodies on their way, beyond each one's first.
    bodies: Arc<Semaphore>,
    bodies_bytes: usize,
    /// Reading JSON and text.
    readers: Arc<Gate>,
    /// Compiling grammars.
    compilers: Arc<Gate>,
    /// Answers with a grammar, those in the queue included: each has a sandbox process.
    grammars: Arc<Gate>,
    /// Bytes of bodies since the heap's free pages were given back, and whether that is about to happen.
    received: AtomicUsize,
    is_settling: AtomicBool,
}

impl Lanes {
    /// The limits of a server for so many positions.
    pub(crate) fn new(options: &Options, capacity: usize) -> Lanes {
        let bodies_bytes = options.all_bodies_bytes(capacity).min(Semaphore::MAX_PERMITS);
        let requests = options.max_active.saturating_add(options.max_queue);
        Lanes {
            bodies: Arc::new(Semaphore::new(bodies_bytes)),
            bodies_bytes,
            readers: Gate::new(READERS, requests),
            compilers: Gate::new(COMPILERS, requests),
            grammars: Gate::new(options.max_active.saturating_mul(2), options.max_queue),
            received: AtomicUsize::new(0),
            is_settling: AtomicBool::new(false),
        }
    }
}

impl Site {
    /// Gives memory back that many bodies took, once no large one is on its way: the C library would keep it.
    pub(crate) fn settle(self: &Arc<Self>) {
        let lanes = &self.lanes;
        let is_calm = lanes.bodies.available_permits() == lanes.bodies_bytes;
        if !is_calm || lanes.received.load(Ordering::Relaxed) < WORTH_A_TRIM {
            return;
        }
        if lanes.is_settling.swap(true, Ordering::AcqRel) {
            return;
        }
        let site = Arc::clone(self);
        tokio::spawn(async move {
            // others end at the same time
            sleep(SETTLE).await;
            site.lanes.received.store(0, Ordering::Relaxed);
            site.lanes.is_settling.store(false, Ordering::Release);
            // an error is a panic, which was printed
            let _ = tokio::task::spawn_blocking(polychip_llm::trim_heap).await;
        });
    }
}

impl Site {
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
async fn guard(
    State(site): State<Shared>,
    Extension(connection): Extension<Arc<Connection>>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = label(request.uri().path());
    // older clients know no interim response
    let may_probe = request.version() == Version::HTTP_11;
    connection.enter(Stage::Body);
    let response = match admitted(&site, &request) {
        Ok(key) => {
            let address = connection.address;
            request.extensions_mut().insert(Visitor { key, address });
            request.extensions_mut().insert(Arrived {
                connection: Arc::clone(&connection),
                may_probe,
            });
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    connection.enter(Stage::Answer { may_probe: false });
    site.metrics.responded(route, response.status().as_u16());
    response.map(|body| Body::new(Silent { body, connection }))
}

/// Signals that a request has arrived in full.
#[derive(Clone)]
struct Arrived {
    connection: Arc<Connection>,
    may_probe: bool,
}

impl Arrived {
    fn whole(&self) {
        self.connection.enter(Stage::Answer {
            may_probe: self.may_probe,
        });
    }
}

/// A response's body, behind which its connection is silent.
struct Silent {
    body: Body,
    connection: Arc<Connection>,
}

impl HttpBody for Silent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.connection.enter(Stage::Silent);
    }
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

/// The index of the key that a request has; none without keys.
fn admitted(site: &Site, request: &Request) -> Result<Option<usize>, Problem> {
    let headers = request.headers();
    if site.is_local {
        let host = headers.get(header::HOST).map(|host| host.to_str());
        let host = host.map(|host| host.unwrap_or("?")).or(request.uri().host());
        if let Some(host) = host.filter(|host| !is_own_name(host)) {
            return Err(Problem::host(host));
        }
    }
    if request.uri().path() == "/health" || site.keys.is_empty() {
        return Ok(None);
    }
    let sent = headers.get(header::AUTHORIZATION);
    let sent = sent.and_then(|value| value.as_bytes().split_at_checked(7));
    let Some((_, sent)) = sent.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer ")) else {
        return Err(Problem::key());
    };
    // hashes are compared in constant time, and all of them
    let sent = blake3::hash(sent);
    let mut found = None;
    for (index, key) in site.keys.iter().enumerate() {
        if *key == sent {
            found = Some(index);
        }
    }
    found.map(Some).ok_or_else(Problem::key)
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

async fn chat(
    State(site): State<Shared>,
    Extension(visitor): Extension<Visitor>,
    Extension(arrived): Extension<Arrived>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    answer(site, visitor, arrived, &headers, body, true).await
}

async fn completion(
    State(site): State<Shared>,
    Extension(visitor): Extension<Visitor>,
    Extension(arrived): Extension<Arrived>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    answer(site, visitor, arrived, &headers, body, false).await
}

async fn answer(
    site: Shared,
    visitor: Visitor,
    arrived: Arrived,
    headers: &HeaderMap,
    body: Body,
    is_chat: bool,
) -> Result<Response, Problem> {
    let accepted = Instant::now();
    // said before a body of some megabytes is read
    if site.queue.phase() != Phase::Open {
        return Err(Problem::shutting_down());
    }
    is_json(headers)?;
    let deadline = accepted + site.timeout;
    let reading = async {
        let (body, kept) = whole(&site, body).await?;
        arrived.whole();
        let read = read(&site, visitor, body, is_chat).await;
        drop(kept);
        site.settle();
        let (mut task, asked) = read?;
        if asked.format != Format::Text {
            task.holds = Some(site.lanes.grammars.enter(visitor).await?);
            let compiled = compiled(&site, visitor, asked.format).await?;
            task.wanted.grammar = Some(compiled);
        }
        Ok((task, asked.is_streamed, asked.wants_usage))
    };
    let read = timeout_at(deadline.into(), reading).await;
    let read = read.unwrap_or_else(|_| Err(Problem::timeout(site.timeout.as_secs())));
    let (task, is_streamed, wants_usage) = read?;
    let reply = Reply::new(&site.name, is_chat, wants_usage)?;
    let (job, events) = job(task, accepted);
    site.queue.push(job)?;
    let timed = Timed {
        events,
        deadline,
        timeout: site.timeout,
    };
    if is_streamed {
        Ok(streamed(reply, timed, arrived.connection))
    } else {
        collected(&reply, timed).await
    }
}

/// Of a request that was read, what is not in its task.
struct Rest {
    format: Format,
    is_streamed: bool,
    wants_usage: bool,
}

/// Reads a body as JSON and text.
async fn read(site: &Shared, visitor: Visitor, body: Bytes, is_chat: bool) -> Result<(Task, Rest), Problem> {
    let pass = site.lanes.readers.enter(visitor).await?;
    let shared = Arc::clone(site);
    blocking(move |go_on| {
        let _pass = pass;
        let mut asked = if is_chat {
            request::chat(&body)?
        } else {
            request::completion(&body)?
        };
        drop(body);
        if let Some(name) = asked.model.as_ref().filter(|name| **name != shared.name) {
            return Err(Problem::model(name, &shared.name));
        }
        let rest = Rest {
            format: std::mem::take(&mut asked.format),
            is_streamed: asked.is_streamed,
            wants_usage: asked.wants_usage,
        };
        let owner = Owner {
            key: visitor.key,
            cache_key: asked.cache_key.as_ref().map(|key| blake3::hash(key.as_bytes())),
        };
        let task = task(
            asked,
            owner,
            &shared.model,
            shared.max_tokens,
            shared.max_text_bytes,
            go_on,
        )?;
        Ok((task, rest))
    })
    .await
}

/// Compiles what the answer is held to.
async fn compiled(site: &Shared, visitor: Visitor, format: Format) -> Result<Grammar, Problem> {
    let pass = site.lanes.compilers.enter(visitor).await?;
    let shared = Arc::clone(site);
    blocking(move |go_on| {
        let _pass = pass;
        grammar(&format, &shared.model, go_on)
    })
    .await
}

/// Sets a flag once it is dropped.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does something on a thread for that; `work` may ask whether anybody waits for it still.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let is_gone = Arc::new(AtomicBool::new(false));
    let _gone = Gone(Arc::clone(&is_gone));
    let done = tokio::task::spawn_blocking(move || work(&mut || !is_gone.load(Ordering::Relaxed)));
    done.await.map_err(|_| {
        Problem::internal("internal error while reading a request; its message is on standard error")
    })?
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

/// The whole body, if it is short enough and comes in time, and what it takes of the memory for bodies.
async fn whole(site: &Site, body: Body) -> Result<(Bytes, Vec<OwnedSemaphorePermit>), Problem> {
    let arrived = timeout(site.patience, arrived(body, site.max_body_bytes, &site.lanes)).await;
    arrived.unwrap_or_else(|_| Err(Problem::slow_body(site.patience.as_secs())))
}

/// The whole body. Of one that is too long some is read and thrown away: a client that is still sending when the connection is
/// closed does not see the answer.
async fn arrived(
    mut body: Body,
    limit: usize,
    lanes: &Lanes,
) -> Result<(Bytes, Vec<OwnedSemaphorePermit>), Problem> {
    let (mut whole, mut count, mut kept) = (Vec::new(), 0usize, Vec::new());
    let mut refused = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Problem::bad(format!("the body cannot be read: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        count = count.saturating_add(data.len());
        lanes.received.fetch_add(data.len(), Ordering::Relaxed);
        if count > limit {
            refused = Some(Problem::large_body(limit));
        } else if refused.is_none() {
            let beyond = count.saturating_sub(SMALL_BODY).min(data.len());
            // a body has at most as many bytes as a semaphore counts here
            let bytes = u32::try_from(beyond).unwrap_or(u32::MAX);
            match Arc::clone(&lanes.bodies).try_acquire_many_owned(bytes) {
                Ok(permit) => kept.push(permit),
                Err(_) => refused = Some(Problem::many_bodies(lanes.bodies_bytes)),
            }
        }
        if refused.is_none() {
            whole.extend_from_slice(&data);
            continue;
        }
        (whole, kept) = (Vec::new(), Vec::new());
        if count > limit.saturating_add(THROWN_AWAY) {
            break;
        }
    }
    match refused {
        Some(problem) => Err(problem),
        None => Ok((whole.into(), kept)),
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
fn streamed(reply: Reply, events: Timed, connection: Arc<Connection>) -> Response {
    let opening = reply.opening();
    let open = Open {
        ready: opening.into_iter().map(|event| event.to_string()).collect(),
        events: Some(events),
        reply,
        connection,
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
    connection: Arc<Connection>,
    reply: Reply,
    /// None once the last of them came.
    events: Option<Timed>,
    /// What is to be sent before the next of them.
    ready: std::collections::VecDeque<String>,
}

impl Open {
    fn stream(self) -> impl Stream<Item = Result<SseEvent, std::convert::Infallible>> {
        unfold(self, |mut open| async move {
            let event = open.event().await?;
            Some((Ok(event), open))
        })
    }

    /// The next event, or a comment that finds out whether a client is there that may have gone.
    async fn event(&mut self) -> Option<SseEvent> {
        let connection = Arc::clone(&self.connection);
        loop {
            tokio::select! {
                data = self.next() => return Some(SseEvent::default().data(data?)),
                () = sleep(LOOK) => {
                    if connection.is_half_closed() {
                        return Some(SseEvent::default().comment(""));
                    }
                }
            }
        }
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
    use futures_util::FutureExt as _;

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

    #[tokio::test]
    async fn answers_with_a_grammar_wait_within_a_limit() {
        let lanes = Lanes::new(&Options::new().max_active(1).max_queue(1), 1);
        let visitor = Visitor {
            key: None,
            address: None,
        };
        let enter = || lanes.grammars.enter(visitor);
        let held = [enter().await.unwrap(), enter().await.unwrap()];
        let mut waiting = Box::pin(enter());
        assert!((&mut waiting).now_or_never().is_none());
        assert_eq!(enter().await.unwrap_err().status().as_u16(), 429);
        drop(held);
        assert!(waiting.await.is_ok());
    }

    #[tokio::test]
    async fn bodies_on_their_way_share_a_budget() {
        let limit = 200_000;
        let lanes = Lanes::new(&Options::new().max_body_bytes(limit), 1);
        let large = || arrived(Body::from(vec![b'x'; limit]), limit, &lanes);
        let mut kept = Vec::new();
        let refused = loop {
            match large().await {
                Ok((body, permits)) => kept.push((body.len(), permits)),
                Err(problem) => break problem,
            }
            assert!(kept.len() < 100, "nothing limits them");
        };
        assert_eq!((refused.status().as_u16(), kept[0].0), (503, limit));
        // what every request may send comes in all the same
        let small = Body::from(vec![b'x'; SMALL_BODY]);
        assert!(arrived(small, limit, &lanes).await.is_ok());
        kept.pop();
        assert!(large().await.is_ok());
        let long = arrived(Body::from(vec![b'x'; limit + 1]), limit, &lanes).await;
        assert_eq!(long.unwrap_err().status().as_u16(), 413);
        drop(kept);
        assert_eq!(lanes.bodies.available_permits(), lanes.bodies_bytes);
    }
}
