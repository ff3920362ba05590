//! A language model, ready to be run: its file, what the file says, and a session per size of chunk.
//!
//! Invariants:
//! 1. Sessions of all sizes share one set of packed weights where their device shares it (the CPU does).
//! 2. A session is planned when a chunk of its size is first run.
//!
//! Not here: memory of keys and values (`sequence`), choice of tokens (`sampler`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use polychip::{Policy, Runtime, Session};

use crate::build::{self, Angles, Logits, Shape};
use crate::gguf::Gguf;
use crate::sequence::Sequence;
use crate::{ChatTemplate, Config, Error, Result, TokenId, Tokenizer};

/// Sizes of chunks, the largest first: a prompt is cut into as few of them as leave little of the last one unused.
const LADDER: [usize; 5] = [512, 128, 32, 8, 1];

/// Positions that a memory of keys and values has room for where nobody says: fewer where the model knows fewer.
const DEFAULT_CAPACITY: usize = 4096;

/// How a model is run.
#[derive(Clone, Debug)]
pub struct Options {
    runtime: Option<Runtime>,
    policy: Policy,
    capacity: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            runtime: None,
            policy: Policy::latency(),
            capacity: None,
        }
    }
}

impl Options {
    /// The defaults: a runtime of its own, the shortest time, room for 4096 positions or as many as the model knows.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Runs on the devices of this runtime.
    #[must_use]
    pub fn runtime(mut self, runtime: &Runtime) -> Options {
        self.runtime = Some(runtime.clone());
        self
    }

    /// Plans every phase by this policy.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Options {
        self.policy = policy;
        self
    }

    /// Positions, of prompt and answer together, that a sequence has room for.
    #[must_use]
    pub fn capacity(mut self, positions: usize) -> Options {
        self.capacity = Some(positions);
        self
    }
}

/// A language model. Clones share it.
///
/// ```no_run
/// use polychip_llm::{LanguageModel, Options, Specials};
///
/// let model = LanguageModel::open("model.gguf", Options::new())?;
/// let prompt = model.tokenizer().encode_prompt("Once upon a time", Specials::AsText)?;
/// let mut sequence = model.sequence()?;
/// let logits = sequence.append(&prompt)?; // one per token of the vocabulary
/// # Ok::<(), polychip_llm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LanguageModel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    file: Gguf,
    config: Config,
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    runtime: Runtime,
    policy: Policy,
    capacity: usize,
    angles: Angles,
    sessions: Mutex<BTreeMap<(usize, bool), Arc<Session>>>,
}

