//! A loaded language model: its file, its hyper-parameters, and a session per chunk size.
//!
//! Invariants:
//! 1. Sessions of all sizes share one set of packed weights where their device supports it (the CPU
//!    does).
//! 2. A session is planned when a chunk of its size first runs.
//!
//! Not here: the KV cache (`sequence`), choice of tokens (`sampler`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use polychip::{Device, Policy, Precision, Runtime, Session};

use crate::build::memory::Rows;
use crate::build::{self, Angles, Logits, Shape, Source};
use crate::chunk::{SessionKey, rung};
use crate::genai::Export;
use crate::gguf::Gguf;
use crate::kv_cache::KvCache;
use crate::precision::PrecisionChoice;
use crate::prefill_decode::Phases;
use crate::sizes::Sizes;
use crate::{Adapter, ChatTemplate, Config, Error, Result, TokenId, Tokenizer, checkpoint, genai};

/// Default capacity of a KV cache in positions; smaller if the model supports fewer.
const DEFAULT_CAPACITY: usize = 4096;

/// Bytes at the beginning and at the end of a tensor that identify it: training changes all of a
/// tensor.
const ENDS: usize = 256;

/// Settings for running a model.
#[derive(Clone, Debug)]
pub struct Options {
    runtime: Option<Runtime>,
    policy: Policy,
    precision: Option<Precision>,
    capacity: Option<usize>,
    most: usize,
    adapters: Vec<Adapter>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            runtime: None,
            policy: Policy::latency(),
            precision: None,
            capacity: None,
            most: DEFAULT_CAPACITY,
            adapters: Vec::new(),
        }
    }
}

impl Options {
    /// Returns the defaults: a runtime of its own, least latency, the precision that
    /// [`Options::auto_precision`] chooses, and room for 4096 positions or the model's maximum if
    /// smaller.
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

    /// Plans every session by this policy. A policy of reduced precision also sets the precision.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Options {
        self.policy = policy;
        self
    }

    /// Computes in this precision.
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Options {
        self.precision = Some(precision);
        self
    }

    /// Chooses the precision by measured error (the default): reduced precision if the mean
    /// Kullback-Leibler divergence of its distributions of the next token from the exact ones is at
    /// most 0.005. Measured on a fixed text of 32 tokens before the first session is planned;
    /// [`LanguageModel::precision`] tells the choice.
    #[must_use]
    pub fn auto_precision(mut self) -> Options {
        self.precision = None;
        self.policy = self.policy.precision(Precision::Exact);
        self
    }

    /// Sets a sequence's capacity in positions, for prompt and answer together.
    #[must_use]
    pub fn capacity(mut self, positions: usize) -> Options {
        self.capacity = Some(positions);
        self
    }

    /// Sets the capacity like [`Options::capacity`], reduced to the model's maximum if that is
    /// smaller.
    #[must_use]
    pub fn capacity_up_to(mut self, positions: usize) -> Options {
        self.capacity = None;
        self.most = positions;
        self
    }

    /// Adds a LoRA adapter; several add up.
    #[must_use]
    pub fn adapter(mut self, adapter: Adapter) -> Options {
        self.adapters.push(adapter);
        self
    }
}

/// A loaded language model. Clones share it.
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
#[derive(Clone)]
pub struct LanguageModel(Arc<Inner>);

impl std::fmt::Debug for LanguageModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LanguageModel")
            .field("path", &self.0.path)
            .field("sizes", &self.0.sizes)
            .finish_non_exhaustive()
    }
}

/// What graphs are made of.
enum Graphs {
    /// The weights of a file.
    Weights {
        config: Box<Config>,
        angles: Angles,
        adapters: Vec<Adapter>,
    },
    /// An exported graph.
    Export(Box<Export>),
}

