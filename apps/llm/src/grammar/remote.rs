//! A grammar in a sandbox, and answers that it follows there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::compilers::Compilers;
use super::local::Mask;
use crate::TokenId;
use crate::sandbox::{CHEAP, Failure, Process, kind};

/// A compiled grammar in a sandbox of its own.
#[derive(Debug)]
pub(super) struct RemoteGrammar {
    compilers: Arc<Compilers>,
    sandbox: Mutex<Sandbox>,
    first: Mask,
    is_cheap: bool,
}

#[derive(Debug)]
struct Sandbox {
    /// Until it has ended.
    process: Option<Process>,
    /// Why it has.
    failure: String,
    answers: BTreeMap<u32, Answer>,
    next: u32,
}

/// What the sandbox has said of an answer.
#[derive(Debug, Default)]
struct Answer {
    /// Whether the text is complete behind the last token that was sent; `None` until the sandbox replies.
    is_complete: Option<bool>,
    /// The tokens that may come next, or why none can.
    mask: Option<Result<Mask, String>>,
    /// Whether it has ended and is kept only for the replies that are still to come.
    has_ended: bool,
}

impl Answer {
    /// Whether replies to the last token are still to come.
    fn is_awaited(&self) -> bool {
        match self.is_complete {
            None => true,
            Some(is_complete) => !is_complete && self.mask.is_none(),
        }
    }
}

impl RemoteGrammar {
    /// Compiles a grammar; `None` where there are no sandboxes.
    pub(super) fn compile(
        compilers: &Arc<Compilers>,
        kind: u8,
        text: &str,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Result<RemoteGrammar, Failure>> {
        let sandbox = compilers.sandbox()?;
        // a slow start says nothing of what the grammar costs
        let started = Instant::now();
        let compiled = sandbox.and_then(|mut process| {
            process.send(&[&[kind], text.as_bytes()], 1)?;
            let reply = process.receive(go_on)?;
            match reply.split_first() {
                Some((&kind::DONE, mask)) => match Mask::of_bytes(mask) {
                    Some(first) => Ok((process, first)),
                    None => Err(Failure::Ended("a sandbox gave no mask".to_owned())),
                },
                Some((_, words)) => {
                    // the sandbox is sound: it said what is wrong
                    let words = String::from_utf8_lossy(words).into_owned();
                    if started.elapsed() < CHEAP {
                        compilers.give_back(process);
                    }
                    Err(Failure::Ended(words))
                }
                None => Err(Failure::Ended("a sandbox gave an empty reply".to_owned())),
            }
        });
        Some(compiled.map(|(process, first)| RemoteGrammar {
            compilers: Arc::clone(compilers),
            sandbox: Mutex::new(Sandbox {
                process: Some(process),
                failure: String::new(),
                answers: BTreeMap::new(),
                next: 0,
            }),
            first,
            is_cheap: started.elapsed() < CHEAP,
        }))
    }

    fn sandbox(&self) -> MutexGuard<'_, Sandbox> {
        self.sandbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(self: &Arc<Self>) -> RemoteState {
        let mut sandbox = self.sandbox();
        let id = sandbox.next;
        sandbox.next = sandbox.next.wrapping_add(1);
        let answer = Answer {
            is_complete: Some(false),
            mask: Some(Ok(self.first.clone())),
            has_ended: false,
        };
        sandbox.answers.insert(id, answer);
        // an error shows with the first token
        let _ = sandbox.send(&[&[kind::BEGIN], &id.to_le_bytes()], 0);
        RemoteState {
            grammar: Arc::clone(self),
            id,
        }
    }
}

impl Drop for RemoteGrammar {
    fn drop(&mut self) {
        let sandbox = self.sandbox.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut process) = sandbox.process.take()
            && self.is_cheap
            && process.is_idle()
            && process.send(&[&[kind::RESET]], 0).is_ok()
        {
            self.compilers.give_back(process);
        }
    }
}

impl Sandbox {
    fn send(&mut self, parts: &[&[u8]], replies: usize) -> Result<(), String> {
        let process = self.process.as_mut().ok_or_else(|| self.failure.clone())?;
        let sent = process.send(parts, replies);
        sent.map_err(|failure| self.fail(failure))
    }

    /// The sandbox is lost.
    fn fail(&mut self, failure: Failure) -> String {
        self.process = None;
        self.failure = match failure {
            Failure::Ended(words) => words,
            Failure::Unavailable(error) => error.to_string(),
            Failure::Cancelled => "it was cancelled".to_owned(),
        };
        self.answers.retain(|_, answer| !answer.has_ended);
        self.failure.clone()
    }

    /// The sandbox is lost: it replies what no sandbox does.
    fn broken(&mut self) -> String {
        self.fail(Failure::Ended("a sandbox gave a broken reply".to_owned()))
    }

