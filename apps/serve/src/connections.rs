//! Open connections: how many there are, which of them make room for a new one, and whether a silent client is there.
//!
//! Invariants:
//! 1. Where all connections are taken, the one goes that has sent nothing for the longest time, then the one whose
//!    body takes longest, then one that is new; never one whose request is answered.
//! 2. A client that has closed its sending half is still there: it gets its answer. Where the answer takes time, an
//!    interim response (100), or a comment in a stream, finds out whether the other half is closed as well.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::sleep;

/// Interval of checks for disconnected clients, whose unread bytes hide the end of their
/// connection.
const LOOK: Duration = Duration::from_millis(50);
/// Time between interim responses to a client that has closed its sending half.
const PROBE: Duration = Duration::from_secs(5);
/// How long an answer may take before the first of them: most clients that close their sending half get none.
const SPARED: Duration = Duration::from_millis(200);
/// How long a silent connection counts as new, whose request is on its way.
const NEW: Duration = Duration::from_secs(1);
/// What a client of HTTP/1.1 has to expect before any response.
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What a connection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No request has come whole up to its body.
    Silent,
    /// A body is coming.
    Body,
    /// A request is being answered; whether interim responses may still come before the answer.
    Answer { may_probe: bool },
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) address: Option<IpAddr>,
    stage: Mutex<(Stage, Instant)>,
    /// Told when it has to make room.
    close: Notify,
    /// Whether the system takes no more bytes now: some of a response may be left.
    is_blocked: AtomicBool,
    /// Whether the client has closed its sending half.
    is_half_closed: AtomicBool,
}

impl Connection {
    fn new(address: Option<IpAddr>) -> Connection {
        Connection {
            address,
            stage: Mutex::new((Stage::Silent, Instant::now())),
            close: Notify::new(),
            is_blocked: AtomicBool::new(false),
            is_half_closed: AtomicBool::new(false),
        }
    }

    fn stage(&self) -> (Stage, Instant) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a stage now.
    pub(crate) fn enter(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = (stage, Instant::now());
    }

    /// Whether the client has closed its sending half: it may have gone.
    pub(crate) fn is_half_closed(&self) -> bool {
        self.is_half_closed.load(Ordering::Relaxed)
    }

    /// Waits until it has to make room for another one.
    pub(crate) async fn must_close(&self) {
        self.close.notified().await;
    }

    /// Waits until the client has gone.
    pub(crate) async fn gone(&self, stream: Option<TcpStream>) {
        let Some(stream) = stream else {
            return std::future::pending().await;
        };
        let mut probed: Option<Instant> = None;
        loop {
            sleep(LOOK).await;
            // the state alone: nothing is read
            let both = Interest::READABLE | Interest::WRITABLE;
            let Some(Ok(ready)) = stream.ready(both).now_or_never() else {
                continue;
            };
            if ready.is_write_closed() {
                return;
            }
            if ready.is_read_closed() {
                self.is_half_closed.store(true, Ordering::Relaxed);
            }
            let is_due = probed.is_none_or(|probed| probed.elapsed() > PROBE);
            let (stage, since) = self.stage();
            let may_probe = stage == Stage::Answer { may_probe: true } && since.elapsed() > SPARED;
            if ready.is_read_closed() && may_probe && is_due && !self.is_blocked.load(Ordering::Relaxed) {
                probed = Some(Instant::now());
                match stream.try_write(INTERIM) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                    _ => {}
                }
            }
        }
    }
}

/// All open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    state: Mutex<State>,
    changed: Notify,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<u64, Arc<Connection>>,
    /// Connections whose task has not ended, those that are asked to make room included.
    tasks: usize,
    next: u64,
}

