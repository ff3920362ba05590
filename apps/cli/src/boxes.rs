//! The boxes that a detector's outputs hold, in the forms that exporters write.
//!
//! | form | outputs |
//! |---|---|
//! | by row | `[1, n, 6]`: corners, score, class |
//! | apart | boxes `[n, 4]`, classes `[n]` of integers, scores `[n]` of floats, each also with a first axis of 1 |
//! | raw | `[1, 4 + classes, n]` (YOLOv8 and later) or `[1, n, 5 + classes]` (YOLOv5): middle and size, scores of classes |
//!
//! Invariant: a box is in the units of the output, for most detectors pixels of the input.

use schemars::JsonSchema;
use serde::Serialize;

use crate::array::{Array, numbers};
use crate::exit::bad_input;

/// Raw boxes of one class that overlap more are one.
const OVERLAP: f64 = 0.45;
/// Most raw boxes that are compared with each other.
const COMPARED: usize = 30_000;

/// An object that a detector found.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Detection {
    /// Its label, or the number of its class.
    pub(crate) label: String,
    /// Number of its class.
    pub(crate) class: usize,
    /// The detector's score.
    pub(crate) score: f64,
    /// Left, top, right, bottom.
    pub(crate) corners: [f64; 4],
}

impl std::fmt::Display for Detection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [left, top, right, bottom] = self.corners;
        write!(
            f,
            "{}: score {:.4}, box {left:.1} {top:.1} {right:.1} {bottom:.1}",
            self.label, self.score
        )
    }
}

/// Class, score, corners.
type Found = (usize, f64, [f64; 4]);

/// The boxes with at least this score, highest first.
pub(crate) fn boxes(
    outputs: &[(String, Array)],
    labels: Option<&[String]>,
    least: f64,
) -> anyhow::Result<Vec<Detection>> {
    let found = by_row(outputs)
        .or_else(|| apart(outputs))
        .or_else(|| raw(outputs, labels, least));
    let Some(mut found) = found else {
        let shapes: Vec<String> = outputs
            .iter()
            .map(|(name, array)| format!("{name} {} {:?}", array.dtype.name(), array.shape))
            .collect();
        return Err(bad_input(format!(
            "no outputs hold boxes in a known form ([1, n, 6]; boxes, classes and scores; or YOLO's); the outputs are: {}",
            shapes.join(", ")
        )));
    };
    found.retain(|(_, score, _)| *score >= least);
    found.sort_by(|(_, a, _), (_, b, _)| b.total_cmp(a));
    let named = |class: usize| labels.and_then(|labels| labels.get(class).cloned());
    Ok(found
        .into_iter()
        .map(|(class, score, corners)| Detection {
            label: named(class).unwrap_or_else(|| class.to_string()),
            class,
            score,
            corners,
        })
        .collect())
}

/// The shape without first axes of one, down to so many axes.
fn squeezed(array: &Array, rank: usize) -> Option<&[usize]> {
    let mut shape = &array.shape[..];
    while let ([1, rest @ ..], true) = (shape, shape.len() > rank) {
        shape = rest;
    }
    (shape.len() == rank).then_some(shape)
}

fn values(array: &Array) -> Option<Vec<f64>> {
    numbers(array.dtype, &array.bytes)
}

fn by_row(outputs: &[(String, Array)]) -> Option<Vec<Found>> {
    let is = |array: &Array| array.dtype.is_float() && matches!(squeezed(array, 2), Some([_, 6]));
    let (_, array) = outputs.iter().find(|(_, array)| is(array))?;
    let values = values(array)?;
    let rows = values.as_chunks::<6>().0.iter();
    // the last of a raw detector with one class is a score; rows without an object have none, or the class -1
    let is_object = |row: &&[f64; 6]| row[4] > 0.0 && row[5] >= 0.0;
    if rows.clone().filter(is_object).any(|row| row[5].fract() != 0.0) {
        return None;
    }
    Some(
        rows.filter(is_object)
            .map(|&[left, top, right, bottom, score, class]| {
                (class as usize, score, [left, top, right, bottom])
            })
            .collect(),
    )
}

fn apart(outputs: &[(String, Array)]) -> Option<Vec<Found>> {
    let is_boxes = |array: &Array| array.dtype.is_float() && matches!(squeezed(array, 2), Some([_, 4]));
    let boxes = &outputs.iter().find(|(_, array)| is_boxes(array))?.1;
    let count = squeezed(boxes, 2)?[0];
    let list = |is_kind: fn(&Array) -> bool| {
        let of_each = |array: &&Array| is_kind(array) && squeezed(array, 1) == Some(&[count]);
        outputs
            .iter()
            .map(|(_, array)| array)
            .find(of_each)
            .and_then(values)
    };
    let scores = list(|array| array.dtype.is_float())?;
    let classes = list(|array| array.dtype.is_int())?;
    let boxes = values(boxes)?;
    let all = boxes.as_chunks::<4>().0.iter().zip(scores).zip(classes);
    Some(
        all.map(|((corners, score), class)| (class.max(0.0) as usize, score, *corners))
            .collect(),
    )
}

