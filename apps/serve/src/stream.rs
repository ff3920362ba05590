//! Responses: one object, or a stream of events or lines.
//!
//! Invariant: a stream ends with its interface's last event, or with an error.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{Stream, unfold};
use tokio::time::sleep;

use crate::answer::{Answers, Next};
use crate::api::{Frame, Reply};
use crate::connections::Connection;
use crate::problem::Problem;

/// Interval of keep-alive events in a silent stream: proxies close connections that are silent for
/// a minute.
const ALIVE: Duration = Duration::from_secs(10);
/// How often a silent stream looks whether its client may have gone.
const LOOK: Duration = Duration::from_secs(1);

/// The answers as one object.
pub(crate) async fn collected(mut reply: Box<dyn Reply>, mut answers: Answers) -> Result<Response, Problem> {
    loop {
        match answers.next().await {
            Next::Parts(..) | Next::Ended(..) => {}
            Next::Failed(problem) => return Err(problem),
            Next::Over => return Ok(Json(reply.whole(&answers.wholes())).into_response()),
        }
    }
}

/// The answers to prompts of so many tokens as a stream.
pub(crate) fn streamed(
    mut reply: Box<dyn Reply>,
    answers: Answers,
    prompts: &[usize],
    connection: Arc<Connection>,
) -> Response {
    let is_lines = reply.is_lines();
    let mut frames = Vec::new();
    reply.open(prompts, &mut frames);
    let open = Open {
        connection,
        reply,
        answers: Some(answers),
        ready: frames.into(),
    };
    let mut response = if is_lines {
        let mut response = Body::from_stream(open.lines()).into_response();
        let kind = HeaderValue::from_static("application/x-ndjson");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    } else {
        let alive = KeepAlive::new().interval(ALIVE);
        Sse::new(open.events()).keep_alive(alive).into_response()
    };
    let headers = response.headers_mut();
    // proxies that hold events back until a block is full
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A stream that is not at its end.
struct Open {
    connection: Arc<Connection>,
    reply: Box<dyn Reply>,
    /// None once the last part came.
    answers: Option<Answers>,
    /// What is to be sent before the next parts.
    ready: VecDeque<Frame>,
}

impl Open {
    fn events(self) -> impl Stream<Item = Result<SseEvent, Infallible>> {
        unfold(self, |mut open| async move {
            let event = open.event().await?;
            Some((Ok(event), open))
        })
    }

    fn lines(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        unfold(self, |mut open| async move {
            let frame = open.next().await?;
            Some((Ok(Bytes::from(frame.data + "\n")), open))
        })
    }

    /// The next event, or a comment that finds out whether a client is there that may have gone.
    async fn event(&mut self) -> Option<SseEvent> {
        let connection = Arc::clone(&self.connection);
        loop {
            tokio::select! {
                frame = self.next() => {
                    let frame = frame?;
                    let event = SseEvent::default();
                    let event = match frame.name {
                        Some(name) => event.event(name),
                        None => event,
                    };
                    return Some(event.data(frame.data));
                }
                () = sleep(LOOK) => {
                    if connection.is_half_closed() {
                        return Some(SseEvent::default().comment(""));
                    }
                }
            }
        }
    }

    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            let answers = self.answers.as_mut()?;
            let next = answers.next().await;
            let mut frames = Vec::new();
            let mut is_over = false;
            match next {
                Next::Parts(choice, parts) => {
                    for part in &parts {
                        self.reply.part(choice, part, &mut frames);
                    }
                }
                Next::Ended(choice, parts) => {
                    for part in &parts {
                        self.reply.part(choice, part, &mut frames);
                    }
                    self.reply.end(choice, answers.whole(choice), &mut frames);
                }
                Next::Over => {
                    self.reply.close(&answers.wholes(), &mut frames);
                    is_over = true;
                }
                // the status is sent already
                Next::Failed(problem) => {
                    self.reply.fail(&problem, &mut frames);
                    is_over = true;
                }
            }
            self.ready.extend(frames);
            if is_over {
                self.answers = None;
            }
        }
    }
}
