//! Server metrics in Prometheus format.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::job::Usage;

/// The media type of what [`Metrics::text`] gives.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is counted. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    responses: Family<Vec<(&'static str, String)>, Counter>,
    ended: Family<Vec<(&'static str, &'static str)>, Counter>,
    active: Gauge,
    waiting: Gauge,
    connections: Gauge,
    prompt: Counter,
    reused: Counter,
    answer: Counter,
    first: Histogram,
    gap: Histogram,
    together: Histogram,
    kv: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("polychip");
        // 1 ms to 131 s
        let times = || Histogram::new(exponential_buckets(0.001, 2.0, 18));
        let inner = Inner {
            responses: Family::default(),
            ended: Family::default(),
            active: Gauge::default(),
            waiting: Gauge::default(),
            connections: Gauge::default(),
            prompt: Counter::default(),
            reused: Counter::default(),
            answer: Counter::default(),
            first: times(),
            gap: times(),
            together: Histogram::new(exponential_buckets(1.0, 2.0, 5)),
            kv: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register(
            "http_responses",
            "Responses started, by route and status",
            inner.responses.clone(),
        );
        registry.register(
            "answers",
            "Answers finished, by reason: end, length, stop, gone (the client disconnected), failed",
            inner.ended.clone(),
        );
        registry.register("answers_active", "Answers in progress", inner.active.clone());
        registry.register("requests_waiting", "Waiting requests", inner.waiting.clone());
        registry.register("connections", "Open connections", inner.connections.clone());
        registry.register("prompt_tokens", "Prompt tokens", inner.prompt.clone());
        registry.register(
            "reused_tokens",
            "Prompt tokens found in the KV cache",
            inner.reused.clone(),
        );
        registry.register("answer_tokens", "Answer tokens", inner.answer.clone());
        registry.register_with_unit(
            "first_token",
            "Time from a request's arrival to its answer's first token",
            Unit::Seconds,
            inner.first.clone(),
        );
        registry.register_with_unit(
            "next_token",
            "Time between consecutive tokens of an answer",
            Unit::Seconds,
            inner.gap.clone(),
        );
        registry.register(
            "batch_answers",
            "Answers per batched run of the model",
            inner.together.clone(),
        );
        registry.register_with_unit(
            "kv",
            "KV cache memory of answers in progress and of texts that may be continued",
            Unit::Bytes,
            inner.kv.clone(),
        );
        Metrics(Arc::new(Inner { registry, ..inner }))
    }

    /// A response was begun.
    pub(crate) fn responded(&self, route: &str, status: u16) {
        let labels = vec![("route", route.to_owned()), ("status", status.to_string())];
        self.0.responses.get_or_create(&labels).inc();
    }

    /// Jobs that are answered, and that wait.
    pub(crate) fn show_jobs(&self, active: usize, waiting: usize) {
        self.0.active.set(active as i64);
        self.0.waiting.set(waiting as i64);
    }

    /// A prompt was read, so much of which was there already.
    pub(crate) fn began(&self, prompt: usize, reused: usize) {
        self.0.prompt.inc_by(prompt as u64);
        self.0.reused.inc_by(reused as u64);
    }

    /// A first token was chosen.
    pub(crate) fn first_token(&self, after: Duration) {
        self.0.first.observe(after.as_secs_f64());
    }

    /// A further token was chosen.
    pub(crate) fn next_token(&self, after: Duration) {
        self.0.gap.observe(after.as_secs_f64());
    }

    /// So many answers took a step together.
    pub(crate) fn stepped(&self, answers: usize) {
        self.0.together.observe(answers as f64);
    }

    /// An answer ended.
    pub(crate) fn ended(&self, why: &'static str, usage: Usage) {
        self.0.answer.inc_by(usage.answer as u64);
        self.0.ended.get_or_create(&vec![("why", why)]).inc();
    }

    /// Bytes of the KV caches.
    pub(crate) fn show_kv(&self, bytes: u64) {
        self.0.kv.set(bytes as i64);
    }

    /// A connection was opened.
    pub(crate) fn connected(&self) {
        self.0.connections.inc();
    }

    /// A connection was closed.
    pub(crate) fn disconnected(&self) {
        self.0.connections.dec();
    }

    /// All of it, as OpenMetrics' text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // writing to a string does not fail
        let _ = encode(&mut text, &self.0.registry);
        text
    }
}
