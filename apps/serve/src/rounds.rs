//! The model thread: rounds in which each answer gets a step.
//!
//! Invariants:
//! 1. In a round each answer gets at most one token, with up to 16 answers per run, and all prompts together at most
//!    one chunk. Between two tokens of an answer lie one token of each other answer and one chunk, regardless of the
//!    length and number of prompts.
//! 2. A slow reader blocks only its own answer; a disconnected client is dropped before its next step.
//! 3. The chunks of a prompt depend only on the prompt and its cached beginning, because other chunks change the last
//!    bits of sums.

use std::sync::Arc;
use std::time::{Duration, Instant};

use polychip_llm::{Batch, ErrorKind, Finish, Generation, LanguageModel, Sequence, Step};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

use crate::Options;
use crate::gate::Pass;
use crate::job::{Client, Ended, Job, Owner, Piece, Usage};
use crate::metrics::Metrics;
use crate::pool::{Lease, Pool, WORTH_A_COPY};
use crate::problem::Problem;
use crate::queue::{Phase, Queue};

/// Tokens of prompts that are read in a round: all others wait for it.
const CHUNK: usize = 128;
/// What a run of few tokens counts as, since it takes about as long as one of so many.
const LEAST: usize = 16;
/// Sizes of chunks that are planned before the first request; the model has no others up to the largest.
pub(crate) const CHUNKS: [usize; 4] = [CHUNK, 32, 8, 1];
/// How often slow clients are looked after, where nothing else is to do.
const LOOK: Duration = Duration::from_millis(20);

/// How often sandboxes are looked after that follow an answer's grammar, where nothing else is to do.
const MASK_LOOK: Duration = Duration::from_micros(200);

/// Answers in progress.
#[derive(Debug)]
pub(crate) struct Rounds {
    queue: Arc<Queue>,
    pool: Pool,
    batch: Batch,
    max_batch: usize,
    metrics: Metrics,
    capacity: usize,
    patience: Duration,
    active: Vec<Active>,
    /// Chunks read so far.
    chunks: u64,
}

/// An answer in the making.
#[derive(Debug)]
struct Active {
    generation: Generation,
    lease: Lease,
    client: Client,
    accepted: Instant,
    /// Whether it takes over what others of its owner have read, and they what it has.
    may_reuse: bool,
    owner: Owner,
    /// A place among the answers with a grammar.
    _holds: Option<Arc<Pass>>,
    grammar_param: &'static str,
    /// When its last token was chosen.
    token: Option<Instant>,
    /// What the client has had no room for, and since when.
    held: Option<(Piece, Instant)>,
    /// When a chunk of its prompt was read, by the count of chunks.
    chunk: u64,
}

/// How an answer is left.
enum Left {
    /// It may get a step.
    Ready,
    /// Its client has no room.
    Slow,
    /// It ends with this result; `None` if the client has disconnected.
    Over(Option<Result<Ended, Problem>>),
}

/// Reports the end of the thread, also after a panic.
struct LastWord {
    queue: Arc<Queue>,
    ended: Option<oneshot::Sender<()>>,
}

impl Drop for LastWord {
    fn drop(&mut self) {
        self.queue.enter(Phase::Ended);
        if let Some(ended) = self.ended.take() {
            // the server may be gone before
            let _ = ended.send(());
        }
    }
}

impl Rounds {
    pub(crate) fn new(
        model: &LanguageModel,
        queue: Arc<Queue>,
        metrics: Metrics,
        budget: u64,
        options: &Options,
    ) -> Rounds {
        Rounds {
            queue,
            pool: Pool::new(model.clone(), &CHUNKS, budget, options.max_active),
            batch: Batch::new(model),
            max_batch: options.max_batch,
            metrics,
            capacity: model.capacity(),
            patience: options.patience,
            active: Vec::new(),
            chunks: 0,
        }
    }

    /// Answers until the queue is closed and empty, or given up.
    pub(crate) fn run(mut self, ended: oneshot::Sender<()>) {
        let _last_word = LastWord {
            queue: Arc::clone(&self.queue),
            ended: Some(ended),
        };
        loop {
            let phase = self.queue.phase();
            if phase >= Phase::GivenUp {
                for index in (0..self.active.len()).rev() {
                    self.leave(index, Some(Err(Problem::shutting_down())));
                }
                return;
            }
            self.admit();
            if self.active.is_empty() {
                if phase == Phase::Closing && self.queue.is_empty() {
                    return;
                }
                self.queue.wait(phase, true, None);
            } else if !self.round() {
                let is_waiting = self.active.iter().any(|active| active.generation.is_waiting());
                self.queue
                    .wait(phase, false, Some(if is_waiting { MASK_LOOK } else { LOOK }));
            }
        }
    }

    /// Takes jobs as long as there is room.
    fn admit(&mut self) {
        let capacity = self.capacity;
        let positions = |job: &Job| {
            let task = &job.task;
            let all = task.prompt.len().saturating_add(task.wanted.max_tokens);
            all.min(capacity)
        };
        while let Some(job) = self.queue.pop(|job| self.pool.fits(positions(job))) {
            let needed = positions(&job);
            if let Err((client, error)) = self.begin(job, needed) {
                client.end(Err(Problem::internal(error.to_string())));
                self.queue.done();
            }
        }
        self.metrics.show_kv(self.pool.bytes());
    }

