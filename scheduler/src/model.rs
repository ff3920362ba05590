//! A model in canonical form, with its weights still in the mapped file.
//!
//! Invariants:
//! 1. Sessions of one model share its graph and weights.
//! 2. They also share what a device has loaded of it if device, nodes and settings are equal:
//!    packed weights are in memory once.
//! 3. Binding a dimension makes a new model and leaves the old one unchanged.
//! 4. Models for the sizes of a session's runs derive from one canonical graph and share its
//!    constants: constants are folded once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use polychip_graph::fingerprint::{self, ConstantHashes};
use polychip_graph::{Graph, TensorId, onnx};
use polychip_host::{Device, Executable, ModelFolder, WeakExecutable};
use polychip_partitioner::Part;

use crate::error::{Error, ErrorKind, Result};
use crate::loaded_part::{LoadedPart, PartMemory, WeightGroup};
use crate::model_format;
use crate::policy::Settings;

/// Size from which on a constant is hashed from its file, in bytes.
const READ_APART: usize = 64 << 10;

/// The hash of a range of a file.
fn hash_of(files: &ModelFolder, name: &str, offset: u64, bytes: usize) -> std::io::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut block = vec![0; bytes.min(1 << 20)];
    let mut done = 0;
    while done < bytes {
        let block = &mut block[..(1 << 20).min(bytes - done)];
        files.read_range(name, offset + done as u64, block)?;
        hasher.update(block);
        done += block.len();
    }
    Ok(hasher.finalize().into())
}

/// A model, ready to be planned. Clones share it.
#[derive(Debug, Clone)]
pub struct Model(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    graph: Graph,
    /// None where the graph was made here.
    files: Option<Arc<ModelFolder>>,
    /// How the graph was read from the files; none where it was made otherwise.
    source: Option<onnx::Options>,
    /// Hashes of constants, as far as its maker knows them.
    hashes: Arc<ConstantHashes>,
    /// The canonical graphs where sizes are open still, which those with sizes are made of: with weights of 16 bits widened, and as they are.
    canonical: [OnceLock<Graph>; 2],
    loaded: Mutex<Vec<SharedPart>>,
    /// Shared by the models that have the same constants.
    weights: Arc<WeightGroup>,
}

impl Inner {
    fn new(path: PathBuf, graph: Graph, files: Option<Arc<ModelFolder>>) -> Inner {
        Inner {
            path,
            graph,
            files,
            source: None,
            hashes: Arc::default(),
            canonical: Default::default(),
            loaded: Mutex::default(),
            weights: Arc::default(),
        }
    }
}

/// A loaded part that sessions share.
#[derive(Debug)]
struct SharedPart {
    /// Node count of its graph: canonical graphs of a model differ by the Casts of weights that stay.
    of: usize,
    nodes: Vec<u32>,
    settings: Settings,
    executable: WeakExecutable,
    structure: [u8; 32],
    cached: bool,
    memory: Weak<PartMemory>,
}

impl Model {
    pub(crate) fn load(path: &Path) -> Result<Model> {
        let files = ModelFolder::open(path).map_err(|error| {
            let foreign = path.is_dir().then(|| model_format::of(path, &[])).flatten();
            foreign.map_or_else(
                || Error::file(path, error),
                |words| Error::new(ErrorKind::BadModel, words),
            )
        })?;
        Model::read(path, files)
    }

    /// A model in memory, which messages call by this name.
    pub(crate) fn of_bytes(name: &str, bytes: Bytes) -> Result<Model> {
        Model::read(Path::new(name), ModelFolder::of_bytes(bytes))
    }

    /// A model inside an open file, which messages call by this name.
    pub(crate) fn of_file(name: &str, file: std::fs::File, offset: u64, len: Option<u64>) -> Result<Model> {
        let name = Path::new(name);
        let files = ModelFolder::of_file(file, offset, len).map_err(|error| Error::file(name, error))?;
        Model::read(name, files)
    }