    /// Takes one reply, if `waits` after waiting for it; whether there was one.
    fn pump(&mut self, waits: bool) -> Result<bool, String> {
        let process = self.process.as_mut().ok_or_else(|| self.failure.clone())?;
        // it would be waited for without end
        if process.is_idle() {
            return Err(self.fail(Failure::Ended("a sandbox gave no reply".to_owned())));
        }
        let reply = if waits {
            process.receive(&mut || true).map(Some)
        } else {
            process.try_receive()
        };
        let reply = match reply {
            Ok(Some(reply)) => reply,
            Ok(None) => return Ok(false),
            Err(failure) => return Err(self.fail(failure)),
        };
        let parts = reply.split_first().and_then(|(kind, rest)| {
            let (id, rest) = rest.split_first_chunk()?;
            Some((*kind, u32::from_le_bytes(*id), rest))
        });
        let Some((kind, id, rest)) = parts else {
            return Err(self.broken());
        };
        // an unexpected one would be counted in place of one that is to come
        let Some(answer) = self.answers.get_mut(&id).filter(|answer| answer.is_awaited()) else {
            return Err(self.broken());
        };
        let is_last = match kind {
            kind::TAKEN if answer.is_complete.is_none() => {
                let is_complete = rest == [1];
                answer.is_complete = Some(is_complete);
                is_complete
            }
            kind::MASK if answer.is_complete.is_some() => {
                let mask = Mask::of_bytes(rest);
                answer.mask = Some(mask.ok_or_else(|| "a sandbox gave no mask".to_owned()));
                false
            }
            kind::FAILED => {
                let words = String::from_utf8_lossy(rest).into_owned();
                answer.mask = Some(Err(words));
                // of the two replies to a token this is the first
                answer.is_complete.replace(false).is_none()
            }
            _ => return Err(self.broken()),
        };
        let is_done = answer.has_ended && !answer.is_awaited();
        if is_done {
            self.answers.remove(&id);
        }
        if is_last && let Some(process) = &mut self.process {
            process.expect_less();
        }
        Ok(true)
    }
}

/// An answer that a sandbox follows.
#[derive(Debug)]
pub(super) struct RemoteState {
    grammar: Arc<RemoteGrammar>,
    id: u32,
}

impl RemoteState {
    /// Waits until the sandbox has said what `found` looks for.
    fn wait<T>(&self, found: impl Fn(&Answer) -> Option<T>) -> Result<T, String> {
        let mut sandbox = self.grammar.sandbox();
        loop {
            if let Some(found) = sandbox.answers.get(&self.id).and_then(&found) {
                return Ok(found);
            }
            sandbox.pump(true)?;
        }
    }

    /// The tokens that may come next.
    pub(super) fn mask(&self) -> Result<Mask, String> {
        self.wait(|answer| answer.mask.clone())?
    }

    /// Sends the next token; the sandbox's replies come later.
    pub(super) fn send(&self, token: TokenId) -> Result<(), String> {
        let mut sandbox = self.grammar.sandbox();
        sandbox.answers.insert(self.id, Answer::default());
        sandbox.send(&[&[kind::TOKEN], &self.id.to_le_bytes(), &token.to_le_bytes()], 2)
    }

    /// Whether nothing can follow the last token.
    pub(super) fn is_complete(&self) -> Result<bool, String> {
        let is_complete = self.wait(|answer| answer.is_complete)?;
        let sandbox = self.grammar.sandbox();
        match sandbox
            .answers
            .get(&self.id)
            .and_then(|answer| answer.mask.as_ref())
        {
            Some(Err(words)) => Err(words.clone()),
            _ => Ok(is_complete),
        }
    }

    /// Whether the sandbox has yet to say what it makes of the last token. Never waits.
    pub(super) fn is_waiting(&self) -> bool {
        let mut sandbox = self.grammar.sandbox();
        loop {
            match sandbox.answers.get(&self.id) {
                Some(answer) if answer.is_complete == Some(true) || answer.mask.is_some() => return false,
                _ => {}
            }
            match sandbox.pump(false) {
                Ok(true) => {}
                Ok(false) => return true,
                // the next step returns the error
                Err(_) => return false,
            }
        }
    }
}

impl Drop for RemoteState {
    fn drop(&mut self) {
        let mut sandbox = self.grammar.sandbox();
        // replies that are still to come are counted for it
        match sandbox.answers.get_mut(&self.id) {
            Some(answer) if answer.is_awaited() => answer.has_ended = true,
            _ => {
                sandbox.answers.remove(&self.id);
            }
        }
        // a sandbox that has ended has forgotten it
        let _ = sandbox.send(&[&[kind::END], &self.id.to_le_bytes()], 0);
    }
}
