//! Routes and their handlers.
//!
//! Invariants:
//! 1. Every error response has a [`Problem`] body in the form of its path's interface, except for input that is not HTTP.
//! 2. Reading a body, its JSON and its text blocks no thread that other clients need.
//! 3. Reading is bounded in memory and time ([`Lanes`]), ends with its client or `timeout`, and clients alternate. A
//!    request without a grammar waits for none with one.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Uri, Version, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use polychip_llm::{CallStyle, LanguageModel};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout_at;

use crate::access::Access;
use crate::answer::{Answers, Reading};
use crate::api::{self, Read, Reply, seconds};
use crate::connections::{Connection, Stage};
use crate::fields::Notes;
use crate::gate::Visitor;
use crate::job::{Owner, Task, job};
use crate::lanes::{Lanes, blocking, is_json, whole};
use crate::metrics::{MEDIA_TYPE, Metrics};
use crate::problem::{Form, Problem};
use crate::prompt::{Held, Limits, held, tasks};
use crate::queue::{Phase, Queue};
use crate::request::{Format, Tools};
use crate::stream::{collected, streamed};

/// Most names of ignored fields that are logged, each once: clients write them.
const MAX_IGNORED: usize = 256;

/// What requests share.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) model: LanguageModel,
    /// How the model's template writes calls of tools.
    pub(crate) style: Option<CallStyle>,
    pub(crate) names: Names,
    pub(crate) queue: Arc<Queue>,
    pub(crate) metrics: Metrics,
    pub(crate) access: Access,
    /// Whether fields without an effect are refused.
    pub(crate) is_strict: bool,
    /// Names of fields that were ignored and logged.
    pub(crate) ignored: Mutex<BTreeSet<String>>,
    pub(crate) max_active: usize,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) max_body_bytes: usize,
    /// Bytes beyond which no text fits.
    pub(crate) max_text_bytes: usize,
    pub(crate) patience: Duration,
    pub(crate) timeout: Duration,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) created: u64,
}

/// The model's names for clients.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// The first is in answers; all are listed.
    pub(crate) listed: Vec<String>,
    /// Names that are known beside them.
    pub(crate) others: Vec<String>,
    /// Whether any name is the model's.
    pub(crate) is_any: bool,
}

impl Names {
    pub(crate) fn main(&self) -> &str {
        self.listed.first().map_or("", String::as_str)
    }

    fn knows(&self, name: &str) -> bool {
        // Ollama's clients name a tag
        let without_tag = name.strip_suffix(":latest").unwrap_or(name);
        let mut known = self.listed.iter().chain(&self.others);
        self.is_any || known.any(|known| known == name || known == without_tag)
    }

    fn check(&self, name: &str) -> Result<(), Problem> {
        if self.knows(name) {
            return Ok(());
        }
        Err(Problem::model(name, &self.listed))
    }
}

impl Site {
    /// When the server was made.
    pub(crate) fn now() -> u64 {
        seconds()
    }

    fn limits(&self) -> Limits<'_> {
        Limits {
            model: &self.model,
            style: self.style,
            most: self.max_tokens,
            longest: self.max_text_bytes,
        }
    }

    /// The whole of a body, and what it takes of the memory for bodies.
    async fn body(&self, body: Body) -> Result<(Bytes, Vec<OwnedSemaphorePermit>), Problem> {
        whole(&self.lanes, body, self.max_body_bytes, self.patience).await
    }

    /// Logs the names of fields that were ignored, each once.
    fn log(&self, notes: Notes) {
        let names = notes.into_ignored();
        if names.is_empty() {
            return;
        }
        let mut logged = self.ignored.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            if logged.len() < MAX_IGNORED && logged.insert(name.clone()) {
                tracing::warn!(
                    "a request's field {name:?} has no effect and is ignored (--strict refuses it)"
                );
            }
        }
    }
}

type Shared = Arc<Site>;

/// All paths.
pub(crate) fn router(site: Shared) -> Router {
    Router::new()
        .route("/", get(root))
        .route("/v1/chat/completions", answers(api::chat::read))
        .route("/v1/completions", answers(api::completions::read))
        .route("/v1/responses", answers(api::responses::read))
        .route("/v1/messages", answers(api::messages::read))
        .route("/v1/embeddings", answers(api::embeddings::read))
        .route("/v1/models", get(models))
        .route("/v1/models/{*name}", get(model))
        .route("/api/chat", answers(api::ollama::read_chat))
        .route("/api/generate", answers(api::ollama::read_generate))
        .route("/api/tags", get(tags))
        .route("/api/version", get(version))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .route("/props", get(props))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .fallback(nothing)
        .method_not_allowed_fallback(not_that_way)
        .layer(from_fn_with_state(Arc::clone(&site), guard))
        .with_state(site)
}

