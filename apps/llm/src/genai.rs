//! ONNX Runtime GenAI folders: `genai_config.json`, the ONNX graph that it names, `tokenizer.json`.
//! The graph runs as exported, with its ports replaced by those of our own graphs
//! ([`crate::build`]). Any decoder that its exporter supports is therefore supported, and weights
//! stay in the mapped file, once for all chunk sizes.
//!
//! Invariants:
//! 1. A resulting graph has no op of another domain and reads nothing but our ports; obstacles are
//!    refused by name.
//! 2. K and V are rounded to f16 before use, as in our own graphs.
//! 3. A graph depends on the length of the text only through positions and masks. A graph that asks
//!    for the length is refused, and is never given the capacity instead.
//!
//! Not here: ops of `com.microsoft` that can be written in ONNX's (`polychip_graph::onnx`), running
//! the graph (`sequence`).
//!
//! Start with [`open`], then [`Export::graph`].

mod attention;
mod conversion;
mod head;
mod positions;
mod products;
mod settings;
mod table;
mod tensors;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use polychip_graph::onnx::{self, Options};
use polychip_graph::{Graph, TensorId, infer, verify};
use polychip_host::ModelFolder;
use polychip_ops::{Dim, Op, Value};

use crate::build::draft::Draft;
use crate::build::memory::{Ports, Rows};
use crate::build::{Logits, Shape};
use crate::checkpoint::object::Object;
use crate::checkpoint::texts;
use crate::gguf::{Gguf, GgufWriter};
use crate::sizes::Sizes;
use crate::{Error, Result};
use conversion::GraphConversion;
use settings::{CONFIG, Settings};
use table::Table;

/// Number of pieces of a weight file that identify it.
const PIECES: usize = 256;

/// Symbolic dimensions that grow with the text: the number of earlier positions, and that plus the
/// rows of a chunk.
const SO_FAR: &str = "positions so far";
const IN_ALL: &str = "positions in all";

/// The folder of a path that names one: the folder itself, its configuration, or a graph in it.
pub(crate) fn folder(path: &Path) -> Option<&Path> {
    let folder = if path.is_dir() {
        path
    } else {
        let is_graph = path.extension().is_some_and(|end| end == "onnx");
        let is_config = path.file_name().is_some_and(|name| name == CONFIG);
        let parent = path.parent().filter(|_| is_graph || is_config)?;
        if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        }
    };
    folder.join(CONFIG).is_file().then_some(folder)
}

/// Refuses a path to a graph of the folder that is not the one in use.
fn refuse_other(path: &Path, settings: &Settings) -> Result<()> {
    let is_graph = path.extension().is_some_and(|end| end == "onnx") && !path.is_dir();
    let is_named = path.file_name() == Some(OsStr::new(&settings.filename));
    if is_graph && !is_named {
        Err(Error::config(format!(
            "{} is not the graph named by {CONFIG} in the same folder, which is {:?} (\"filename\"): open that file or the folder",
            path.display(),
            settings.filename
        )))
    } else {
        Ok(())
    }
}

/// Opens a folder by a path that names it: the keys of its texts, and its graph.
pub(crate) fn open(path: &Path, folder: &Path) -> Result<(Gguf, Export)> {
    let config_path = folder.join(CONFIG);
    let files = ModelFolder::open(&config_path).map_err(|source| Error::file(&config_path, source))?;
    let config = Object::parse(CONFIG, &files.bytes())?;
    let model = config.needed("model", config.object("model")?)?;
    let settings = Settings::read(&model)?;
    refuse_other(path, &settings)?;
    let vocabulary = settings.sizes.vocabulary;
    // the embedding table bounds the vocabulary, before anything is made for each of its tokens
    let export = Export::open(folder, settings)?;
    let mut header = GgufWriter::new();
    let ends = model.get(texts::ENDS).cloned();
    texts::write(folder, &model, vocabulary, ends, &mut header)?;
    let keys = Gguf::of_checkpoint(files, Bytes::from(header.finish()), Vec::new(), Vec::new())?;
    Ok((keys, export))
}

