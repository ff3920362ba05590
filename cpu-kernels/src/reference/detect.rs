//! Non-maximum suppression.
//!
//! Invariant: boxes are taken in the order of their scores, equals by index.

use super::error::{Result, refuse, require};
use super::{Tensor, sort};

/// The parameters of [`non_max_suppression`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suppression {
    /// Whether a box is `[x centre, y centre, width, height]` instead of two corners `[y1, x1, y2, x2]`.
    pub centre: bool,
    /// The most boxes per class.
    pub max_output: usize,
    /// A box that overlaps a chosen one by more than this is dropped.
    pub iou: f64,
    /// Score that a box must exceed, if set.
    pub score: Option<f64>,
}

fn corners(b: &[f64], centre: bool) -> [f64; 4] {
    if centre {
        let (x, y, w, h) = (b[0], b[1], b[2], b[3]);
        [y - h / 2.0, x - w / 2.0, y + h / 2.0, x + w / 2.0]
    } else {
        [b[0].min(b[2]), b[1].min(b[3]), b[0].max(b[2]), b[1].max(b[3])]
    }
}

fn overlap(a: [f64; 4], b: [f64; 4]) -> f64 {
    let side = |i: usize| (a[i + 2].min(b[i + 2]) - a[i].max(b[i])).max(0.0);
    let area = |c: [f64; 4]| (c[2] - c[0]) * (c[3] - c[1]);
    let both = side(0) * side(1);
    if both <= 0.0 {
        0.0
    } else {
        both / (area(a) + area(b) - both)
    }
}

/// The chosen boxes of `boxes` `[n, k, 4]` by `scores` `[n, classes, k]`: `[found, 3]` of image, class, box.
///
/// # Errors
/// If the shapes do not fit.
pub fn non_max_suppression(boxes: &Tensor, scores: &Tensor, p: Suppression) -> Result<Tensor> {
    let (&[n, k, 4], &[sn, classes, sk]) = (boxes.shape(), scores.shape()) else {
        refuse!("boxes {:?} with scores {:?}", boxes.shape(), scores.shape());
    };
    require!(
        sn == n && sk == k,
        "boxes {:?} with scores {:?}",
        boxes.shape(),
        scores.shape()
    );
    let (b, s) = (boxes.to_f64s()?, scores.to_f64s()?);
    let mut found: Vec<i64> = Vec::new();
    for image in 0..n {
        for class in 0..classes {
            let score = |i: usize| s[(image * classes + class) * k + i];
            let mut order: Vec<usize> = (0..k).filter(|&i| p.score.is_none_or(|t| score(i) > t)).collect();
            sort::by(&mut order, &|i, j| score(j).total_cmp(&score(i)));
            let mut chosen: Vec<[f64; 4]> = Vec::new();
            for i in order {
                if chosen.len() >= p.max_output {
                    break;
                }
                let this = corners(&b[(image * k + i) * 4..][..4], p.centre);
                if chosen.iter().all(|&c| overlap(c, this) <= p.iou) {
                    chosen.push(this);
                    found.extend([image as i64, class as i64, i as i64]);
                }
            }
        }
    }
    Tensor::from_i64s(vec![found.len() / 3, 3], found)
}