    fn begin(&mut self, job: Job, positions: usize) -> Result<(), (Client, polychip_llm::Error)> {
        let Job {
            task,
            accepted,
            client,
        } = job;
        let known = if task.may_reuse { &task.prompt[..] } else { &[] };
        let (mut sequence, lease) = match self.pool.lend(task.owner, known, positions) {
            Ok(lent) => lent,
            Err(error) => return Err((client, error)),
        };
        if !task.may_reuse {
            sequence.truncate(0);
        }
        let generation = match Generation::new(sequence, &task.prompt, &task.wanted) {
            Ok(mut generation) => {
                generation.without_waiting();
                generation
            }
            Err(error) => {
                self.pool.end(&lease);
                return Err((client, error));
            }
        };
        self.active.push(Active {
            generation,
            lease,
            client,
            accepted,
            may_reuse: task.may_reuse,
            owner: task.owner,
            _holds: task.holds,
            grammar_param: task.grammar_param,
            token: None,
            held: None,
            chunk: self.chunks,
        });
        Ok(())
    }

    /// Gives each answer a step; whether anything was done.
    fn round(&mut self) -> bool {
        let mut ready = Vec::new();
        let mut done = false;
        let mut index = 0;
        while index < self.active.len() {
            let active = &mut self.active[index];
            match active.look(self.patience) {
                Left::Over(how) => {
                    self.leave(index, how);
                    done = true;
                    continue;
                }
                // an answer whose grammar takes time holds up no other one
                Left::Ready if !active.generation.is_reading() && !active.generation.is_waiting() => {
                    ready.push(index);
                }
                Left::Ready | Left::Slow => {}
            }
            index += 1;
        }
        done |= !ready.is_empty();
        self.step(&ready);
        self.read() || done
    }

    /// Gives each of these answers, in rising order, a token: as many at once as a step has room for.
    fn step(&mut self, ready: &[usize]) {
        let mut over = Vec::new();
        // an answer that must be the same to the bit takes its steps alone: in company its sums may differ in their last bits
        let (company, alone): (Vec<usize>, Vec<usize>) =
            ready.iter().partition(|index| self.active[**index].may_reuse);
        let mut rest = &company[..];
        while !rest.is_empty() {
            let size = self.batch.size(rest.len().min(self.max_batch));
            let (group, behind) = rest.split_at(size);
            over.extend(self.step_together(group));
            rest = behind;
        }
        for index in alone {
            over.extend(self.step_together(&[index]));
        }
        over.sort_by_key(|(index, _)| *index);
        for (index, how) in over.into_iter().rev() {
            self.leave(index, how);
        }
    }

    /// Gives these answers a token by one run; those that are over then, and how.
    fn step_together(&mut self, group: &[usize]) -> Vec<(usize, Option<Result<Ended, Problem>>)> {
        self.metrics.stepped(group.len());
        let members = self.active.iter_mut().enumerate();
        let mut members: Vec<_> = members.filter(|(index, _)| group.contains(index)).collect();
        let lefts: Vec<Left> = if let [(_, active)] = &mut members[..] {
            vec![active.step(1, &self.metrics)]
        } else {
            let mut answers: Vec<&mut Generation> = members
                .iter_mut()
                .map(|(_, active)| &mut active.generation)
                .collect();
            match Generation::step_together(&mut self.batch, &mut answers) {
                Ok(steps) => {
                    let members = members.iter_mut().zip(steps);
                    members
                        .map(|((_, active), step)| active.went(step, &self.metrics))
                        .collect()
                }
                Err(error) => {
                    tracing::error!("{} answers failed: {error}", group.len());
                    let failed = |_| Left::Over(Some(Err(Problem::internal(error.to_string()))));
                    members.iter().map(failed).collect()
                }
            }
        };
        let ended = members
            .iter()
            .zip(lefts)
            .filter_map(|((index, _), left)| match left {
                Left::Over(how) => Some((*index, how)),
                Left::Ready | Left::Slow => None,
            });
        ended.collect()
    }

    /// Reads of prompts as much as a round has room for, the one first that has waited longest; whether there is one.
    fn read(&mut self) -> bool {
        let mut left = CHUNK;
        loop {
            let reading = self.active.iter().enumerate();
            let next = reading
                .filter(|(_, active)| active.generation.is_reading())
                .min_by_key(|(_, active)| active.chunk);
            let Some((index, _)) = next else { break };
            self.share(index);
            let active = &mut self.active[index];
            let before = active.generation.sequence().len();
            let most = (active.generation.prompt().len() - before).min(CHUNK);
            if most > left {
                break;
            }
            self.chunks += 1;
            active.chunk = self.chunks;
            let stays = active.step(CHUNK, &self.metrics);
            let read = active.generation.sequence().len().saturating_sub(before);
            left = left.saturating_sub(read.max(LEAST));
            if let Left::Over(how) = stays {
                self.leave(index, how);
            }
        }
        left < CHUNK
    }