/// The graph of a folder as read, and its configuration.
#[derive(Debug)]
pub(crate) struct Export {
    settings: Settings,
    files: Arc<ModelFolder>,
    graph: Graph,
    table: Table,
    file_bytes: u64,
    /// Scales and zero points of codes, which all sizes share.
    encodings: products::Known,
}

impl Export {
    fn open(folder: &Path, settings: Settings) -> Result<Export> {
        let name = &settings.filename;
        let path = folder.join(name);
        if Path::new(name).file_name() != Some(OsStr::new(name)) {
            return Err(Error::config(format!(
                "{CONFIG}: {name:?} (\"filename\") is not the name of a file in the folder"
            )));
        }
        let files = ModelFolder::open(&path).map_err(|source| Error::file(&path, source))?;
        // the cache and the table become ours
        let mut options = Options::default();
        options.keep_decoder_ops = true;
        let graph = onnx::import(files.bytes(), &files, &options)
            .map_err(|error| Error::malformed(format!("{}: {error}", path.display())))?;
        let table = Table::find(&graph, &settings)?;
        let mut file_bytes = files.bytes().len() as u64;
        for location in graph.files.iter().filter(|location| !location.is_empty()) {
            file_bytes += std::fs::metadata(folder.join(location)).map_or(0, |file| file.len());
        }
        Ok(Export {
            settings,
            files: Arc::new(files),
            graph,
            table,
            file_bytes,
            encodings: products::Known::default(),
        })
    }

    /// Reports unsupported features of the graph, or of this capacity, before the first token is
    /// read. Tries a single row, a chunk of several with the logits of one or of all, and a step of
    /// several sequences.
    pub(crate) fn check(&self, capacity: usize) -> Result<()> {
        for (rows, logits, of) in [
            (1, Logits::Last, Rows::OfOne),
            (2, Logits::Last, Rows::OfOne),
            (2, Logits::All, Rows::OfOne),
            (2, Logits::All, Rows::OfMany),
        ] {
            let shape = Shape {
                rows,
                capacity,
                logits,
            };
            self.graph(shape, of)?;
        }
        Ok(())
    }

    pub(crate) fn sizes(&self) -> Sizes {
        self.settings.sizes
    }

    /// The folder's name for its kind of model.
    pub(crate) fn kind(&self) -> &str {
        &self.settings.kind
    }

    /// Bytes of the graph and its weight files.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Hashes the graph and pieces of the files beside it, to identify the weights.
    pub(crate) fn identify(&self, hasher: &mut blake3::Hasher) -> Result<()> {
        hasher.update(&self.files.bytes());
        let mut piece = [0; 4096];
        for location in self.graph.files.iter().filter(|location| !location.is_empty()) {
            let whole = self.files.open_external(location);
            let whole = whole
                .map_err(|source| Error::file(Path::new(location), source))?
                .len();
            hasher.update(format!("{location} {whole}").as_bytes());
            let step = (whole / PIECES).max(piece.len());
            for start in (0..whole).step_by(step) {
                let piece = &mut piece[..(whole - start).min(4096)];
                let read = self.files.read_external_at(location, start, piece);
                read.map_err(|source| Error::file(Path::new(location), source))?;
                hasher.update(piece);
            }
        }
        Ok(())
    }

    /// The graph's file and its folder, in the form that devices request.
    pub(crate) fn files(&self) -> Arc<ModelFolder> {
        Arc::clone(&self.files)
    }

    /// Writes the embedding of a token of the vocabulary.
    pub(crate) fn embed(&self, token: u32, out: &mut [f32]) -> Result<()> {
        self.table
            .row(&self.files, &self.graph.files, token as usize, out)
    }