/// A path whose answers the model makes.
fn answers(read: Read) -> MethodRouter<Shared> {
    post(
        move |State(site): State<Shared>,
              Extension(visitor): Extension<Visitor>,
              Extension(arrived): Extension<Arrived>,
              headers: HeaderMap,
              body: Body| async move { answer(site, visitor, arrived, &headers, body, read).await },
    )
}

/// Lets in who may come in, and counts.
async fn guard(
    State(site): State<Shared>,
    Extension(connection): Extension<Arc<Connection>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let route = label(parts.uri.path());
    let form = Form::of_path(parts.uri.path());
    let headers = parts.headers.clone();
    // older clients know no interim response
    let may_probe = parts.version == Version::HTTP_11;
    connection.enter(Stage::Body);
    let response = match site.access.admit(&parts) {
        Ok(key) => match site.access.preflight(&parts) {
            Some(response) => response,
            None => {
                let mut request = Request::from_parts(parts, body);
                let address = connection.address;
                request.extensions_mut().insert(Visitor { key, address });
                request.extensions_mut().insert(Arrived {
                    connection: Arc::clone(&connection),
                    may_probe,
                });
                next.run(request).await
            }
        },
        Err(problem) => problem.into_response(),
    };
    let mut response = form.apply(response);
    site.access.open(&headers, response.headers_mut());
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
    const PATHS: [&str; 15] = [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/embeddings",
        "/api/chat",
        "/api/generate",
        "/api/tags",
        "/api/version",
        "/tokenize",
        "/detokenize",
        "/props",
        "/health",
        "/metrics",
        "/",
    ];
    match PATHS.into_iter().find(|known| *known == path) {
        Some(known) => known,
        None if path.starts_with("/v1/models") => "/v1/models",
        None => "other",
    }
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

async fn root(State(site): State<Shared>) -> Json<Value> {
    Json(api::info::root(site.names.main()))
}

async fn props(State(site): State<Shared>) -> Json<Value> {
    Json(api::info::props(&site.model, site.names.main(), site.max_active))
}

async fn version() -> Json<Value> {
    Json(json!({"version": env!("CARGO_PKG_VERSION")}))
}

async fn tags(State(site): State<Shared>) -> Json<Value> {
    let architecture = site
        .model
        .config()
        .map_or("", |config| config.architecture.name());
    let bytes = site.model.file_bytes();
    Json(api::ollama::tags(
        &site.names.listed,
        bytes,
        architecture,
        site.created,
    ))
}

fn described(site: &Site, name: &str) -> Value {
    json!({
        "id": name,
        "object": "model",
        "created": site.created,
        "owned_by": "polychip",
        "max_model_len": site.model.capacity(),
    })
}

async fn models(State(site): State<Shared>) -> Json<Value> {
    let names = site.names.listed.iter();
    let data: Vec<Value> = names.map(|name| described(&site, name)).collect();
    Json(json!({"object": "list", "data": data}))
}

async fn model(
    State(site): State<Shared>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    let Path(name) = name.map_err(|error| Problem::bad(error.body_text()))?;
    site.names.check(&name)?;
    Ok(Json(described(&site, &name)))
}

async fn tokenize(
    State(site): State<Shared>,
    Extension(visitor): Extension<Visitor>,
    Extension(arrived): Extension<Arrived>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    small(site, visitor, arrived, &headers, body, |body, site, notes| {
        api::info::tokenize(body, &site.model, site.max_text_bytes, notes)
    })
    .await
}

async fn detokenize(
    State(site): State<Shared>,
    Extension(visitor): Extension<Visitor>,
    Extension(arrived): Extension<Arrived>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    small(site, visitor, arrived, &headers, body, |body, site, notes| {
        api::info::detokenize(body, &site.model, notes)
    })
    .await
}

/// Answers a request that needs no run of the model, within the limits of reading.
async fn small(
    site: Shared,
    visitor: Visitor,
    arrived: Arrived,
    headers: &HeaderMap,
    body: Body,
    work: fn(&[u8], &Site, &mut Notes) -> Result<Value, Problem>,
) -> Result<Json<Value>, Problem> {
    is_json(headers)?;
    let deadline = Instant::now() + site.timeout;
    let working = async {
        let (body, kept) = site.body(body).await?;
        arrived.whole();
        let pass = site.lanes.readers.enter(visitor).await?;
        let shared = Arc::clone(&site);
        let done = blocking(move |_| {
            let _pass = pass;
            let mut notes = Notes::new(shared.is_strict);
            let value = work(&body, &shared, &mut notes)?;
            shared.log(notes);
            Ok(value)
        })
        .await;
        drop(kept);
        site.lanes.settle();
        done
    };
    let done = timeout_at(deadline.into(), working).await;
    let done = done.unwrap_or_else(|_| Err(Problem::timeout(site.timeout.as_secs())));
    Ok(Json(done?))
}

async fn answer(
    site: Shared,
    visitor: Visitor,
    arrived: Arrived,
    headers: &HeaderMap,
    body: Body,
    read: Read,
) -> Result<Response, Problem> {
    let accepted = Instant::now();
    // said before a body of some megabytes is read
    if site.queue.phase() != Phase::Open {
        return Err(Problem::shutting_down());
    }
    is_json(headers)?;
    let deadline = accepted + site.timeout;
    let reading = async {
        let (body, kept) = site.body(body).await?;
        arrived.whole();
        let read = understood(&site, visitor, body, read).await;
        drop(kept);
        site.lanes.settle();
        let mut request = read?;
        if request.is_held() {
            let pass = Arc::new(site.lanes.grammars.enter(visitor).await?);
            let (format, tools) = (
                std::mem::take(&mut request.format),
                std::mem::take(&mut request.tools),
            );
            let held = compiled(&site, visitor, format, tools).await?;
            for (task, _) in &mut request.answers {
                task.holds = Some(Arc::clone(&pass));
                task.wanted.grammar.clone_from(&held.grammar);
                task.wanted.trigger.clone_from(&held.trigger);
            }
        }
        Ok(request)
    };
    let read = timeout_at(deadline.into(), reading).await;
    let read = read.unwrap_or_else(|_| Err(Problem::timeout(site.timeout.as_secs())));
    let Understood {
        answers,
        reply,
        is_streamed,
        ..
    } = read?;
    let (mut events, mut prompts) = (Vec::new(), Vec::new());
    for (task, reading) in answers {
        if reading.is_first {
            prompts.push(task.prompt.len());
        }
        let (job, of_job) = job(task, accepted);
        // those before it end with their events where there is no room for this one
        site.queue.push(job)?;
        events.push((of_job, reading));
    }
    let answers = Answers::new(events, &site.model, deadline, site.timeout);
    if is_streamed {
        Ok(streamed(reply, answers, &prompts, arrived.connection))
    } else {
        collected(reply, answers).await
    }
}

/// A request that was read.
struct Understood {
    answers: Vec<(Task, Reading)>,
    reply: Box<dyn Reply>,
    format: Format,
    tools: Tools,
    is_streamed: bool,
}

impl Understood {
    /// Whether its answers are held to a grammar.
    fn is_held(&self) -> bool {
        let may_call = !self.tools.callable().is_empty();
        !self.answers.is_empty() && (may_call || self.format != Format::Text)
    }
}

/// Reads a body as JSON and text.
async fn understood(site: &Shared, visitor: Visitor, body: Bytes, read: Read) -> Result<Understood, Problem> {
    let pass = site.lanes.readers.enter(visitor).await?;
    let shared = Arc::clone(site);
    blocking(move |go_on| {
        let _pass = pass;
        let mut notes = Notes::new(shared.is_strict);
        let (mut asked, reply) = read(&body, shared.names.main(), &mut notes)?;
        drop(body);
        asked.check()?;
        if let Some(name) = &asked.model {
            shared.names.check(name)?;
        }
        shared.log(notes);
        let owner = Owner {
            key: visitor.key,
            cache_key: asked.cache_key.as_ref().map(|key| blake3::hash(key.as_bytes())),
        };
        let answers = tasks(&mut asked, owner, shared.limits(), reply.call_prefix(), go_on)?;
        Ok(Understood {
            answers,
            reply,
            format: asked.format,
            tools: asked.tools,
            is_streamed: asked.is_streamed,
        })
    })
    .await
}

/// Compiles what the answers are held to.
async fn compiled(site: &Shared, visitor: Visitor, format: Format, tools: Tools) -> Result<Held, Problem> {
    let pass = site.lanes.compilers.enter(visitor).await?;
    let shared = Arc::clone(site);
    blocking(move |go_on| {
        let _pass = pass;
        held(&format, &tools, shared.limits(), go_on)
    })
    .await
}
