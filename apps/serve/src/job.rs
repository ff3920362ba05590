//! A parsed request on its way to the model thread, and the events that come back.
//!
//! Invariants:
//! 1. Nothing here waits for a client: pieces use a bounded channel, and the final event has its own.
//! 2. A client that drops its [`Events`] counts as disconnected, and the thread notices.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use polychip_llm::{Finish, Generate, TokenId, TokenScore};
use tokio::sync::{mpsc, oneshot};

use crate::gate::Pass;
use crate::problem::Problem;

/// Pieces of an answer that may lie ready for a client; the answer waits then.
const PIECES: usize = 64;

/// What the model is asked.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) prompt: Vec<TokenId>,
    pub(crate) wanted: Generate,
    /// Whether what was read before of the prompt need not be read again, and this one may be kept for others.
    pub(crate) may_reuse: bool,
    /// Whose it is.
    pub(crate) owner: Owner,
    /// A place among the answers with a grammar.
    pub(crate) holds: Option<Arc<Pass>>,
    /// The field that a grammar came from.
    pub(crate) grammar_param: &'static str,
}

/// A piece of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    /// Of the tokens that were chosen since the last piece, if they are wanted.
    pub(crate) scores: Vec<TokenScore>,
    /// Of the prompt's tokens from the second on, once, if they are wanted.
    pub(crate) prompt_scores: Vec<TokenScore>,
    /// Of the prompt, in the end, if it is wanted.
    pub(crate) embedding: Option<Vec<f32>>,
}

impl Piece {
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.scores.is_empty() && self.prompt_scores.is_empty()
    }
}

/// Who may reuse what was read of a prompt: requests with the same key and the same `prompt_cache_key`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Index of the key; none without keys.
    pub(crate) key: Option<usize>,
    pub(crate) cache_key: Option<blake3::Hash>,
}

/// A task with the way back to its client.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) task: Task,
    pub(crate) accepted: Instant,
    pub(crate) client: Client,
}

/// The thread's end of the way back.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) pieces: mpsc::Sender<Piece>,
    pub(crate) end: oneshot::Sender<Result<Ended, Problem>>,
}

impl Client {
    /// Whether the client has disconnected.
    pub(crate) fn is_gone(&self) -> bool {
        self.pieces.is_closed()
    }

    /// Sends the last message, which a disconnected client does not get.
    pub(crate) fn end(self, how: Result<Ended, Problem>) {
        let _ = self.end.send(how);
    }
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ended {
    /// The last of its text.
    pub(crate) rest: Piece,
    pub(crate) finish: Finish,
    pub(crate) usage: Usage,
}

/// What an answer took, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: usize,
    /// Those of the prompt that had been read before.
    pub(crate) reused: usize,
    pub(crate) answer: usize,
}

/// The client's end of the way back.
#[derive(Debug)]
pub(crate) struct Events {
    pieces: mpsc::Receiver<Piece>,
    end: Option<oneshot::Receiver<Result<Ended, Problem>>>,
}

/// What comes next of an answer.
#[derive(Debug)]
pub(crate) enum Event {
    Piece(Piece),
    Ended(Ended),
    Failed(Problem),
}

impl Events {
    /// What comes next; nothing comes behind an end or a failure.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        if let Some(piece) = ready!(self.pieces.poll_recv(context)) {
            return Poll::Ready(Event::Piece(piece));
        }
        let end = match &mut self.end {
            Some(end) => ready!(Pin::new(end).poll(context)).ok(),
            None => None,
        };
        self.end = None;
        Poll::Ready(match end {
            Some(Ok(ended)) => Event::Ended(ended),
            Some(Err(problem)) => Event::Failed(problem),
            None => Event::Failed(Problem::internal("the thread that runs the model has ended")),
        })
    }

    /// What comes next.
    #[cfg(test)]
    pub(crate) async fn next(&mut self) -> Event {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }
}

/// A job and where its answer is read.
pub(crate) fn job(task: Task, accepted: Instant) -> (Job, Events) {
    let (sender, pieces) = mpsc::channel(PIECES);
    let (end, ended) = oneshot::channel();
    let job = Job {
        task,
        accepted,
        client: Client { pieces: sender, end },
    };
    let events = Events {
        pieces,
        end: Some(ended),
    };
    (job, events)
}
