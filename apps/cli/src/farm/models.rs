//! Models of a run: from the command line and from a list, checked on this host before a board is used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use polychip::Runtime;
use polychip_farm::Blob;
use polychip_farm::model_list::{self, ListedModel};
use polychip_farm_record::{InputFile, InventoryEntry, Model, printable};

use super::programs::blob;
use crate::exit::{bad_input, usage, warn};
use crate::progress::Progress;
use crate::setup::shape;

/// A model with all that its items need.
#[derive(Debug)]
pub(super) struct Chosen {
    listed: ListedModel,
    /// The model in records.
    pub(super) model: Model,
    /// Shapes of its inputs, sorted.
    pub(super) shapes: Vec<String>,
    /// Files of its inputs.
    pub(super) inputs: Vec<InputFile>,
}

/// The models of a run.
#[derive(Debug, Default)]
pub(super) struct Models {
    pub(super) chosen: Vec<Chosen>,
    /// All files that boards may need, by BLAKE3.
    pub(super) files: BTreeMap<String, Blob>,
}

impl Models {
    /// Reads models and, if there is one, a list of more.
    pub(super) fn read(paths: &[PathBuf], list: Option<&Path>) -> anyhow::Result<Models> {
        let _progress = Progress::of("reading the models");
        let mut listed: Vec<ListedModel> = paths.iter().map(|path| ListedModel::of(path)).collect();
        if let Some(list) = list {
            listed.extend(model_list::read(list).map_err(bad_input)?);
        }
        let mut models = Models::default();
        for listed in listed {
            let file = blob(&listed.file, false)?;
            let mut inputs = Vec::with_capacity(listed.inputs.len());
            for (input, path) in &listed.inputs {
                let value = blob(path, false)?;
                inputs.push(InputFile {
                    input: input.clone(),
                    name: value.name.clone(),
                    blake3: value.blake3.clone(),
                });
                models.files.insert(value.blake3.clone(), value);
            }
            let stem = listed.file.file_stem().unwrap_or_default();
            models.chosen.push(Chosen {
                model: Model {
                    name: listed
                        .name
                        .clone()
                        .unwrap_or_else(|| stem.to_string_lossy().into_owned()),
                    blake3: file.blake3.clone(),
                    bytes: file.bytes,
                },
                shapes: Vec::new(),
                inputs,
                listed,
            });
            models.files.insert(file.blake3.clone(), file);
        }
        Ok(models)
    }

    /// Gives each model the shapes of its own inputs, and names the models that could not run: a board is not used to find
    /// that out.
    pub(super) fn shape(&mut self, shapes: &[String]) -> anyhow::Result<()> {
        let _progress = Progress::of("checking the models");
        let runtime = Runtime::builder().only_given_folders().build()?;
        let mut used = vec![false; shapes.len()];
        let mut troubles = Vec::new();
        for chosen in &mut self.chosen {
            let file = chosen.listed.file.display();
            let loaded = match runtime.load(&chosen.listed.file) {
                Ok(loaded) => loaded,
                // the boards say so, too
                Err(error) => {
                    warn(format!(
                        "model {} will fail: {error}",
                        printable(&chosen.model.name)
                    ));
                    used.fill(true);
                    // a board that loads it needs them; which inputs it has is unknown here
                    chosen.shapes = together(&chosen.listed.shapes, shapes);
                    continue;
                }
            };
            let has =
                |text: &str| shape(text).is_ok_and(|(name, _)| loaded.graph().input_named(&name).is_some());
            let mut own = chosen.listed.shapes.clone();
            if let Some(foreign) = own.iter().find(|text| !has(text)) {
                troubles.push(format!("{file} has no input for the shape {foreign}"));
                continue;
            }
            let given = |input: &str| {
                own.iter()
                    .any(|text| shape(text).is_ok_and(|(name, _)| name == input))
            };
            let mut more = Vec::new();
            for (at, text) in shapes.iter().enumerate() {
                if has(text) {
                    used[at] = true;
                    // the list knows the model better than the command line
                    if shape(text).is_ok_and(|(name, _)| !given(&name)) {
                        more.push(text.clone());
                    }
                }
            }
            own.extend(more);
            own.sort();
            let missing = chosen
                .inputs
                .iter()
                .find(|file| loaded.graph().input_named(&file.input).is_none());
            if let Some(missing) = missing {
                troubles.push(format!("{file} has no input {:?}", missing.input));
                continue;
            }
            let sizes: Vec<(String, Vec<usize>)> = own.iter().filter_map(|text| shape(text).ok()).collect();
            match loaded.bind_shapes(sizes.iter().map(|(name, sizes)| (name, sizes))) {
                Ok(bound) if bound.open_dims().is_empty() => chosen.shapes = own,
                Ok(bound) => troubles.push(format!(
                    "{file}: the size of {} is open; set it with `shapes` in the list of models, or with --shape \
                     INPUT=1x2x3",
                    bound.open_dims().join(", ")
                )),
                Err(error) => troubles.push(error.to_string()),
            }
        }
        if let Some(at) = used
            .iter()
            .position(|used| !used)
            .filter(|_| !self.chosen.is_empty())
        {
            troubles.push(format!("--shape {}: no model has such an input", shapes[at]));
        }
        if troubles.is_empty() {
            Ok(())
        } else {
            Err(usage(troubles.join("\n")))
        }
    }

    /// An error where a model is for none of these boards.
    pub(super) fn check_boards(&self, boards: &[InventoryEntry]) -> anyhow::Result<()> {
        for chosen in &self.chosen {
            if !boards.iter().any(|board| chosen.is_for(board)) {
                let names: Vec<&str> = boards.iter().map(|board| board.name.as_str()).collect();
                return Err(usage(format!(
                    "model {} is for boards {}, none of which is selected; selected are {}",
                    chosen.model.name,
                    chosen.listed.boards.join(", "),
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }
}

/// Shapes of a list and of the command line, sorted; of the latter, those of inputs that the list leaves out.
fn together(listed: &[String], given: &[String]) -> Vec<String> {
    let input = |text: &String| shape(text).ok().map(|(name, _)| name);
    let known: Vec<Option<String>> = listed.iter().map(input).collect();
    let more = given.iter().filter(|text| !known.contains(&input(text)));
    let mut all: Vec<String> = listed.iter().chain(more).cloned().collect();
    all.sort();
    all
}

impl Chosen {
    /// Whether a board measures it.
    pub(super) fn is_for(&self, board: &InventoryEntry) -> bool {
        self.listed.is_for(board)
    }
}
