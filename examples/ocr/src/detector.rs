//! Line detection: a model that gives each pixel its probability of text (DBNet).

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use polychip::{Input, Policy, Runtime, Session};

use crate::picture::{Area, Normal, Picture};

/// Longest side that the detector sees; sides are multiples of what it halves them to.
const LONGEST_SIDE: f32 = 960.0;
const STRIDE: f32 = 32.0;
/// From this probability on a pixel is text, and from this mean on an area is a line.
const THRESHOLD: f32 = 0.3;
const LEAST_SCORE: f32 = 0.6;
/// The model marks the core of a line: its border lies this share of area over perimeter further out.
const UNCLIP: f32 = 1.6;
const LEAST_SIDE: usize = 3;
/// ImageNet's, in the order of channels that the model was trained with.
const NORMAL: Normal = Normal {
    mean: [0.485, 0.456, 0.406],
    deviation: [0.229, 0.224, 0.225],
};
/// Longest that a run may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The detector.
#[derive(Debug)]
pub struct Detector {
    pub(crate) session: Session,
    input: Input,
}

impl Detector {
    /// Loads the model.
    ///
    /// # Errors
    /// It cannot be loaded, or takes no input `x`.
    pub fn new(runtime: &Runtime, model: &Path, policy: Policy) -> Result<Detector> {
        let session = runtime.session(&runtime.load(model)?, policy)?;
        Ok(Detector {
            input: session.input("x")?,
            session,
        })
    }

    /// The lines of a picture, in the order in which one reads them, and what the run of the model took.
    ///
    /// # Errors
    /// The run fails.
    pub fn detect(&mut self, picture: &Picture) -> Result<(Vec<Area>, Duration)> {
        let scale = (LONGEST_SIDE / picture.width.max(picture.height) as f32).min(1.0);
        let side = |pixels: usize| ((pixels as f32 * scale / STRIDE).round().max(1.0) * STRIDE) as usize;
        let (width, height) = (side(picture.width), side(picture.height));
        // the size is the picture's: the session plans for each that comes, once
        self.input.resize(&[1, 3, height, width])?;
        picture.write(picture.area(), &mut self.input, &NORMAL)?;

        let start = Instant::now();
        let outputs = self.session.submit(&[&self.input])?.wait(PATIENCE)?;
        let ran = start.elapsed();
        let output = outputs.at(0)?;
        ensure!(
            output.shape() == [1, 1, height, width],
            "the detector gives {:?}",
            output.shape()
        );
        let map = output.values::<f32>()?;

        let (x, y) = (
            picture.width as f32 / width as f32,
            picture.height as f32 / height as f32,
        );
        let mut areas = Vec::new();
        for [left, top, right, bottom] in components(&map, width) {
            let (wide, high) = (right - left, bottom - top);
            let rows = map[top * width..bottom * width].chunks_exact(width);
            let score = rows.flat_map(|row| &row[left..right]).sum::<f32>() / (wide * high) as f32;
            if wide.min(high) < LEAST_SIDE || score < LEAST_SCORE {
                continue;
            }
            let more = UNCLIP * (wide * high) as f32 / (2 * (wide + high)) as f32;
            areas.push(Area {
                left: ((left as f32 - more) * x).max(0.0),
                top: ((top as f32 - more) * y).max(0.0),
                right: ((right as f32 + more) * x).min(picture.width as f32),
                bottom: ((bottom as f32 + more) * y).min(picture.height as f32),
            });
        }
        Ok((in_reading_order(areas), ran))
    }
}

/// Boxes (left, top, right, bottom) around the pixels of text that touch each other.
fn components(map: &[f32], width: usize) -> Vec<[usize; 4]> {
    let height = map.len() / width;
    let mut is_text: Vec<bool> = map.iter().map(|probability| *probability > THRESHOLD).collect();
    let (mut boxes, mut next) = (Vec::new(), Vec::new());
    for first in 0..is_text.len() {
        if !std::mem::take(&mut is_text[first]) {
            continue;
        }
        let mut around = [width, height, 0, 0];
        next.push(first);
        while let Some(at) = next.pop() {
            let (x, y) = (at % width, at / width);
            let [left, top, right, bottom] = around;
            around = [left.min(x), top.min(y), right.max(x + 1), bottom.max(y + 1)];
            for y in y.saturating_sub(1)..(y + 2).min(height) {
                for x in x.saturating_sub(1)..(x + 2).min(width) {
                    let near = y * width + x;
                    if std::mem::take(&mut is_text[near]) {
                        next.push(near);
                    }
                }
            }
        }
        boxes.push(around);
    }
    boxes
}

/// Rows from the top, each from the left; an area is of the row whose first area reaches below its middle.
fn in_reading_order(mut areas: Vec<Area>) -> Vec<Area> {
    areas.sort_by(|one, other| one.top.total_cmp(&other.top));
    let mut rows: Vec<Vec<Area>> = Vec::new();
    for area in areas {
        match rows.last_mut() {
            Some(row) if (area.top + area.bottom) / 2.0 < row[0].bottom => row.push(area),
            _ => rows.push(vec![area]),
        }
    }
    for row in &mut rows {
        row.sort_by(|one, other| one.left.total_cmp(&other.left));
    }
    rows.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_that_touch_are_one_box() {
        let map = [
            [0.9, 0.0, 0.0, 0.0, 0.9],
            [0.0, 0.9, 0.0, 0.0, 0.9],
            [0.0, 0.0, 0.0, 0.2, 0.0],
        ];
        assert_eq!(components(map.as_flattened(), 5), [[0, 0, 2, 2], [4, 0, 5, 2]]);
        assert!(components(&[], 5).is_empty());
    }

    #[test]
    fn a_row_is_read_from_the_left() {
        let area = |left: f32, top: f32| Area {
            left,
            top,
            right: left + 9.0,
            bottom: top + 10.0,
        };
        let (a, b, c) = (area(0.0, 3.0), area(50.0, 0.0), area(0.0, 12.0));
        assert_eq!(in_reading_order(vec![c, b, a]), [a, b, c]);
    }
}