    fn read(path: &Path, files: ModelFolder) -> Result<Model> {
        let options = onnx::Options::default();
        let graph = onnx::import(files.bytes(), &files, &options).map_err(|error| {
            if let Err(truncated) = files.check() {
                return Error::new(ErrorKind::Io, truncated);
            }
            match model_format::of(path, &files.bytes()) {
                Some(words) => Error::new(ErrorKind::BadModel, words),
                None => bad_model(path, error),
            }
        })?;
        files.check().map_err(|error| Error::new(ErrorKind::Io, error))?;
        for warning in &graph.warnings {
            tracing::warn!("{}: {warning}", path.display());
        }
        let inner = Inner::new(path.to_owned(), graph, Some(Arc::new(files)));
        Ok(Model(Arc::new(Inner {
            source: Some(options),
            ..inner
        })))
    }

    /// How the graph was read from its file; none where it was made otherwise.
    pub(crate) fn source(&self) -> Option<onnx::Options> {
        self.0.source.clone()
    }

    /// The model read from its file again, otherwise.
    pub(crate) fn reread(&self, options: onnx::Options) -> Result<Model> {
        let files = self.0.files.clone();
        let files = files.ok_or_else(|| Error::new(ErrorKind::BadInput, "the model has no file"))?;
        let graph = onnx::import(files.bytes(), &*files, &options).map_err(|error| self.bad(error))?;
        let inner = Inner::new(self.0.path.clone(), graph, Some(files));
        Ok(Model(Arc::new(Inner {
            weights: Arc::clone(&self.0.weights),
            source: Some(options),
            ..inner
        })))
    }

    /// A changed graph of the same file.
    pub(crate) fn changed(&self, graph: Graph) -> Model {
        let inner = Inner::new(self.0.path.clone(), graph, self.0.files.clone());
        Model(Arc::new(Inner {
            source: self.0.source.clone(),
            hashes: Arc::clone(&self.0.hashes),
            weights: Arc::clone(&self.0.weights),
            ..inner
        }))
    }

    /// A graph made here, as a model of this name; it holds its constants itself.
    pub(crate) fn made(name: &str, graph: Graph) -> Model {
        Model(Arc::new(Inner::new(PathBuf::from(name), graph, None)))
    }

    /// A graph made here over the bytes of a file, as a model of this name.
    pub(crate) fn made_over(name: &str, graph: Graph, files: Arc<ModelFolder>) -> Model {
        Model(Arc::new(Inner::new(PathBuf::from(name), graph, Some(files))))
    }

    /// A graph made here whose constants have known hashes; they may lie in files.
    pub(crate) fn made_hashed(
        name: &str,
        graph: Graph,
        files: Option<Arc<ModelFolder>>,
        hashes: Arc<ConstantHashes>,
    ) -> Model {
        let inner = Inner::new(PathBuf::from(name), graph, files);
        Model(Arc::new(Inner { hashes, ..inner }))
    }

    /// The hash of the structure and constants of a graph made of this model's.
    pub(crate) fn content(&self, graph: &Graph) -> [u8; 32] {
        fingerprint::content_with(graph, &self.0.hashes)
    }

    /// As [`content`](Model::content), with the hashes of large constants from their files: read through a mapping, they
    /// would count towards the process's memory. Each is read once for all models of the same constants.
    pub(crate) fn content_from_files(&self, graph: &Graph) -> [u8; 32] {
        let Some(files) = self.0.files.as_ref().filter(|_| self.0.hashes.is_empty()) else {
            return self.content(graph);
        };
        // held while they are read: who wants the same ones waits for them
        let mut hashes = self.0.weights.hashes();
        for constant in graph.tensors().filter_map(|(_, tensor)| tensor.data.as_ref()) {
            let name = constant
                .file
                .and_then(|slice| Some((graph.files.get(slice.file as usize)?, slice.offset)));
            if let Some((name, offset)) = name
                && constant.bytes.len() >= READ_APART
                && !hashes.contains(&constant.bytes)
                && let Ok(hash) = hash_of(files, name, offset, constant.bytes.len())
            {
                hashes.add(constant.bytes.clone(), hash);
            }
        }
        fingerprint::content_with(graph, &hashes)
    }

