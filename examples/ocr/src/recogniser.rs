//! Line recognition: a model that gives each step along the line a probability for every letter (CTC).

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use polychip::{Input, Policy, Runtime, Session};
use serde::Serialize;

use crate::detector::PATIENCE;
use crate::picture::{Area, Normal, Picture};

/// Height of lines that the model was trained with, and the least width that it makes steps of.
const HEIGHT: usize = 48;
const LEAST_WIDTH: f32 = 16.0;
const NORMAL: Normal = Normal {
    mean: [0.5; 3],
    deviation: [0.5; 3],
};

/// A line that was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// What it says.
    pub text: String,
    /// Mean probability of its letters.
    pub score: f32,
    /// Where it is.
    #[serde(rename = "box")]
    pub area: Area,
}

/// The recogniser.
#[derive(Debug)]
pub struct Recogniser {
    pub(crate) session: Session,
    input: Input,
    letters: Vec<String>,
}

impl Recogniser {
    /// Loads the model, and its letters out of its metadata.
    ///
    /// # Errors
    /// It cannot be loaded, takes no input `x`, or names no letters.
    pub fn new(runtime: &Runtime, model: &Path, policy: Policy) -> Result<Recogniser> {
        let loaded = runtime.load(model)?;
        let metadata = loaded.header()?.metadata;
        let named = metadata.get("character").with_context(|| {
            let keys: Vec<&str> = metadata.keys().map(String::as_str).collect();
            format!(
                "{}: no metadata \"character\", only {keys:?}; is it a recogniser?",
                model.display()
            )
        })?;
        // before them stands the sign for no letter, behind them the space
        let letters = [""]
            .into_iter()
            .chain(named.lines())
            .chain([" "])
            .map(str::to_owned)
            .collect();
        let session = runtime.session(&loaded, policy)?;
        Ok(Recogniser {
            input: session.input("x")?,
            session,
            letters,
        })
    }

    /// Reads the line in an area of a picture; and what the run of the model took.
    ///
    /// # Errors
    /// The run fails, or the model has other letters than it says.
    pub fn recognise(&mut self, picture: &Picture, area: Area) -> Result<(Line, Duration)> {
        let aspect = (area.right - area.left) / (area.bottom - area.top);
        let width = (HEIGHT as f32 * aspect).round().max(LEAST_WIDTH) as usize;
        // each line has its own width: nothing is padded
        self.input.resize(&[1, 3, HEIGHT, width])?;
        picture.write(area, &mut self.input, &NORMAL)?;

        let start = Instant::now();
        let outputs = self.session.submit(&[&self.input])?.wait(PATIENCE)?;
        let ran = start.elapsed();
        let output = outputs.at(0)?;
        let count = output.shape().last().copied().unwrap_or(0);
        ensure!(
            count == self.letters.len(),
            "the recogniser knows {count} letters and names {}",
            self.letters.len()
        );
        let (mut text, mut score, mut kept, mut last) = (String::new(), 0.0, 0_usize, 0);
        for step in output.values::<f32>()?.chunks_exact(count) {
            let (letter, probability) = most_likely(step);
            // a letter takes several steps: it counts where it begins
            if letter != last && letter != 0 {
                text.push_str(&self.letters[letter]);
                score += probability;
                kept += 1;
            }
            last = letter;
        }
        let score = score / kept.max(1) as f32;
        Ok((Line { text, score, area }, ran))
    }
}

fn most_likely(step: &[f32]) -> (usize, f32) {
    let mut most = (0, f32::MIN);
    for (letter, probability) in step.iter().enumerate() {
        if *probability > most.1 {
            most = (letter, *probability);
        }
    }
    most
}
