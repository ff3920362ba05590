//! A grammar in a sandbox, and answers that it follows there.
//!
//! Invariants:
//! 1. The end of the sandbox is an error of the answers that it followed. A later answer gets a new sandbox, in which
//!    a thread compiles the grammar again.
//! 2. Only [`RemoteState::mask`] and [`RemoteState::is_complete`] wait for a sandbox.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
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
    source: Arc<Source>,
    sandbox: Mutex<Sandbox>,
    first: Mask,
    is_cheap: bool,
}

/// What the grammar is compiled from, by its kind of message.
#[derive(Debug)]
struct Source {
    kind: u8,
    text: String,
}

#[derive(Debug)]
struct Sandbox {
    process: State,
    answers: BTreeMap<u32, Answer>,
    next: u32,
}

#[derive(Debug)]
enum State {
    Ready(Process),
    /// A thread compiles the grammar again; with the messages that it gets then, and the number of their replies.
    Starting(Receiver<Result<Process, Failure>>, Vec<(Vec<u8>, usize)>),
    /// It has ended, for this reason.
    Ended(String),
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

impl Source {
    /// Compiles the grammar in a sandbox; gives the mask of its first token. `None` where there are no sandboxes.
    fn compile(
        &self,
        compilers: &Compilers,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Result<(Process, Mask, bool), Failure>> {
        let sandbox = compilers.sandbox()?;
        // a slow start says nothing of what the grammar costs
        let started = Instant::now();
        Some(sandbox.and_then(|mut process| {
            process.send(&[&[self.kind], self.text.as_bytes()], 1)?;
            let reply = process.receive(go_on)?;
            match reply.split_first() {
                Some((&kind::DONE, mask)) => match Mask::of_bytes(mask) {
                    Some(first) => Ok((process, first, started.elapsed() < CHEAP)),
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
        }))
    }
}

impl RemoteGrammar {
    /// Compiles a grammar; `None` where there are no sandboxes.
    pub(super) fn compile(
        compilers: &Arc<Compilers>,
        kind: u8,
        text: String,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Result<RemoteGrammar, Failure>> {
        let source = Arc::new(Source { kind, text });
        let compiled = source.compile(compilers, go_on)?;
        Some(compiled.map(|(process, first, is_cheap)| RemoteGrammar {
            compilers: Arc::clone(compilers),
            source,
            sandbox: Mutex::new(Sandbox {
                process: State::Ready(process),
                answers: BTreeMap::new(),
                next: 0,
            }),
            first,
            is_cheap,
        }))
    }

    /// Compiles the grammar again, on a thread.
    fn restart(&self) -> State {
        let (sender, made) = channel();
        let (compilers, source) = (Arc::clone(&self.compilers), Arc::clone(&self.source));
        let compile = move || {
            let gone = || Failure::Ended("the program of sandboxes is gone".to_owned());
            let made = source.compile(&compilers, &mut || true);
            let made = made.unwrap_or_else(|| Err(gone()));
            // the grammar may have been dropped meanwhile
            let _ = sender.send(made.map(|(process, ..)| process));
        };
        let thread = std::thread::Builder::new().name("polychip-grammar".to_owned());
        match thread.spawn(compile) {
            Ok(_) => State::Starting(made, Vec::new()),
            Err(error) => State::Ended(format!("no thread to compile it again: {error}")),
        }
    }

    fn sandbox(&self) -> MutexGuard<'_, Sandbox> {
        self.sandbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(self: &Arc<Self>) -> RemoteState {
        let mut sandbox = self.sandbox();
        if let State::Ready(process) = &mut sandbox.process
            && !process.is_alive()
        {
            sandbox.fail(Failure::Ended("the process that reads it has ended".to_owned()));
        }
        if let State::Ended(_) = sandbox.process {
            sandbox.process = self.restart();
        }
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
        let process = std::mem::replace(&mut sandbox.process, State::Ended(String::new()));
        if let State::Ready(mut process) = process
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
        match &mut self.process {
            State::Ready(process) => {
                let sent = process.send(parts, replies);
                sent.map_err(|failure| self.fail(failure))
            }
            State::Starting(_, messages) => {
                messages.push((parts.concat(), replies));
                Ok(())
            }
            State::Ended(words) => Err(words.clone()),
        }
    }

    /// The sandbox is lost, and with it the answers that it followed.
    fn fail(&mut self, failure: Failure) -> String {
        let words = match failure {
            Failure::Ended(words) => words,
            Failure::Unavailable(error) => error.to_string(),
            Failure::Cancelled => "it was cancelled".to_owned(),
        };
        self.process = State::Ended(words.clone());
        self.answers.retain(|_, answer| !answer.has_ended);
        for answer in self.answers.values_mut() {
            answer.is_complete.get_or_insert(false);
            answer.mask = Some(Err(words.clone()));
        }
        words
    }

    /// Takes the sandbox that a thread has made; whether there is one.
    fn settle(&mut self, waits: bool) -> Result<bool, String> {
        let State::Starting(made, messages) = &mut self.process else {
            return Ok(true);
        };
        let lost = || Failure::Ended("a thread of a sandbox has ended".to_owned());
        let made = match made.try_recv() {
            Ok(made) => made,
            Err(TryRecvError::Empty) if !waits => return Ok(false),
            // compiling has limits of time
            Err(TryRecvError::Empty) => made.recv().unwrap_or_else(|_| Err(lost())),
            Err(TryRecvError::Disconnected) => Err(lost()),
        };
        let messages = std::mem::take(messages);
        let sent = made.and_then(|mut process| {
            for (message, replies) in messages {
                process.send(&[&message], replies)?;
            }
            Ok(process)
        });
        match sent {
            Ok(process) => {
                self.process = State::Ready(process);
                Ok(true)
            }
            Err(failure) => Err(self.fail(failure)),
        }
    }

    /// The sandbox is lost: it replies what no sandbox does.
    fn broken(&mut self) -> String {
        self.fail(Failure::Ended("a sandbox gave a broken reply".to_owned()))
    }

    /// Takes one reply, if `waits` after waiting for it; whether there was one.
    fn pump(&mut self, waits: bool) -> Result<bool, String> {
        if !self.settle(waits)? {
            return Ok(false);
        }
        let process = match &mut self.process {
            State::Ready(process) => process,
            State::Ended(words) => return Err(words.clone()),
            State::Starting(..) => return Ok(false),
        };
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
        if is_last && let State::Ready(process) = &mut self.process {
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
        if let Some(answer) = sandbox.answers.get(&self.id)
            && let Some(Err(words)) = &answer.mask
        {
            return Err(words.clone());
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::is_available;

    /// A vocabulary of all bytes and an end.
    fn compilers() -> Arc<Compilers> {
        let bytes = (0..=255).map(|byte: u8| Ok((vec![byte], false)));
        let end = std::iter::once(Ok((b"<end>".to_vec(), true)));
        Compilers::new(bytes.chain(end), vec![256]).unwrap()
    }

    fn grammar() -> Arc<RemoteGrammar> {
        assert!(
            is_available(),
            "polychip-llm-sandbox is missing: cargo build --workspace --bins"
        );
        let text = r#"{"enum": ["ab", "cd"]}"#.to_owned();
        let made = RemoteGrammar::compile(&compilers(), kind::SCHEMA, text, &mut || true);
        Arc::new(made.unwrap().unwrap())
    }

    fn kill(grammar: &RemoteGrammar) {
        match &mut grammar.sandbox().process {
            State::Ready(process) => process.kill_for_test(),
            other => panic!("it is not ready: {other:?}"),
        }
    }

    /// Follows the answer "cd" to its end.
    fn follow(grammar: &Arc<RemoteGrammar>) {
        let answer = grammar.begin();
        for byte in b"\"cd\"" {
            let mut logits = vec![0.0; 257];
            answer.mask().unwrap().apply(&mut logits);
            assert!(!logits[usize::from(*byte)].is_nan(), "{byte}");
            answer.send(TokenId::from(*byte)).unwrap();
        }
        assert!(answer.is_complete().is_ok());
    }

    #[test]
    fn grammar_is_made_again_after_its_sandbox_has_ended() {
        let grammar = grammar();
        follow(&grammar);
        let before = grammar.begin();
        before.send(TokenId::from(b'"')).unwrap();
        assert!(before.mask().is_ok());
        kill(&grammar);
        // one that begins now gets another sandbox, and the one before an error
        follow(&grammar);
        let error = before.send(TokenId::from(b'c')).unwrap_err();
        assert!(error.contains("has ended"), "{error}");
        assert!(before.mask().is_err() && before.is_complete().is_err());
        drop(before);
        follow(&grammar);
        // its end shows in the middle of an answer
        let answer = grammar.begin();
        kill(&grammar);
        let _ = answer.send(TokenId::from(b'"'));
        assert!(answer.mask().is_err() && !answer.is_waiting());
        follow(&grammar);
    }
}