impl State {
    /// Has the connection that goes first close; false if none may go.
    fn make_room(&mut self) -> bool {
        let first = self.open.iter().filter_map(|(id, connection)| {
            let (stage, since) = connection.stage();
            let rank = match stage {
                Stage::Silent if since.elapsed() >= NEW => 0,
                Stage::Body => 1,
                // its request may be on its way, while held bodies take all places
                Stage::Silent => 2,
                Stage::Answer { .. } => return None,
            };
            Some((rank, since, *id))
        });
        let Some((_, _, id)) = first.min() else {
            return false;
        };
        if let Some(connection) = self.open.remove(&id) {
            connection.close.notify_one();
        }
        true
    }
}

/// A place among the open connections, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    all: Arc<Connections>,
    id: u64,
    pub(crate) connection: Arc<Connection>,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Arc<Connections> {
        Arc::new(Connections {
            state: Mutex::default(),
            changed: Notify::new(),
            most,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection; waits where all are being answered.
    pub(crate) async fn admit(self: &Arc<Connections>, address: Option<IpAddr>) -> Place {
        loop {
            let changed = self.changed.notified();
            if let Some(place) = self.try_admit(address) {
                return place;
            }
            // a connection that is answered now may be silent soon
            tokio::select! {
                () = changed => {}
                () = sleep(LOOK) => {}
            }
        }
    }

    fn try_admit(self: &Arc<Connections>, address: Option<IpAddr>) -> Option<Place> {
        let mut state = self.state();
        if state.open.len() >= self.most && !state.make_room() {
            return None;
        }
        let id = state.next;
        state.next += 1;
        state.tasks += 1;
        let connection = Arc::new(Connection::new(address));
        state.open.insert(id, Arc::clone(&connection));
        Some(Place {
            all: Arc::clone(self),
            id,
            connection,
        })
    }

    /// Closes the connection that goes first, if one may go: the system gives no more of them.
    pub(crate) fn make_room(&self) {
        self.state().make_room();
    }

    /// Waits until all are closed.
    pub(crate) async fn all_closed(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state().tasks == 0 {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.all.state();
        state.open.remove(&self.id);
        state.tasks -= 1;
        drop(state);
        self.all.changed.notify_waiters();
    }
}

/// A stream that says whether the system took all that was written.
pub(crate) struct Watched<S> {
    inner: S,
    connection: Arc<Connection>,
}

impl<S> Watched<S> {
    pub(crate) fn new(inner: S, connection: Arc<Connection>) -> Watched<S> {
        Watched { inner, connection }
    }

    fn note<T>(&self, written: Poll<T>) -> Poll<T> {
        self.connection
            .is_blocked
            .store(written.is_pending(), Ordering::Relaxed);
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, bytes);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn silent_connections_make_room_and_answers_do_not() {
        let all = Connections::new(3);
        let places = [
            all.admit(None).await,
            all.admit(None).await,
            all.admit(None).await,
        ];
        places[0].connection.enter(Stage::Answer { may_probe: true });
        places[1].connection.enter(Stage::Body);
        let long_ago = Instant::now().checked_sub(NEW).unwrap();
        *places[2].connection.stage.lock().unwrap() = (Stage::Silent, long_ago);
        // the silent one first, then the body
        let fourth = all.admit(None).await;
        places[2].connection.must_close().await;
        fourth.connection.enter(Stage::Answer { may_probe: true });
        let fifth = all.admit(None).await;
        places[1].connection.must_close().await;
        fifth.connection.enter(Stage::Answer { may_probe: false });
        assert!(all.try_admit(None).is_none());
        drop(places);
        assert!(all.try_admit(None).is_some());
        drop((fourth, fifth));
        all.all_closed().await;
    }

    #[tokio::test]
    async fn held_bodies_make_room_before_new_connections() {
        let all = Connections::new(2);
        let body = all.admit(None).await;
        let new = all.admit(None).await;
        body.connection.enter(Stage::Body);
        let third = all.admit(None).await;
        body.connection.must_close().await;
        // among new ones, the oldest
        let fourth = all.admit(None).await;
        new.connection.must_close().await;
        third.connection.enter(Stage::Answer { may_probe: false });
        all.make_room();
        fourth.connection.must_close().await;
        assert_eq!(all.state().open.len(), 1);
    }
}
