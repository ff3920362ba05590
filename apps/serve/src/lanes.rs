//! What reading requests may take of the server: memory of bodies, time of threads, sandbox processes.
//!
//! Invariant: reading is bounded in memory and time and ends with its client, and clients alternate ([`Gate`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::Options;
use crate::gate::Gate;
use crate::problem::Problem;

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

/// What reading requests may take of the server.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Bytes of bodies on their way, beyond each one's first.
    bodies: Arc<Semaphore>,
    bodies_bytes: usize,
    /// Reading JSON and text.
    pub(crate) readers: Arc<Gate>,
    /// Compiling grammars.
    pub(crate) compilers: Arc<Gate>,
    /// Answers with a grammar, those in the queue included: each has a sandbox process.
    pub(crate) grammars: Arc<Gate>,
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

impl Lanes {
    /// Gives memory back that many bodies took, once no large one is on its way: the C library would keep it.
    pub(crate) fn settle(self: &Arc<Self>) {
        let is_calm = self.bodies.available_permits() == self.bodies_bytes;
        if !is_calm || self.received.load(Ordering::Relaxed) < WORTH_A_TRIM {
            return;
        }
        if self.is_settling.swap(true, Ordering::AcqRel) {
            return;
        }
        let lanes = Arc::clone(self);
        tokio::spawn(async move {
            // others end at the same time
            sleep(SETTLE).await;
            lanes.received.store(0, Ordering::Relaxed);
            lanes.is_settling.store(false, Ordering::Release);
            // an error is a panic, which was printed
            let _ = tokio::task::spawn_blocking(polychip_llm::trim_heap).await;
        });
    }
}

/// Sets a flag once it is dropped.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does something on a thread for that; `work` may ask whether anybody waits for it still.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let is_gone = Arc::new(AtomicBool::new(false));
    let _gone = Gone(Arc::clone(&is_gone));
    let done = tokio::task::spawn_blocking(move || work(&mut || !is_gone.load(Ordering::Relaxed)));
    done.await.map_err(|_| {
        Problem::internal("internal error while reading a request; its message is on standard error")
    })?
}

/// Refuses a body that is not JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
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

/// The whole body, if it has at most `limit` bytes and comes in time, and what it takes of the memory for bodies.
pub(crate) async fn whole(
    lanes: &Lanes,
    body: Body,
    limit: usize,
    patience: Duration,
) -> Result<(Bytes, Vec<OwnedSemaphorePermit>), Problem> {
    let arrived = timeout(patience, arrived(body, limit, lanes)).await;
    arrived.unwrap_or_else(|_| Err(Problem::slow_body(patience.as_secs())))
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::gate::Visitor;

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
