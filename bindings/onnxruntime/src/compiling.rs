//! Making compiled models, and sessions from them.
//!
//! Invariants:
//! 1. The session that writes a compiled model runs exactly what it writes: it is made from it, as
//!    a later session of the compiled model is.
//! 2. A session of a compiled model plans and compiles nothing, except for sizes without a plan in
//!    the model, or for stale content if the option `stale-context` allows it, with a warning.
//! 3. A file with compiled content is complete or absent.
//!
//! Not here: the file format (`saved`), ONNX Runtime's nodes (`compiled`), detection of stale
//! content (`polychip`).

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use polychip::Precompiled;

use crate::NAME;
use crate::api::Api;
use crate::compiled::{self, OwnNode, Value};
use crate::failure::{Failure, Result};
use crate::fused::{Fused, Making, PortMapping, names};
use crate::options::ContextOptions;
use crate::ort::{Graph, Node};
use crate::read::{Nodes, unranked};
use crate::saved::{self, Content, Part, Plan, Saved};
use crate::source::Source;

/// Compiled content of one ONNX Runtime graph.
pub(crate) struct Made {
    pub(crate) fused: Box<Fused>,
    /// Content for the compiled model, if one is made.
    part: Option<Part>,
}

/// Nodes of one call of ONNX Runtime's: what was read for one of them is there for the others.
pub(crate) struct Compiling<'a> {
    api: Api,
    options: &'a ContextOptions,
    /// Files that nodes name.
    files: BTreeMap<PathBuf, Saved>,
    /// The files of the model that is compiled, once they are asked for.
    source: OnceCell<Option<Source>>,
}

