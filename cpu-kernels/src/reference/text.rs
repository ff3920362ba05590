//! Ops on strings, and counts of n-grams.
//!
//! Invariant: text is UTF-8; case changes follow Unicode, whatever the locale.

use super::error::{Result, refuse, require};
use super::{Element, Storage, Tensor, index};

/// Each pair of strings joined, broadcasting.
///
/// # Errors
/// If the shapes do not broadcast.
pub fn concat(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let shape = index::broadcast(&[a.shape(), b.shape()])?;
    let (x, y) = (a.strings()?, b.strings()?);
    let joined = index::broadcast_index(a.shape(), &shape)?
        .into_iter()
        .zip(index::broadcast_index(b.shape(), &shape)?)
        .map(|(i, j)| format!("{}{}", x[i], y[j]))
        .collect();
    Tensor::new(shape, Storage::String(joined))
}

/// Each string split at `delimiter` (or, if that is absent or empty, at runs of white space), at most `most`
/// times; the pieces along a new last dim, filled with empty strings, and their numbers.
///
/// # Errors
/// If the elements are not strings.
pub fn split(x: &Tensor, delimiter: Option<&str>, most: Option<usize>) -> Result<(Tensor, Tensor)> {
    let pieces: Vec<Vec<String>> = x
        .strings()?
        .iter()
        .map(|s| match delimiter.filter(|d| !d.is_empty()) {
            Some(d) if s.is_empty() && !d.is_empty() => Vec::new(),
            Some(d) => {
                let most = most.map_or(usize::MAX, |m| m.saturating_add(1));
                s.splitn(most, d).map(str::to_owned).collect()
            }
            None => split_space(s, most),
        })
        .collect();
    let widest = pieces.iter().map(Vec::len).max().unwrap_or(0);
    let counts = pieces.iter().map(|p| p.len() as i64).collect();
    let mut all = Vec::with_capacity(pieces.len() * widest);
    for mut p in pieces {
        p.resize(widest, String::new());
        all.extend(p);
    }
    let mut shape = x.shape().to_vec();
    let counts = Tensor::from_i64s(shape.clone(), counts)?;
    shape.push(widest);
    Ok((Tensor::new(shape, Storage::String(all))?, counts))
}

fn split_space(s: &str, most: Option<usize>) -> Vec<String> {
    let mut rest = s.trim_start();
    let mut out = Vec::new();
    while !rest.is_empty() {
        if most.is_some_and(|m| out.len() >= m) {
            out.push(rest.trim_end().to_owned());
            return out;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        out.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    out
}

/// How [`normalise`] changes case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Case {
    Keep,
    Lower,
    Upper,
}

/// `[c]` or `[1, c]` strings without the stop words, in another case; one empty string if none is left.
///
/// # Errors
/// If the shape is another.
pub fn normalise(x: &Tensor, case: Case, sensitive: bool, stop: &[String]) -> Result<Tensor> {
    let lead = match x.shape() {
        [_] => None,
        [1, _] => Some(1),
        other => refuse!("[c] or [1, c] strings wanted, shape {other:?} seen"),
    };
    let stopped = |s: &str| {
        stop.iter().any(|w| {
            if sensitive {
                w == s
            } else {
                w.to_lowercase() == s.to_lowercase()
            }
        })
    };
    let mut kept: Vec<String> = x
        .strings()?
        .iter()
        .filter(|s| !stopped(s))
        .map(|s| match case {
            Case::Keep => s.clone(),
            Case::Lower => s.to_lowercase(),
            Case::Upper => s.to_uppercase(),
        })
        .collect();
    if kept.is_empty() {
        kept.push(String::new());
    }
    let mut shape: Vec<usize> = lead.into_iter().collect();
    shape.push(kept.len());
    Tensor::new(shape, Storage::String(kept))
}

/// The parameters of [`ngrams`].
#[derive(Clone, Debug)]
pub struct Ngrams {
    /// The shortest and longest n-gram.
    pub lengths: (usize, usize),
    /// The most elements skipped between two of an n-gram.
    pub max_skip: usize,
    /// The known n-grams as text, each with the output it counts in.
    pub pool: Vec<(Vec<String>, usize)>,
    /// Whether outputs are counts, and whether they are weighted.
    pub mode: Weighting,
    /// One weight per known n-gram.
    pub weights: Option<Vec<f64>>,
}

/// The weighting of the outputs of [`ngrams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Weighting {
    TermFrequency,
    Inverse,
    Both,
}

/// How often each known n-gram occurs in each line of `x` (`[c]` or `[n, c]`), as `float32`.
///
/// # Errors
/// If the shape is another.
pub fn ngrams(x: &Tensor, p: &Ngrams) -> Result<Tensor> {
    let (lines, len, lead) = match *x.shape() {
        [] => (1, 1, None),
        [c] => (1, c, None),
        [n, c] => (n, c, Some(n)),
        _ => refuse!("[c] or [n, c] wanted, shape {:?} seen", x.shape()),
    };
    let items: Vec<String> = match x.strings() {
        Ok(s) => s.to_vec(),
        Err(_) => x.to_i64s()?.iter().map(ToString::to_string).collect(),
    };
    require!(
        p.weights.as_ref().is_none_or(|w| w.len() == p.pool.len()),
        "not one weight for each of {} n-grams",
        p.pool.len()
    );
    let width = p.pool.iter().map(|e| e.1 + 1).max().unwrap_or(0);
    require!(width < 1 << 28, "an n-gram counts in output {width}");
    let mut out = vec![0f64; lines * width];
    for line in 0..lines {
        let words = &items[line * len..(line + 1) * len];
        for (known, (gram, to)) in p.pool.iter().enumerate() {
            let n = gram.len();
            if n < p.lengths.0 || n > p.lengths.1 || n == 0 {
                continue;
            }
            // a single item cannot be skipped within: one pass
            let skips = if n == 1 { 0 } else { p.max_skip };
            let mut count = 0usize;
            for step in 1..=skips + 1 {
                for start in 0..len {
                    if (0..n).all(|k| words.get(start + k * step) == Some(&gram[k])) {
                        count += 1;
                    }
                }
            }
            let weight = p.weights.as_ref().map_or(1.0, |w| w[known]);
            let value = match p.mode {
                Weighting::TermFrequency => count as f64,
                Weighting::Inverse => f64::from(u8::from(count > 0)) * weight,
                Weighting::Both => count as f64 * weight,
            };
            out[line * width + to] += value;
        }
    }
    let mut shape: Vec<usize> = lead.into_iter().collect();
    shape.push(width);
    Tensor::from_f64s(Element::F32, shape, &out)
}