    /// The graph of this shape, with our ports.
    pub(crate) fn graph(&self, shape: Shape, of: Rows) -> Result<Graph> {
        let wrong = |error: polychip_graph::Error| self.wrong(&error);
        let mut graph = self.graph.clone();
        graph.name = format!("{} {} rows", self.settings.kind, shape.rows);
        graph.groups.clear();
        graph.states.clear();
        self.bind(&mut graph, shape)?;
        let logits = self.output(&graph, &self.settings.logits)?;
        let pasts = self.settings.pasts(&graph)?;
        let ids = graph.input_named(&self.settings.input_ids);
        let ids = ids.ok_or_else(|| {
            Error::config(format!(
                "the graph has no input {:?}, which {CONFIG} names",
                self.settings.input_ids
            ))
        })?;
        let placed = graph.input_named(&self.settings.position_ids);
        graph.inputs.clear();
        graph.outputs.clear();
        let mut draft = Draft::over(graph);
        let width = self.settings.sizes.embedding as usize;
        let (embedded, ports) = Ports::add(&mut draft, shape, of, width);
        let mut conversion = GraphConversion {
            settings: &self.settings,
            shape,
            ports,
            draft,
        };
        self.table
            .cut(&mut conversion.draft, ids, embedded, shape.rows, width)?;
        let kept = attention::replace(&mut conversion, &pasts, placed)?;
        if let Some(placed) = placed {
            let positions = conversion.ports.positions;
            conversion.draft.graph_mut().replace_uses(placed, positions);
        }
        let mut graph = conversion.draft.finish();
        graph.outputs.push(logits);
        graph.outputs.extend(kept.iter().flatten());
        graph.remove_dead();
        graph.sort().map_err(wrong)?;
        fold_known(&mut graph).map_err(wrong)?;
        refuse_custom(&graph)?;
        refuse_unfed(&graph)?;
        positions::check(&graph, shape.capacity)?;
        let (mut graph, chosen) = head::last_rows(graph, shape);
        graph.sort().map_err(wrong)?;
        infer(&mut graph).map_err(wrong)?;
        let mut graph = head::choose(graph, shape, self.settings.sizes.vocabulary as usize, chosen)?;
        graph.sort().map_err(wrong)?;
        infer(&mut graph).map_err(wrong)?;
        let mut graph = products::blocks(graph, &self.encodings)?;
        graph.sort().map_err(wrong)?;
        infer(&mut graph).map_err(wrong)?;
        let mut graph = head::give(graph, shape, self.settings.sizes.vocabulary as usize)?;
        graph.remove_dead();
        graph.sort().map_err(wrong)?;
        infer(&mut graph).map_err(wrong)?;
        refuse_unfed(&graph)?;
        verify(&graph).map_err(wrong)?;
        Ok(graph)
    }

    fn wrong(&self, error: &polychip_graph::Error) -> Error {
        Error::malformed(format!("{}: {error}", self.settings.filename))
    }

    fn output(&self, graph: &Graph, name: &str) -> Result<TensorId> {
        graph
            .output_named(name)
            .ok_or_else(|| Error::config(format!("the graph has no output {name:?}, which {CONFIG} names")))
    }