impl<'a> Compiling<'a> {
    pub(crate) fn new(api: Api, options: &'a ContextOptions) -> Compiling<'a> {
        Compiling {
            api,
            options,
            files: BTreeMap::new(),
            source: OnceCell::new(),
        }
    }

    /// The files of the model that holds this graph, if their constants are used there.
    pub(crate) fn source(&self, graph: Graph<'_>) -> Result<Option<&Source>> {
        if self.options.copies_constants {
            return Ok(None);
        }
        let path = graph.model_path()?;
        let source = self.source.get_or_init(|| {
            let path = Some(path).filter(|path| !path.as_os_str().is_empty())?;
            Source::open(&path)
        });
        Ok(source.as_ref())
    }

    /// Makes a session for a set of nodes, and the content of the compiled model if one is made.
    pub(crate) fn made(&self, making: Making, whole: Nodes, node: Node<'_>) -> Result<Made> {
        let places = PortMapping::of(node)?;
        if !self.options.is_made {
            let fused = Box::new(Fused::new(making, whole, places, &[])?);
            return Ok(Made { fused, part: None });
        }
        let made = self.precompiled(&making, &whole)?;
        let plans = made.iter().map(Plan::new).collect::<Result<_>>()?;
        let part = Part::new(&making.name, names(node)?, whole.model.clone(), plans);
        let fused = Box::new(Fused::new(making, whole, places, &made)?);
        Ok(Made {
            fused,
            part: Some(part),
        })
    }

    /// Plans a model and compiles its parts, for its sizes or, if some are open, for those of the option.
    fn precompiled(&self, making: &Making, whole: &Nodes) -> Result<Vec<Precompiled>> {
        if !unranked(&whole.model).is_empty() {
            making.log.warning(&format!(
                "{}: the compiled model holds no plan for it: how many sizes its inputs have is not known before a run",
                making.name
            ));
            return Ok(Vec::new());
        }
        let model = whole.clone().load(&making.runtime, &making.name)?;
        let open = model.open_dims();
        if open.is_empty() {
            return Ok(vec![making.runtime.precompile(&model, &making.policy, &[])?]);
        }
        let mut all: Vec<Vec<(&str, usize)>> = Vec::new();
        for sizes in &self.options.sizes {
            let of_name = |name: &'_ String| sizes.get(name).copied();
            let sizes: Option<Vec<(&str, usize)>> = open
                .iter()
                .map(|name| Some((name.as_str(), of_name(name)?)))
                .collect();
            // two lists may differ in sizes alone that are not this model's
            all.extend(sizes.filter(|sizes| !all.contains(sizes)));
        }
        if all.is_empty() {
            making.log.warning(&format!(
                "{}: the compiled model holds no plan for it: its sizes ({}) are not known before a run; the option \
                 context-sizes gives some to plan for",
                making.name,
                open.join(", ")
            ));
        }
        let made = all
            .iter()
            .map(|sizes| making.runtime.precompile(&model, &making.policy, sizes));
        Ok(made.collect::<polychip::Result<_>>()?)
    }

    /// A session of a node of a compiled model. `graph` is the fused node's.
    pub(crate) fn restored(
        &mut self,
        making: Making,
        graph: Graph<'_>,
        inner: Node<'_>,
        node: Node<'_>,
    ) -> Result<Made> {
        if self.options.is_made {
            return Err(Failure::argument(
                "the model is already compiled: compile its source model, or omit ep.context_enable",
            ));
        }
        let stated = compiled::stated(inner)?;
        let embedded;
        let saved = if stated.is_embedded {
            embedded = saved::read(Content::Embedded(Bytes::from(stated.content)))?;
            &embedded
        } else {
            let folder = self.folder(graph)?;
            let (file, mapped) = compiled::opened(&folder, &stated.content)?;
            let saved = match self.files.remove(&file) {
                Some(saved) => saved,
                None => {
                    let content = if self.options.copies_constants {
                        Content::copied(&mapped)
                    } else {
                        Ok(Content::Mapped(mapped))
                    };
                    content.and_then(saved::read).map_err(|failure| Failure {
                        words: format!("the file {}: {}", file.display(), failure.words),
                        ..failure
                    })?
                }
            };
            if stated.notes != notes(&saved.hash) {
                return Err(Failure::new(format!(
                    "the file {} is not the one that was made with this compiled model: bring that one, or compile the model again",
                    file.display()
                )));
            }
            &*self.files.entry(file).or_insert(saved)
        };
        let part = saved.parts.iter().find(|part| part.name == stated.partition);
        let part = part.ok_or_else(|| {
            Failure::new(format!(
                "the compiled content has no part {:?}; compile the model again",
                stated.partition
            ))
        })?;
        let places = PortMapping::of(node)?.renamed(inner, &part.inputs, &part.outputs)?;
        let made: Result<Vec<Precompiled>> = part.plans.iter().map(Plan::precompiled).collect();
        let first =
            made.and_then(|made| Fused::new(making.clone(), saved.nodes(part)?, places.clone(), &made));
        let fused = match first {
            Ok(fused) => fused,
            Err(failure) if part.plans.is_empty() => return Err(failure),
            Err(failure) if self.options.replans => {
                making.log.warning(&format!(
                    "{}: {}; it is planned and compiled anew, as the option stale-context says",
                    making.name, failure.words
                ));
                Fused::new(making, saved.nodes(part)?, places, &[])?
            }
            Err(failure) => {
                return Err(Failure {
                    words: format!(
                        "{} (with the option stale-context=replan this session plans and compiles anew)",
                        failure.words
                    ),
                    ..failure
                });
            }
        };
        Ok(Made {
            fused: Box::new(fused),
            part: None,
        })
    }

    /// The folder of a compiled model, which holds the file with its content.
    fn folder(&self, graph: Graph<'_>) -> Result<PathBuf> {
        let path = graph.model_path()?;
        let path = if path.as_os_str().is_empty() {
            self.options.file.clone()
        } else {
            Some(path)
        };
        let path = path.ok_or_else(|| {
            Failure::argument(
                "the compiled model came from memory, but its content is in a file beside it: set ep.context_file_path to \
                 the model's path",
            )
        })?;
        Ok(path.parent().unwrap_or(Path::new("")).to_owned())
    }

    /// The nodes of the compiled model, in the place of the fused ones, in their order.
    pub(crate) fn nodes(&self, made: &[Made], graphs: &[(Graph<'_>, Node<'_>)]) -> Result<Vec<OwnNode>> {
        let parts: Vec<&Part> = made.iter().filter_map(|made| made.part.as_ref()).collect();
        let beside = if self.options.embeds || parts.is_empty() {
            None
        } else {
            Some(self.beside(&parts, graphs)?)
        };
        let mut nodes = Vec::with_capacity(made.len());
        for (made, (graph, fused)) in made.iter().zip(graphs) {
            let Some(part) = &made.part else {
                continue;
            };
            let embedded;
            let (content, hash) = match &beside {
                Some((name, hash)) => (name.as_bytes(), hash),
                None => {
                    let mut bytes = Vec::new();
                    let hash = saved::write(&[part], &mut bytes)?;
                    embedded = (bytes, hash);
                    (&embedded.0[..], &embedded.1)
                }
            };
            let model = graph.model_path()?;
            let model = model
                .file_name()
                .map(|name| name.to_string_lossy())
                .unwrap_or_default();
            let devices = made.fused.devices();
            let attributes = [
                ("main_context", Value::Int(1)),
                ("embed_mode", Value::Int(i64::from(self.options.embeds))),
                ("ep_cache_context", Value::Bytes(content)),
                (
                    "ep_sdk_version",
                    Value::Bytes(env!("CARGO_PKG_VERSION").as_bytes()),
                ),
                ("partition_name", Value::Bytes(part.name.as_bytes())),
                ("hardware_architecture", Value::Bytes(devices.as_bytes())),
                ("onnx_model_filename", Value::Bytes(model.as_bytes())),
                ("notes", Value::Bytes(&notes(hash).into_bytes())),
            ];
            nodes.push(OwnNode::new(self.api, *fused, &attributes)?);
        }
        Ok(nodes)
    }

    /// Writes the file beside the compiled model, and returns its name.
    fn beside(&self, parts: &[&Part], graphs: &[(Graph<'_>, Node<'_>)]) -> Result<(String, saved::Hash)> {
        let source = match graphs.first() {
            Some((graph, _)) => graph.model_path()?,
            None => PathBuf::new(),
        };
        let model = match &self.options.file {
            Some(file) => file.clone(),
            None if source.as_os_str().is_empty() => {
                return Err(Failure::argument(
                    "the model came from memory, so there is no path for its compiled content: set ep.context_file_path, or \
                     ep.context_embed_mode to 1",
                ));
            }
            // what ONNX Runtime calls the compiled model
            None => {
                let stem = source.file_stem().unwrap_or_default().to_string_lossy();
                source.with_file_name(format!("{stem}_ctx.onnx"))
            }
        };
        let stem = model.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{stem}_{}.bin", NAME.to_string_lossy());
        let file = model.with_file_name(&name);
        // written to another name and renamed, so that no reader sees a partial or changing file
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let count = WRITES.fetch_add(1, Ordering::Relaxed);
        let aside = file.with_extension(format!("{}-{count}.part", std::process::id()));
        let failed =
            |error: std::io::Error| Failure::new(format!("compiled content cannot be written: {error}"));
        let write = || -> Result<saved::Hash> {
            let mut out = BufWriter::new(File::create(&aside).map_err(failed)?);
            let hash = saved::write(parts, &mut out)?;
            out.into_inner().map_err(|error| failed(error.into_error()))?;
            std::fs::rename(&aside, &file).map_err(failed)?;
            Ok(hash)
        };
        match write() {
            Ok(hash) => Ok((name, hash)),
            Err(failure) => {
                let _ = std::fs::remove_file(&aside);
                Err(Failure {
                    words: format!("{}: {}", file.display(), failure.words),
                    ..failure
                })
            }
        }
    }
}

/// Note of a node about its content.
fn notes(hash: &saved::Hash) -> String {
    format!("blake3 {hash}")
}