    /// A graph that was cut out of this model, as a model of its own; its constants stay where they are.
    pub(crate) fn part(&self, name: &str, graph: Graph) -> Model {
        let inner = Inner::new(PathBuf::from(name), graph, self.0.files.clone());
        Model(Arc::new(Inner {
            weights: Arc::clone(&self.0.weights),
            ..inner
        }))
    }

    /// The same model, in the account of memory one with `other`: say so of graphs made of the same weights, which a
    /// device may share between them. Otherwise shared weights count for the first graph alone, and no longer once its
    /// session is parked.
    #[must_use]
    pub fn sharing_weights_with(self, other: &Model) -> Model {
        let own = &*self.0;
        let inner = Inner::new(own.path.clone(), own.graph.clone(), own.files.clone());
        Model(Arc::new(Inner {
            source: own.source.clone(),
            hashes: Arc::clone(&own.hashes),
            weights: Arc::clone(&other.0.weights),
            ..inner
        }))
    }

    /// The file that the model was read from, or the name it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The graph as imported: one opset, shapes inferred, nothing optimized.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.0.graph
    }

    /// The file's metadata: versions, producer, properties.
    ///
    /// # Errors
    /// The file is no longer an ONNX model.
    pub fn header(&self) -> Result<onnx::Header> {
        let bytes = self.0.files.as_ref().map(|files| files.bytes());
        onnx::read_header(bytes.unwrap_or_default()).map_err(|error| self.bad(error))
    }

    /// Names of the dimensions without a size.
    #[must_use]
    pub fn open_dims(&self) -> Vec<String> {
        polychip_graph::dim_names(&self.0.graph)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// The model with sizes for named dimensions.
    ///
    /// # Errors
    /// The model has no such dimension, or a size breaks a shape rule.
    pub fn bind<S: Into<String>>(&self, dims: impl IntoIterator<Item = (S, usize)>) -> Result<Model> {
        let dims: BTreeMap<String, usize> =
            dims.into_iter().map(|(name, size)| (name.into(), size)).collect();
        if dims.is_empty() {
            return Ok(self.clone());
        }
        let graph = self.with_sizes(&self.0.graph, &dims)?;
        Ok(self.changed(graph))
    }

    /// The model with these internal tensors as further outputs, after its own, for inspection.
    /// Existing outputs keep their place.
    ///
    /// This changes the computation: nodes whose result is kept are not fused with later ones, and
    /// no pass replaces them.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), polychip::Error> {
    /// # let runtime = polychip::Runtime::builder().build()?;
    /// let model = runtime.load("net.onnx")?.with_outputs(["/layer3/conv/Conv_output_0"])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// No node of the model's outermost graph produces a tensor of this name.
    pub fn with_outputs<N: AsRef<str>>(&self, tensors: impl IntoIterator<Item = N>) -> Result<Model> {
        let mut graph = self.0.graph.clone();
        let made: BTreeMap<&str, TensorId> = self
            .0
            .graph
            .nodes()
            .flat_map(|(_, node)| node.writes())
            .map(|id| (&*self.0.graph.tensor(id).name, id))
            .collect();
        for name in tensors {
            let name = name.as_ref();
            let Some(&id) = made.get(name) else {
                let words = format!("{}: no node produces a tensor {name:?}", self.0.path.display());
                return Err(Error::new(ErrorKind::BadInput, words));
            };
            if !graph.is_output(id) {
                graph.outputs.push(id);
            }
        }
        Ok(self.changed(graph))
    }

    /// The model with sizes for all its open dimensions, for a session that makes many such. `canonical` brings a graph
    /// into canonical form.
    pub(crate) fn specialised(
        &self,
        sizes: &BTreeMap<String, usize>,
        keep_halves: bool,
        canonical: impl FnOnce() -> Result<Graph>,
    ) -> Result<Model> {
        let open = self.open_canonical(keep_halves, canonical)?;
        let graph = self.with_sizes(open, sizes)?;
        let inner = Inner::new(self.0.path.clone(), graph, self.0.files.clone());
        Ok(Model(Arc::new(Inner {
            hashes: Arc::clone(&self.0.hashes),
            weights: Arc::clone(&self.0.weights),
            ..inner
        })))
    }

    /// The canonical graph with its sizes open, in which weights of 16 bits stay so or not. `canonical` brings a graph into that form.
    pub(crate) fn open_canonical(
        &self,
        keep_halves: bool,
        canonical: impl FnOnce() -> Result<Graph>,
    ) -> Result<&Graph> {
        let kept = &self.0.canonical[usize::from(keep_halves)];
        match kept.get() {
            Some(open) => Ok(open),
            None => {
                let made = canonical()?;
                Ok(kept.get_or_init(|| made))
            }
        }
    }

    fn with_sizes(&self, graph: &Graph, sizes: &BTreeMap<String, usize>) -> Result<Graph> {
        let mut graph = graph.clone();
        polychip_graph::bind_dims(&mut graph, sizes)
            .map_err(|error| Error::caused(ErrorKind::BadInput, self.0.path.display(), error))?;
        Ok(graph)
    }

    /// The loaded parts that may share weights with this model's.
    pub(crate) fn weights(&self) -> &Arc<WeightGroup> {
        &self.0.weights
    }

    /// Refuses a model if another process truncated its mapped files.
    pub(crate) fn check_files(&self) -> Result<()> {
        let files = self.0.files.as_ref();
        let checked = files.map_or(Ok(()), |files| files.check());
        checked.map_err(|error| Error::new(ErrorKind::Io, error))
    }

    /// Descriptors of the model's files, for devices that map them.
    pub(crate) fn descriptors(&self, graph: &Graph) -> Vec<i64> {
        let files = self.0.files.as_ref();
        files.map_or_else(Vec::new, |files| files.descriptors(&graph.files))
    }

    /// A part of its canonical graph that another session has loaded on this device.
    pub(crate) fn loaded(
        &self,
        device: &Device,
        graph: &Graph,
        part: &Part,
        settings: Settings,
    ) -> Option<LoadedPart> {
        let (of, index) = (graph.nodes().count(), part.device);
        let mut loaded = self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        // executables that are let go of here may end their device's last work
        let held: Vec<Option<Executable>> = loaded.iter().map(|kept| kept.executable.upgrade()).collect();
        let mut alive = held.iter().map(Option::is_some);
        let found = loaded.iter().zip(&held).find_map(|(kept, executable)| {
            let executable = executable.as_ref()?;
            let part = kept.of == of && kept.nodes == part.nodes;
            let same = part && kept.settings == settings && executable.is_of(device);
            let memory = kept.memory.upgrade().filter(|_| same && !executable.is_void())?;
            Some(LoadedPart {
                device: index,
                executable: executable.clone(),
                structure: kept.structure,
                cached: kept.cached,
                blob: None,
                memory,
            })
        });
        loaded.retain(|_| alive.next().unwrap_or(false));
        drop(loaded);
        found
    }

    /// Lets other sessions find a loaded part; one whose blob is kept for a reset stays with its session.
    pub(crate) fn share(&self, graph: &Graph, part: &Part, settings: Settings, loaded: &LoadedPart) {
        if loaded.blob.is_some() {
            return;
        }
        let kept = SharedPart {
            of: graph.nodes().count(),
            nodes: part.nodes.clone(),
            settings,
            executable: loaded.executable.downgrade(),
            structure: loaded.structure,
            cached: loaded.cached,
            memory: Arc::downgrade(&loaded.memory),
        };
        let mut all = self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(kept);
    }

    /// An error about this model.
    pub(crate) fn bad(&self, error: polychip_graph::Error) -> Error {
        bad_model(&self.0.path, error)
    }
}