struct Inner {
    path: PathBuf,
    /// The model's file; for an exported graph only the keys of its texts.
    file: Gguf,
    sizes: Sizes,
    graphs: Graphs,
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    runtime: Runtime,
    /// As given; its precision counts only if it was requested.
    policy: Policy,
    /// The precision, and the policy that has it.
    chosen: OnceLock<(PrecisionChoice, Policy)>,
    capacity: usize,
    sessions: Mutex<BTreeMap<SessionKey, Arc<Session>>>,
    /// Where chunks run, with prefill and decode placement.
    phases: Mutex<Option<Arc<Phases>>>,
    /// Devices, with chunk sizes, whose results matched the reference's.
    right: Mutex<BTreeSet<(String, usize)>>,
    /// The first graph: all share its weights.
    first: OnceLock<polychip::Model>,
    /// KV caches of its sequences.
    caches: Mutex<Vec<Weak<dyn KvCache>>>,
}

impl LanguageModel {
    /// Maps and checks a GGUF file, a safetensors folder with its `config.json` and
    /// `tokenizer.json`, or an ONNX Runtime GenAI folder with its `genai_config.json`. Plans
    /// nothing yet.
    ///
    /// # Errors
    /// The file is malformed or unsupported, or the requested capacity exceeds the positions that
    /// the model supports.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<LanguageModel> {
        let path = path.as_ref();
        if let Some(folder) = genai::folder(path) {
            let (file, export) = genai::open(path, folder)?;
            if let Some(adapter) = options.adapters.first() {
                return Err(Error::unsupported(format!(
                    "adapter {}: adapters for exported graphs are not supported",
                    adapter.path().display()
                )));
            }
            let sizes = export.sizes();
            return LanguageModel::over(path.into(), file, sizes, options, |_, capacity| {
                export.check(capacity)?;
                Ok(Graphs::Export(Box::new(export)))
            });
        }
        let file = match checkpoint::folder(path) {
            Some(folder) => checkpoint::open(folder)?,
            None => Gguf::open(path)?,
        };
        LanguageModel::of(path, file, options)
    }

    /// Creates a model from a file in memory, like [`LanguageModel::open`]; error messages call it
    /// `name`.
    ///
    /// # Errors
    /// As [`LanguageModel::open`].
    pub fn of(name: impl Into<PathBuf>, file: Gguf, options: Options) -> Result<LanguageModel> {
        let config = Config::read(&file)?;
        let sizes = Sizes {
            layers: config.layers,
            embedding: config.embedding,
            kv_heads: config.kv_heads,
            head_size: config.head_size,
            context: config.context,
            vocabulary: config.vocabulary,
        };
        let adapters = options.adapters.clone();
        LanguageModel::over(name.into(), file, sizes, options, |file, capacity| {
            let angles = Angles::new(file, &config, capacity)?;
            for adapter in &adapters {
                adapter.check(file, &config)?;
            }
            Ok(Graphs::Weights {
                config: Box::new(config),
                angles,
                adapters,
            })
        })
    }

    /// Creates a model with the capacity that the options request.
    fn over(
        path: PathBuf,
        file: Gguf,
        sizes: Sizes,
        options: Options,
        graphs: impl FnOnce(&Gguf, usize) -> Result<Graphs>,
    ) -> Result<LanguageModel> {
        let tokenizer = Tokenizer::read(&file)?;
        let template = ChatTemplate::read(&file, &tokenizer)?;
        let known = sizes.context as usize;
        let capacity = options.capacity.unwrap_or(known.min(options.most));
        if capacity == 0 || capacity > known {
            return Err(Error::config(format!(
                "a context length of {capacity} is not possible: the model supports 1 to {known}"
            )));
        }
        let runtime = match options.runtime {
            Some(runtime) => runtime,
            None => Runtime::builder().build().map_err(Error::run)?,
        };
        let graphs = graphs(&file, capacity)?;
        let reduced = (!options.policy.is_exact()).then_some(Precision::Reduced);
        let chosen = match options.precision.or(reduced) {
            Some(precision) => {
                let policy = options.policy.clone().precision(precision);
                OnceLock::from((PrecisionChoice::requested(precision), policy))
            }
            None => OnceLock::new(),
        };
        Ok(LanguageModel(Arc::new(Inner {
            path,
            file,
            sizes,
            graphs,
            tokenizer,
            template,
            runtime,
            policy: options.policy,
            chosen,
            capacity,
            sessions: Mutex::default(),
            phases: Mutex::default(),
            right: Mutex::default(),
            first: OnceLock::new(),
            caches: Mutex::default(),
        })))
    }

    /// Path of the file, or the name given to [`LanguageModel::of`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The model's file. For an exported graph, it holds only the metadata of the vocabulary and the
    /// chat template.
    #[must_use]
    pub fn file(&self) -> &Gguf {
        &self.0.file
    }

    /// Size in bytes of all files of the model, without separate files of its vocabulary and chat
    /// template.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        match &self.0.graphs {
            Graphs::Weights { .. } => self.0.file.file_bytes(),
            Graphs::Export(export) => export.file_bytes(),
        }
    }

    /// The adapters in use.
    #[must_use]
    pub fn adapters(&self) -> &[Adapter] {
        match &self.0.graphs {
            Graphs::Weights { adapters, .. } => adapters,
            Graphs::Export(_) => &[],
        }
    }

    /// Hyper-parameters; `None` for an exported graph, which does not state them.
    #[must_use]
    pub fn config(&self) -> Option<&Config> {
        match &self.0.graphs {
            Graphs::Weights { config, .. } => Some(config),
            Graphs::Export(_) => None,
        }
    }

    /// The model's sizes.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        self.0.sizes
    }

    /// The tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.0.tokenizer
    }

    /// The chat template, if the model has one.
    #[must_use]
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.0.template.as_ref()
    }

    /// Capacity of a sequence in positions.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// The runtime it runs on.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// The sessions planned so far, with their chunk sizes in tokens.
    #[must_use]
    pub fn sessions(&self) -> Vec<(usize, Arc<Session>)> {
        let sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions
            .iter()
            .map(|(key, session)| (key.rows, Arc::clone(session)))
            .collect()
    }

    /// The policy it is planned by; before the precision is chosen, as it was given.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.0
            .chosen
            .get()
            .map_or(self.given_policy(), |(_, policy)| policy)
    }

    /// The policy as it was given.
    pub(crate) fn given_policy(&self) -> &Policy {
        &self.0.policy
    }

    /// The precision it computes in, and why. Chooses it by a measurement if none was requested and
    /// no session was planned yet ([`Options::auto_precision`]).
    pub fn precision(&self) -> &PrecisionChoice {
        &self.chosen().0
    }

    fn chosen(&self) -> &(PrecisionChoice, Policy) {
        self.0.chosen.get_or_init(|| {
            let choice = self.measure_precision();
            let policy = self.0.policy.clone().precision(choice.precision);
            (choice, policy)
        })
    }

    /// The devices that its policy allows.
    pub(crate) fn devices(&self) -> Result<Vec<Device>> {
        self.0.runtime.devices_of(&self.0.policy).map_err(Error::run)
    }

    pub(crate) fn phases(&self) -> Option<Arc<Phases>> {
        let phases = self.0.phases.lock().unwrap_or_else(PoisonError::into_inner);
        phases.clone()
    }

    /// Records that a device's chunks of this size matched the reference's.
    pub(crate) fn keep_right(&self, device: &str, rows: usize) {
        let mut right = self.0.right.lock().unwrap_or_else(PoisonError::into_inner);
        right.insert((device.to_owned(), rows));
    }

    pub(crate) fn is_right(&self, device: &str, rows: usize) -> bool {
        let right = self.0.right.lock().unwrap_or_else(PoisonError::into_inner);
        right.iter().any(|(known, of)| known == device && *of == rows)
    }

    pub(crate) fn set_phases(&self, phases: Option<Arc<Phases>>) {
        *self.0.phases.lock().unwrap_or_else(PoisonError::into_inner) = phases;
    }

    /// Fingerprint of what changes the times of chunks, except devices: the file, the capacity, and
    /// the policy.
    pub(crate) fn phase_fingerprint(&self) -> String {
        let inner = &*self.0;
        let exact = match self.precision().precision {
            Precision::Exact => "exact",
            Precision::Reduced => "reduced",
        };
        let threads = inner
            .policy
            .thread_limit()
            .map_or("all".to_owned(), |n| n.to_string());
        let adapters: String = self
            .adapters()
            .iter()
            .map(|adapter| format!(", adapter {}", adapter.path().display()))
            .collect();
        let kind = match &inner.graphs {
            Graphs::Weights { config, .. } => config.architecture.to_string(),
            Graphs::Export(export) => format!("{} as a graph", export.kind()),
        };
        format!(
            "{kind}: {} bytes, {} layers of {}, vocabulary {}, room {}, {exact}, threads {threads}{adapters}",
            self.file_bytes(),
            inner.sizes.layers,
            inner.sizes.embedding,
            inner.sizes.vocabulary,
            inner.capacity
        )
    }

    /// Hash of what the KV cache depends on: the weights (by the beginning and end of each tensor),
    /// the adapters, and the precision.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn identity(&self) -> Result<blake3::Hash> {
        let inner = &*self.0;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[u8::from(self.precision().precision == Precision::Exact)]);
        match &inner.graphs {
            Graphs::Weights { config, adapters, .. } => {
                // what the keys say of angles, norms and heads
                hasher.update(format!("{config:?}").as_bytes());
                for tensor in inner.file.tensors() {
                    hasher.update(
                        format!("{} {:?} {:?}", tensor.name(), tensor.kind(), tensor.dims()).as_bytes(),
                    );
                    let bytes = tensor.bytes();
                    let ends = bytes.len().min(ENDS);
                    hasher.update(&bytes[..ends]).update(&bytes[bytes.len() - ends..]);
                }
                for adapter in adapters {
                    adapter.identify(&mut hasher);
                }
            }
            Graphs::Export(export) => export.identify(&mut hasher)?,
        }
        Ok(hasher.finalize())
    }

    /// Bytes that a device's sessions keep, where all sizes share weights, and its mean power in
    /// milliwatts if plans know it; `None` if the device has no session.
    pub(crate) fn held_by(&self, device: &str) -> Option<(u64, Option<f64>)> {
        let sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let own: Vec<&Arc<Session>> = sessions
            .iter()
            .filter(|(key, _)| key.device.as_deref() == Some(device))
            .map(|(_, session)| session)
            .collect();
        let mut power = None;
        let (mut constants, mut rest) = (0, 0);
        for session in &own {
            let report = session.report();
            constants = constants.max(report.parts.iter().map(|part| part.constant_bytes).sum());
            rest += report
                .parts
                .iter()
                .map(|part| part.intermediate_bytes)
                .sum::<u64>();
            if let Some(plan) = session.plan()
                && let Some(energy) = plan.totals.energy
                && report.predicted_ns > 0
            {
                // microjoules by nanoseconds are kilowatts
                power = Some(energy.microjoules() as f64 / report.predicted_ns as f64 * 1e6);
            }
        }
        (!own.is_empty()).then_some((constants + rest, power))
    }

    /// Time on the runtime's clock in nanoseconds; 0 before the first session.
    pub(crate) fn now_ns(&self) -> u64 {
        let sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.values().next().map_or(0, |session| session.now_ns())
    }

    /// Plans and compiles the sessions for a prompt of `prompt` tokens and its answer, so that no
    /// later call waits for it.
    ///
    /// # Errors
    /// A device refused a part, or no device runs some node.
    pub fn prepare(&self, prompt: usize) -> Result<()> {
        let session = |rows: usize, device: Option<&str>| {
            self.session(&SessionKey {
                rows,
                logits: Logits::Last,
                is_step: false,
                device: device.map(str::to_owned),
            })
        };
        if let (Some(plan), Some(phases)) = (self.phase_plan(prompt.max(1), 1), self.phases()) {
            let plan = plan?;
            for chunk in &plan.prompt {
                session(chunk.rows, Some(phases.name(chunk.device)))?;
            }
            for &device in plan.allowed.iter().filter(|&&device| phases.answers(device)) {
                session(1, Some(phases.name(device)))?;
            }
            return Ok(());
        }
        let mut left = prompt;
        while left > 0 {
            let rows = rung(left);
            session(rows, None)?;
            left = left.saturating_sub(rows);
        }
        session(1, None)?;
        Ok(())
    }

    /// Counts the KV cache of a sequence among the model's.
    pub(crate) fn add_cache(&self, cache: Weak<dyn KvCache>) {
        let mut caches = self.0.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.retain(|known| known.strong_count() > 0);
        caches.push(cache);
    }

    /// The KV caches of its sequences.
    pub(crate) fn caches(&self) -> Vec<Arc<dyn KvCache>> {
        let caches = self.0.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether both are the same model instance, not only the same file.
    pub(crate) fn is(&self, other: &LanguageModel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the model can give the hidden states of a text, as [`Sequence::embedding`](crate::Sequence::embedding)
    /// needs them: an exported graph cannot.
    #[must_use]
    pub fn has_hidden_states(&self) -> bool {
        matches!(self.0.graphs, Graphs::Weights { .. })
    }

    /// The session for chunks of this many tokens, on one device or planned over all.
    pub(crate) fn session(&self, key: &SessionKey) -> Result<Arc<Session>> {
        let policy = &self.chosen().1;
        // held while a session is planned: who wants the same one waits for it
        let mut sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get(key) {
            return Ok(Arc::clone(session));
        }
        let session = self.plan(key, policy.clone())?;
        sessions.insert(key.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// Plans a session for chunks of this many tokens.
    pub(crate) fn plan(&self, key: &SessionKey, mut policy: Policy) -> Result<Arc<Session>> {
        let inner = &*self.0;
        let rows = key.rows;
        let shape = Shape {
            rows,
            capacity: inner.capacity,
            logits: key.logits,
        };
        let (graph, files) = match &inner.graphs {
            Graphs::Weights {
                config,
                angles,
                adapters,
            } => {
                let source = Source {
                    file: &inner.file,
                    config,
                    angles,
                    adapters,
                };
                let graph = if key.is_step {
                    build::step(source, rows)?
                } else {
                    build::graph(source, shape)?
                };
                (graph, inner.file.folder())
            }
            Graphs::Export(_) if key.logits == Logits::Hidden => {
                return Err(Error::unsupported(format!(
                    "{} has no embeddings: its exported graph outputs logits, not hidden states",
                    inner.path.display()
                )));
            }
            Graphs::Export(export) => {
                let of = if key.is_step { Rows::OfMany } else { Rows::OfOne };
                (export.graph(shape, of)?, export.files())
            }
        };
        let of = if key.is_step { "sequences" } else { "tokens" };
        let name = format!("{} ({rows} {of})", inner.path.display());
        let model = inner.runtime.load_graph_over(&name, graph, files);
        let model = match inner.first.get() {
            Some(first) => model.sharing_weights_with(first),
            None => inner.first.get_or_init(|| model).clone(),
        };
        if let Some(device) = &key.device {
            policy = policy.devices([device.as_str()]);
        }
        let session = inner.runtime.session(&model, policy).map_err(Error::run)?;
        Ok(Arc::new(session))
    }

    /// Writes the embedding of a token.
    pub(crate) fn embed(&self, token: TokenId, out: &mut [f32]) -> Result<()> {
        let inner = &*self.0;
        if token >= inner.sizes.vocabulary {
            return Err(Error::tokenizer(format!(
                "token {token} exceeds the vocabulary of {} tokens",
                inner.sizes.vocabulary
            )));
        }
        if let Graphs::Export(export) = &inner.graphs {
            return export.embed(token, out);
        }
        let name = "token_embd.weight";
        let table = inner
            .file
            .tensor(name)
            .ok_or_else(|| Error::config(format!("tensor {name:?} is missing")))?;
        let blocks = out.len() / table.kind().block_len();
        inner.file.read_weights(&table, token as usize * blocks, out)?;
        if let Graphs::Weights { config, .. } = &inner.graphs
            && config.embedding_scale != 1.0
        {
            out.iter_mut().for_each(|value| *value *= config.embedding_scale);
        }
        Ok(())
    }
}