impl LanguageModel {
    /// Maps a GGUF file and reads what it says; plans nothing yet.
    ///
    /// # Errors
    /// The file is not sound, needs what is not supported, or the room asked for is more than the model knows positions.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<LanguageModel> {
        let path = path.as_ref();
        LanguageModel::of(path, Gguf::open(path)?, options)
    }

    /// As [`LanguageModel::open`], of a file in memory that messages call `name`.
    ///
    /// # Errors
    /// As [`LanguageModel::open`].
    pub fn of(name: impl Into<PathBuf>, file: Gguf, options: Options) -> Result<LanguageModel> {
        let config = Config::read(&file)?;
        let tokenizer = Tokenizer::read(&file)?;
        let template = ChatTemplate::read(&file, &tokenizer)?;
        let known = config.context as usize;
        let capacity = options.capacity.unwrap_or(known.min(DEFAULT_CAPACITY));
        if capacity == 0 || capacity > known {
            return Err(Error::config(format!(
                "room for {capacity} positions is asked for: the model knows 1 to {known}"
            )));
        }
        let runtime = match options.runtime {
            Some(runtime) => runtime,
            None => Runtime::builder().build().map_err(Error::run)?,
        };
        let angles = Angles::new(&file, &config, capacity)?;
        Ok(LanguageModel(Arc::new(Inner {
            path: name.into(),
            file,
            config,
            tokenizer,
            template,
            runtime,
            policy: options.policy,
            capacity,
            angles,
            sessions: Mutex::default(),
        })))
    }

    /// The file, or the name that it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Gguf {
        &self.0.file
    }

    /// Its hyper-parameters.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Its vocabulary.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.0.tokenizer
    }

    /// Its chat template, where it has one.
    #[must_use]
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.0.template.as_ref()
    }

    /// Positions that a sequence has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// The runtime that it runs on.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// An empty sequence of tokens, with memory for keys and values of its own.
    ///
    /// # Errors
    /// No memory is left.
    pub fn sequence(&self) -> Result<Sequence> {
        Sequence::new(self.clone())
    }

    /// The sessions that were planned so far, with the tokens of their chunks.
    #[must_use]
    pub fn sessions(&self) -> Vec<(usize, Arc<Session>)> {
        let sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions
            .iter()
            .map(|((rows, _), session)| (*rows, Arc::clone(session)))
            .collect()
    }

    /// Plans and compiles the sessions that a prompt of so many tokens and its answer need, so that no later call waits
    /// for that.
    ///
    /// # Errors
    /// A device refused, or no device runs some node.
    pub fn prepare(&self, prompt: usize) -> Result<()> {
        let mut left = prompt;
        while left > 0 {
            let rows = rung(left);
            self.session(rows, Logits::Last)?;
            left = left.saturating_sub(rows);
        }
        self.session(1, Logits::Last)?;
        Ok(())
    }

    /// Whether it is the same model, not another one of the same file.
    pub(crate) fn is(&self, other: &LanguageModel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The session of chunks of this many tokens.
    pub(crate) fn session(&self, rows: usize, logits: Logits) -> Result<Arc<Session>> {
        let inner = &*self.0;
        // held while a session is planned: who wants the same one waits for it
        let mut sessions = inner.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (rows, logits == Logits::All);
        if let Some(session) = sessions.get(&key) {
            return Ok(Arc::clone(session));
        }
        let shape = Shape {
            rows,
            capacity: inner.capacity,
            logits,
        };
        let graph = build::graph(&inner.file, &inner.config, &inner.angles, shape)?;
        let name = format!("{} ({rows} tokens)", inner.path.display());
        let model = inner.runtime.load_graph_over(&name, graph, inner.file.folder());
        let session = inner
            .runtime
            .session(&model, inner.policy.clone())
            .map_err(Error::run)?;
        let session = Arc::new(session);
        sessions.insert(key, Arc::clone(&session));
        Ok(session)
    }

    /// The embedding of a token.
    pub(crate) fn embed(&self, token: TokenId, out: &mut [f32]) -> Result<()> {
        let inner = &*self.0;
        if token >= inner.config.vocabulary {
            return Err(Error::tokenizer(format!(
                "token {token} is beyond the vocabulary of {} tokens",
                inner.config.vocabulary
            )));
        }
        let name = "token_embd.weight";
        let table = inner
            .file
            .tensor(name)
            .ok_or_else(|| Error::config(format!("tensor {name:?} is missing")))?;
        let blocks = out.len() / table.kind().block_len();
        inner.file.read_weights(&table, token as usize * blocks, out)
    }
}

/// The size of the next chunk of a text of `left` tokens, which may be more than that.
pub(crate) fn rung(left: usize) -> usize {
    // a rung that would be filled by three quarters takes less time than the smaller ones would
    let fills = |rows: &&usize| left * 4 >= **rows * 3;
    LADDER.iter().find(fills).copied().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_into_few_chunks() {
        let cut = |mut left: usize| {
            let mut rungs = Vec::new();
            while left > 0 {
                rungs.push(rung(left));
                left = left.saturating_sub(rungs[rungs.len() - 1]);
            }
            rungs
        };
        assert_eq!(cut(1), [1]);
        assert_eq!(cut(7), [8]);
        assert_eq!(cut(30), [32]);
        assert_eq!(cut(130), [128, 1, 1]);
        assert_eq!(cut(1000), [512, 512]);
    }
}