fn bad_model(path: &Path, error: polychip_graph::Error) -> Error {
    Error::caused(ErrorKind::BadModel, path.display(), error)
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use polychip_graph::{Constant, FileSlice, Node, Tensor};
    use polychip_ops::{Attr, Attributes, DType, Op, TensorType};

    use super::*;
    use crate::{Policy, Runtime};

    #[test]
    fn sessions_with_equal_settings_share_loaded_parts() {
        let mut graph = Graph::new("relu");
        let mut add = |name| graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[4])));
        let (x, y) = (add("x"), add("y"));
        graph.add_node(Node::new(Op::Relu, vec![Some(x)], vec![Some(y)]));
        (graph.inputs, graph.outputs) = (vec![x], vec![y]);
        let model = Model::made("relu", graph);
        let runtime = Runtime::builder().only_given_folders().build().unwrap();
        let policy = Policy::latency().threads(1);
        let planned = runtime.plan(&model, &policy).unwrap();
        let (part, device) = (&planned.plan().parts[0], &planned.devices()[0]);
        let found = |policy: &Policy| {
            model
                .loaded(device, planned.graph(), part, policy.settings())
                .is_some()
        };
        assert!(!found(&policy));
        let one = runtime.session(&model, policy.clone()).unwrap();
        assert!(found(&policy) && !found(&Policy::latency().threads(2)));
        let other = runtime.session(&model, policy.clone()).unwrap();
        drop(one);
        assert!(found(&policy), "the other session holds it");
        drop(other);
        assert!(!found(&policy), "no session holds it");
    }

    #[test]
    fn constants_hashed_from_their_file_give_the_same_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        let content: Vec<u8> = (0..3 * READ_APART + 20).map(|at| (at * at % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let files = Arc::new(ModelFolder::open(&path).unwrap());
        let mut graph = Graph::new("sum");
        graph.files = vec![String::new()];
        let mut last = graph.add_tensor(Tensor::new("x", TensorType::known(DType::U8, &[1])));
        graph.inputs = vec![last];
        // a large one, one that begins within it, and a small one
        for (name, offset, len) in [
            ("a", 4, 2 * READ_APART),
            ("b", READ_APART, READ_APART + 8),
            ("c", 9, 16),
        ] {
            let mut weights = Tensor::new(name, TensorType::known(DType::U8, &[len]));
            weights.data = Some(Constant {
                bytes: files.bytes().slice(offset..offset + len),
                file: Some(FileSlice {
                    file: 0,
                    offset: offset as u64,
                }),
            });
            let weights = graph.add_tensor(weights);
            let sum = graph.add_tensor(Tensor::new(
                format!("{name}.sum"),
                TensorType::known(DType::U8, &[len]),
            ));
            graph.add_node(Node::new(
                Op::Add,
                vec![Some(last), Some(weights)],
                vec![Some(sum)],
            ));
            last = sum;
        }
        graph.outputs = vec![last];
        let model = Model::made_over("sum", graph.clone(), files);
        let expected = fingerprint::content(&graph);
        assert_eq!(model.content_from_files(&graph), expected);
        assert!(!model.0.weights.hashes().is_empty());
        // known by now
        assert_eq!(model.content_from_files(&graph), expected);
        let made = Model::made("sum", graph.clone());
        assert_eq!(made.content_from_files(&graph), expected);
    }

    #[test]
    fn sessions_with_16_bit_and_widened_weights_share_nothing() {
        let mut graph = Graph::new("layers");
        let known = |name: &str, dtype, dims: &[usize]| Tensor::new(name, TensorType::known(dtype, dims));
        let x = graph.add_tensor(known("x", DType::F32, &[2, 128]));
        let mut last = x;
        for layer in 0..3 {
            let bytes: Vec<u8> = (0..128 * 128)
                .flat_map(|i| half::f16::from_f32(((i * 7 + layer) % 13) as f32 / 64.0 - 0.09).to_le_bytes())
                .collect();
            let weights = polychip_graph::Constant::new(Bytes::from(bytes));
            let ty = TensorType::known(DType::F16, &[128, 128]);
            let stored = graph.add_tensor(Tensor::constant(format!("w{layer}"), ty, weights));
            let mut add =
                |name: &str, dims| graph.add_tensor(known(&format!("{name}{layer}"), DType::F32, dims));
            let (wide, product, y) = (add("wide", &[128, 128]), add("p", &[2, 128]), add("y", &[2, 128]));
            let mut cast = Node::new(Op::Cast, vec![Some(stored)], vec![Some(wide)]);
            cast.attributes = Attributes::new().with_int(Attr::To, DType::F32.code().into());
            graph.add_node(cast);
            graph.add_node(Node::new(
                Op::MatMul,
                vec![Some(last), Some(wide)],
                vec![Some(product)],
            ));
            graph.add_node(Node::new(Op::Relu, vec![Some(product)], vec![Some(y)]));
            last = y;
        }
        (graph.inputs, graph.outputs) = (vec![x], vec![last]);
        let model = Model::made("layers", graph);
        let runtime = Runtime::builder().only_given_folders().build().unwrap();
        let whole = Policy::latency().threads(1);
        let cut = whole.clone().longest_part(std::time::Duration::from_nanos(1));
        let casts = |policy: &Policy| {
            let planned = runtime.plan(&model, policy).unwrap();
            let nodes = planned.graph().nodes();
            nodes.filter(|(_, node)| node.op == Op::Cast).count()
        };
        assert_eq!((casts(&whole), casts(&cut)), (3, 0));
        let values: Vec<f32> = (0..256).map(|i| (i % 17) as f32 / 8.0 - 1.0).collect();
        let run = |session: &crate::Session| {
            let mut input = session.input("x").unwrap();
            input.write(&values).unwrap();
            let pending = session.submit(&[&input]).unwrap();
            let outputs = pending.wait(std::time::Duration::from_secs(60)).unwrap();
            outputs.at(0).unwrap().values::<f32>().unwrap().to_vec()
        };
        let (plain, other) = (
            runtime.plan(&model, &whole).unwrap(),
            runtime.plan(&model, &cut).unwrap(),
        );
        let (part, device) = (&plain.plan().parts[0], &plain.devices()[0]);
        let settings = whole.settings();
        let one = runtime.session(&model, whole).unwrap();
        // nodes of the same numbers are others in the other graph
        assert!(model.loaded(device, plain.graph(), part, settings).is_some());
        assert!(model.loaded(device, other.graph(), part, settings).is_none());
        let other = runtime.session(&model, cut).unwrap();
        let (expected, given) = (run(&one), run(&other));
        assert!(expected.iter().any(|value| *value != 0.0));
        assert_eq!(given, expected);
    }

    #[test]
    fn internal_tensors_become_outputs_of_a_new_model() {
        let mut graph = Graph::new("two");
        let mut add = |name| graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[2])));
        let (x, inside, y) = (add("x"), add("inside"), add("y"));
        graph.add_node(Node::new(Op::Neg, vec![Some(x)], vec![Some(inside)]));
        graph.add_node(Node::new(Op::Relu, vec![Some(inside)], vec![Some(y)]));
        (graph.inputs, graph.outputs) = (vec![x], vec![y]);
        let model = Model::made("two", graph);
        let kept = model.with_outputs(["inside", "y"]).unwrap();
        assert_eq!((model.graph().outputs.len(), kept.graph().outputs.len()), (1, 2));
        let error = model.with_outputs(["x"]).unwrap_err().to_string();
        assert_eq!(error, "two: no node produces a tensor \"x\"");

        let runtime = Runtime::builder().only_given_folders().build().unwrap();
        let session = runtime.session(&kept, Policy::latency().threads(1)).unwrap();
        let mut input = session.input("x").unwrap();
        input.write(&[1.0f32, -2.0]).unwrap();
        let outputs = session
            .submit(&[&input])
            .unwrap()
            .wait(std::time::Duration::from_secs(60))
            .unwrap();
        let values = |name| outputs.get(name).unwrap().values::<f32>().unwrap().to_vec();
        assert_eq!((values("inside"), values("y")), (vec![-1.0, 2.0], vec![0.0, 2.0]));
    }
}