    /// Gives numbers to the open sizes of the inputs: one sequence, its rows. Lengths that grow
    /// with the text get none: the capacity is not the text's length, so ops that ask for it must
    /// stay visible.
    fn bind(&self, graph: &mut Graph, shape: Shape) -> Result<()> {
        let all = shape.capacity + shape.rows;
        let sizes = self.settings.sizes;
        // what the graph's names of sizes mean; one that means several sizes says nothing
        let mut names: BTreeMap<Arc<str>, Dim> = BTreeMap::new();
        let mut shapes = Vec::with_capacity(graph.inputs.len());
        for &input in &graph.inputs {
            let tensor = graph.tensor(input);
            let dims = tensor.ty.shape.as_deref().unwrap_or_default();
            let meant = match tensor.name.as_str() {
                name if name == self.settings.input_ids || name == self.settings.position_ids => {
                    vec![(1, None), (shape.rows, None)]
                }
                name if name == self.settings.attention_mask => vec![(1, None), (all, Some(IN_ALL))],
                _ if dims.len() == 4 => vec![
                    (1, None),
                    (sizes.kv_heads as usize, None),
                    (shape.capacity, Some(SO_FAR)),
                    (sizes.head_size as usize, None),
                ],
                _ => continue,
            };
            if dims.len() != meant.len() {
                return Err(Error::config(format!(
                    "input {:?} of the graph has {} dimensions instead of {}",
                    tensor.name,
                    dims.len(),
                    meant.len()
                )));
            }
            let mut bound = Vec::with_capacity(meant.len());
            for (dim, (size, length)) in dims.iter().zip(meant) {
                let means = length.map_or(Dim::Known(size), Dim::symbol);
                match dim {
                    Dim::Symbol(name) => {
                        let known = names.entry(Arc::clone(name)).or_insert_with(|| means.clone());
                        if *known != means {
                            *known = Dim::Unknown;
                        }
                    }
                    Dim::Known(known) if *known != size => {
                        return Err(Error::unsupported(format!(
                            "input {:?} of the graph has {known} where {size} is needed: sizes must be open",
                            tensor.name
                        )));
                    }
                    _ => {}
                }
                bound.push(means);
            }
            shapes.push((input, bound));
        }
        let ids: Vec<TensorId> = graph.tensors().map(|(id, _)| id).collect();
        for id in ids {
            for dim in graph.tensor_mut(id).ty.shape.iter_mut().flatten() {
                if let Dim::Symbol(name) = dim
                    && let Some(meaning) = names.get(name)
                {
                    *dim = meaning.clone();
                }
            }
        }
        for (input, shape) in shapes {
            graph.tensor_mut(input).ty.shape = Some(shape);
        }
        Ok(())
    }
}

/// Runs inference and folds what is then known: sizes of inputs that are not our ports.
fn fold_known(graph: &mut Graph) -> std::result::Result<(), polychip_graph::Error> {
    let values = infer(graph)?;
    for id in graph.node_ids() {
        let &[Some(output)] = &graph.node(id).outputs[..] else {
            continue;
        };
        let Some(Value::Literal(literal)) = values.get(output) else {
            continue;
        };
        if graph.is_output(output) {
            continue;
        }
        let constant = polychip_graph::Constant::from_literal(literal);
        let name = graph.tensor(output).name.clone();
        let made = polychip_graph::Tensor::constant(name, literal.ty(), constant);
        let made = graph.add_tensor(made);
        graph.replace_uses(output, made);
    }
    graph.remove_dead();
    graph.sort()?;
    infer(graph)?;
    Ok(())
}

fn refuse_custom(graph: &Graph) -> Result<()> {
    match graph.nodes().find(|(_, node)| node.op == Op::Custom) {
        Some((_, node)) => Err(Error::unsupported(format!(
            "node {:?} of the graph is {}, which is not supported{}",
            node.name,
            node.label(),
            match &*node.op_name {
                "MatMulNBits" =>
                    ": supported are constant weights of 4 or 8 bits in whole blocks, with integer zero points",
                _ => "",
            }
        ))),
        None => Ok(()),
    }
}

/// Refuses a graph that reads more than our ports.
fn refuse_unfed(graph: &Graph) -> Result<()> {
    for (_, node) in graph.nodes() {
        for read in node.reads() {
            let tensor = graph.tensor(read);
            if graph.producer(read).is_none() && !tensor.is_constant() && !graph.is_input(read) {
                let (name, label, read) = (&node.name, node.label(), &tensor.name);
                return Err(Error::unsupported(match node.op {
                    Op::Shape | Op::Size => format!(
                        "node {name:?} ({label}) of the graph reads the length of {read:?}, which grows with the text: this is not supported"
                    ),
                    _ => format!(
                        "node {name:?} ({label}) of the graph reads {read:?} in a way that is not supported"
                    ),
                }));
            }
        }
    }
    Ok(())
}
