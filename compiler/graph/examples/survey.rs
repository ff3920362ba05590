//! Imports every model below the given folders and says which fail, and where the inferred shape of an
//! output is not that of the data beside the model (`test_data_set_*/output_*.pb`).
//!
//! `cargo run -p polychip-graph --example survey -- DIR...`; with `VERBOSE` set, a line per model.

#![allow(clippy::print_stdout)] // a report is what it is for

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use polychip_graph::onnx::{self, ExternalData, Options};
use polychip_graph::{Container, Graph};
use polychip_ops::{Dim, Op};

struct Folder(PathBuf);

impl ExternalData for Folder {
    fn open(&self, location: &str) -> std::io::Result<Bytes> {
        Ok(Bytes::from(std::fs::read(self.0.join(location))?))
    }
}

fn main() {
    let mut models = Vec::new();
    for root in std::env::args().skip(1) {
        collect(Path::new(&root), &mut models);
    }
    models.sort();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for path in &models {
        let name = path.display();
        let folder = path.parent().unwrap_or(Path::new(".")).to_path_buf();
        let bytes = match std::fs::read(path) {
            Ok(bytes) => Bytes::from(bytes),
            Err(error) => {
                println!("{name}: {error}");
                continue;
            }
        };
        let mut options = Options::default();
        options.declared = false;
        match onnx::import(bytes, &Folder(folder.clone()), &options) {
            Ok(graph) => {
                let custom: Vec<String> = graph
                    .nodes()
                    .filter(|(_, node)| node.op == Op::Custom)
                    .map(|(_, node)| node.label())
                    .collect();
                if !custom.is_empty() {
                    *counts.entry("with custom ops".to_owned()).or_default() += 1;
                    println!("{name}: custom ops {}", custom.join(" "));
                }
                let open = graph
                    .tensors()
                    .filter(|(_, tensor)| tensor.ty.sizes().is_none())
                    .count();
                if open > 0 {
                    *counts.entry("with tensors of open size".to_owned()).or_default() += 1;
                }
                if std::env::var_os("VERBOSE").is_some() {
                    println!(
                        "{name}: {} nodes, {open} of {} tensors of open size",
                        graph.node_count(),
                        graph.tensor_count()
                    );
                }
                let verdict = outputs(&graph, &folder, &name.to_string());
                *counts.entry(verdict.to_owned()).or_default() += 1;
            }
            Err(error) => {
                println!("{name}: {:?}: {error}", error.kind());
                *counts
                    .entry(format!("import fails: {:?}", error.kind()))
                    .or_default() += 1;
            }
        }
    }
    println!("{} models", models.len());
    for (verdict, count) in counts {
        println!("{count:6} {verdict}");
    }
}

/// How the inferred outputs compare with the data.
fn outputs(graph: &Graph, folder: &Path, name: &str) -> &'static str {
    let mut verdict = "imported, no data to compare";
    for (index, &id) in graph.outputs.iter().enumerate() {
        let tensor = graph.tensor(id);
        if tensor.container != Container::Tensor {
            continue;
        }
        let Ok(bytes) = std::fs::read(folder.join(format!("test_data_set_0/output_{index}.pb"))) else {
            continue;
        };
        let Ok((_, data)) = onnx::read_tensor(&bytes) else {
            println!("{name}: output {index} of the data is no tensor");
            continue;
        };
        if verdict == "imported, no data to compare" {
            verdict = "imported, outputs as the data";
        }
        let shape = tensor.ty.shape.clone();
        let known = shape
            .as_ref()
            .is_some_and(|shape| shape.iter().all(|dim| matches!(dim, Dim::Known(_))));
        let sizes = tensor.ty.sizes().unwrap_or_default();
        let fits = tensor.typed
            && tensor.ty.dtype == data.dtype
            && shape.as_ref().is_none_or(|shape| {
                shape.len() == data.shape.len()
                    && shape
                        .iter()
                        .zip(&data.shape)
                        .all(|(dim, &size)| dim.known().is_none_or(|known| known == size))
            });
        let bounded = tensor.upper_bound
            && tensor.ty.dtype == data.dtype
            && sizes.len() == data.shape.len()
            && sizes.iter().zip(&data.shape).all(|(&bound, &size)| size <= bound);
        if fits && known {
            continue;
        }
        if bounded {
            verdict = if verdict.ends_with("data") {
                "imported, outputs bounded"
            } else {
                verdict
            };
            continue;
        }
        println!(
            "{name}: output {index} \"{}\" is {}{}, data are {}{:?}",
            tensor.name,
            if tensor.typed {
                tensor.ty.to_string()
            } else {
                "untyped".to_owned()
            },
            if tensor.upper_bound { " (bound)" } else { "" },
            data.dtype,
            data.shape
        );
        verdict = if fits || !tensor.typed {
            "imported, outputs not fully known"
        } else {
            "imported, outputs WRONG"
        };
    }
    verdict
}

fn collect(path: &Path, models: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let mut entries: Vec<_> = std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .collect();
        entries.sort();
        for entry in entries {
            collect(&entry, models);
        }
    } else if path.extension().is_some_and(|extension| extension == "onnx") {
        models.push(path.to_path_buf());
    }
}