fn raw(outputs: &[(String, Array)], labels: Option<&[String]>, least: f64) -> Option<Vec<Found>> {
    let [(_, array)] = outputs else {
        return None;
    };
    let &[rows, columns] = squeezed(array, 2).filter(|_| array.dtype.is_float())? else {
        return None;
    };
    // there are more boxes than classes, unless the labels say otherwise
    let classes = |extra: usize, sides: usize| labels.is_none_or(|labels| labels.len() + extra == sides);
    let by_column = rows > 4 && classes(4, rows) && (labels.is_some() || rows < columns);
    let by_line = columns > 5 && classes(5, columns) && (labels.is_some() || columns < rows);
    let values = values(array)?;
    let mut found = Vec::new();
    let mut add =
        |[x, y, width, height]: [f64; 4], objectness: f64, scores: &mut dyn Iterator<Item = f64>| {
            let best = scores.enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
            if let Some((class, score)) = best.filter(|(_, score)| score * objectness >= least) {
                let corners = [
                    x - width / 2.0,
                    y - height / 2.0,
                    x + width / 2.0,
                    y + height / 2.0,
                ];
                found.push((class, score * objectness, corners));
            }
        };
    if by_column {
        for at in 0..columns {
            let value = |row: usize| values[row * columns + at];
            add([0, 1, 2, 3].map(value), 1.0, &mut (4..rows).map(value));
        }
    } else if by_line {
        for row in values.chunks_exact(columns) {
            add(
                [row[0], row[1], row[2], row[3]],
                row[4],
                &mut row[5..].iter().copied(),
            );
        }
    } else {
        return None;
    }
    Some(apart_enough(found))
}

/// The boxes without those that overlap one of a higher score of their class.
fn apart_enough(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by(|(_, a, _), (_, b, _)| b.total_cmp(a));
    found.truncate(COMPARED);
    let mut kept: Vec<Found> = Vec::new();
    for one in found {
        let is_other = |other: &Found| other.0 != one.0 || overlap(&other.2, &one.2) <= OVERLAP;
        if kept.iter().all(is_other) {
            kept.push(one);
        }
    }
    kept
}

/// The area that two boxes share over that which they cover.
fn overlap(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    let side = |from: f64, to: f64| (to - from).max(0.0);
    let area = |corners: &[f64; 4]| side(corners[0], corners[2]) * side(corners[1], corners[3]);
    let shared = side(a[0].max(b[0]), a[2].min(b[2])) * side(a[1].max(b[1]), a[3].min(b[3]));
    let covered = area(a) + area(b) - shared;
    if covered > 0.0 { shared / covered } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use polychip::DType;

    use super::*;

    fn floats(name: &str, shape: &[usize], values: &[f32]) -> (String, Array) {
        let array = Array {
            dtype: DType::F32,
            shape: shape.to_vec(),
            bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        };
        (name.into(), array)
    }

    fn words(outputs: &[(String, Array)], labels: Option<&[String]>, least: f64) -> Vec<String> {
        let found = boxes(outputs, labels, least).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rows_of_six_are_boxes() {
        let rows = [
            1.0, 2.0, 3.0, 4.0, 0.5, 1.0, 5.0, 6.0, 7.0, 8.0, 0.9, 0.0, 0.0, 0.0, 1.0, 1.0, 0.1, 0.0,
            // a row without an object
            0.0, 0.0, 0.0, 0.0, 0.0, -1.0,
        ];
        let labels = ["cat", "dog"].map(String::from);
        assert_eq!(
            words(&[floats("out", &[1, 4, 6], &rows)], Some(&labels), 0.25),
            [
                "cat: score 0.9000, box 5.0 6.0 7.0 8.0",
                "dog: score 0.5000, box 1.0 2.0 3.0 4.0"
            ]
        );
    }

    #[test]
    fn boxes_classes_and_scores_may_be_apart() {
        let classes = Array {
            dtype: DType::I64,
            shape: vec![2],
            bytes: [17i64, 3].map(i64::to_le_bytes).concat(),
        };
        let outputs = [
            floats("boxes", &[2, 4], &[0.0, 0.0, 9.0, 9.0, 1.0, 1.0, 2.0, 2.0]),
            ("labels".to_owned(), classes),
            floats("scores", &[2], &[0.3, 0.8]),
        ];
        assert_eq!(
            words(&outputs, None, 0.25),
            [
                "3: score 0.8000, box 1.0 1.0 2.0 2.0",
                "17: score 0.3000, box 0.0 0.0 9.0 9.0"
            ]
        );
    }

    #[test]
    fn raw_boxes_of_one_class_that_overlap_are_one() {
        // middle, size, scores of two classes; eight boxes, of which five score nothing
        let mut by_column = vec![0.0; 6 * 8];
        let found = [
            [10.0, 10.0, 4.0, 4.0, 0.9, 0.1],
            [10.5, 10.0, 4.0, 4.0, 0.8, 0.1],
            [10.0, 10.0, 4.0, 4.0, 0.2, 0.7],
        ];
        let mut by_line = vec![0.0; 7 * 8];
        for (at, one) in found.iter().enumerate() {
            for (row, value) in one.iter().enumerate() {
                by_column[row * 8 + at] = *value;
            }
            by_line[at * 7..at * 7 + 4].copy_from_slice(&one[..4]);
            by_line[at * 7 + 4] = 0.5;
            by_line[at * 7 + 5..at * 7 + 7].copy_from_slice(&one[4..]);
        }
        let wanted = |by: f64| {
            [0.9, 0.7].map(|score| {
                let class = usize::from(score < 0.8);
                format!("{class}: score {:.4}, box 8.0 8.0 12.0 12.0", score * by)
            })
        };
        assert_eq!(
            words(&[floats("out", &[1, 6, 8], &by_column)], None, 0.25),
            wanted(1.0)
        );
        assert_eq!(
            words(&[floats("out", &[1, 8, 7], &by_line)], None, 0.25),
            wanted(0.5)
        );
        let labels = vec![String::from("x"); 5];
        assert!(boxes(&[floats("out", &[1, 8, 7], &by_line)], Some(&labels), 0.25).is_err());
    }
}