    /// Takes over what another answer's sequence has read of a prompt, where that is more: chats that begin the same often come
    /// at once, and the first of them reads for all.
    fn share(&mut self, index: usize) {
        let (before, rest) = self.active.split_at_mut(index);
        let Some((active, behind)) = rest.split_first_mut().filter(|(active, _)| active.may_reuse) else {
            return;
        };
        let others = before.iter().chain(behind.iter());
        let others = others.filter(|other| other.may_reuse && other.owner == active.owner);
        let others = others.map(|other| other.generation.sequence());
        let shared = |other: &&Sequence| other.shared(active.generation.prompt());
        let Some(most) = others.max_by_key(shared) else {
            return;
        };
        if shared(&most) < active.generation.sequence().len() + WORTH_A_COPY {
            return;
        }
        if let Err(error) = active.generation.take_over(most) {
            // it is read instead
            tracing::warn!("the cached prefix cannot be reused: {error}");
        }
    }

    /// Ends an answer, and keeps what its sequence holds, unless its client does not want that.
    fn leave(&mut self, index: usize, how: Option<Result<Ended, Problem>>) {
        let active = self.active.remove(index);
        let usage = active.usage();
        let (why, is_sound) = match &how {
            None => ("gone", true),
            Some(Err(problem)) => ("failed", !problem.status().is_server_error()),
            Some(Ok(ended)) => match ended.finish {
                Finish::End => ("end", true),
                Finish::Stop(_) => ("stop", true),
                Finish::Length | Finish::Room => ("length", true),
                Finish::Cancelled => ("gone", true),
            },
        };
        self.metrics.ended(why, usage);
        let Active {
            generation,
            lease,
            client,
            owner,
            may_reuse,
            ..
        } = active;
        if is_sound && may_reuse {
            self.pool.give_back(owner, generation.into_completion().0, &lease)
        } else {
            // a device that failed may have left anything in it, and some clients want nothing to be kept
            self.pool.end(&lease)
        }
        self.metrics.show_kv(self.pool.bytes());
        self.queue.done();
        if let Some(how) = how {
            client.end(how);
        }
    }
}

impl Active {
    fn usage(&self) -> Usage {
        Usage {
            prompt: self.generation.prompt().len(),
            reused: self.generation.reused_tokens(),
            answer: self.generation.tokens().len(),
        }
    }

    /// A text with the scores that belong to it.
    fn piece(&mut self, text: String) -> Piece {
        Piece {
            text,
            scores: self.generation.take_scores(),
            prompt_scores: self.generation.take_prompt_scores(),
            embedding: self.generation.take_embedding(),
        }
    }

    /// Looks after the client: whether it is there, and has read.
    fn look(&mut self, patience: Duration) -> Left {
        if self.client.is_gone() {
            return Left::Over(None);
        }
        match self.held.take() {
            None => Left::Ready,
            Some((_, since)) if since.elapsed() > patience => {
                Left::Over(Some(Err(Problem::slow_reader(patience.as_secs()))))
            }
            Some((piece, since)) => self.give(piece, since),
        }
    }

    /// Gives the client a piece, or holds it.
    fn give(&mut self, piece: Piece, since: Instant) -> Left {
        if piece.is_empty() {
            return Left::Ready;
        }
        match self.client.pieces.try_send(piece) {
            Ok(()) => Left::Ready,
            Err(TrySendError::Full(piece)) => {
                self.held = Some((piece, since));
                Left::Slow
            }
            Err(TrySendError::Closed(_)) => Left::Over(None),
        }
    }

    /// Continues with one run of its own.
    fn step(&mut self, rows: usize, metrics: &Metrics) -> Left {
        let step = self.generation.step(rows);
        self.went(step, metrics)
    }

    /// Tells the client what a step came to.
    fn went(&mut self, step: Result<Step, polychip_llm::Error>, metrics: &Metrics) -> Left {
        let step = match step {
            Ok(step) => step,
            // what the client asked for has led to this
            Err(error) if error.kind() == ErrorKind::Grammar => {
                return Left::Over(Some(Err(Problem::value(self.grammar_param, error.to_string()))));
            }
            Err(error) => {
                tracing::error!("an answer failed: {error}");
                return Left::Over(Some(Err(Problem::internal(error.to_string()))));
            }
        };
        let now = Instant::now();
        if step != Step::Read && !self.generation.tokens().is_empty() {
            match self.token.replace(now) {
                None => {
                    metrics.began(self.generation.prompt().len(), self.generation.reused_tokens());
                    metrics.first_token(now - self.accepted);
                }
                Some(before) => metrics.next_token(now - before),
            }
        }
        match step {
            Step::Read => Left::Ready,
            Step::Piece(text) => {
                let piece = self.piece(text);
                self.give(piece, now)
            }
            Step::Finished(rest) => Left::Over(Some(Ok(Ended {
                rest: self.piece(rest),
                finish: self.generation.finish().unwrap_or(Finish::Cancelled),
                usage: self.usage(),
            }))),
        }
    }
}

#[cfg(test)]
mod tests;
