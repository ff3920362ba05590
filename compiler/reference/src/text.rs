//! Ops on strings.
//!
//! Invariant: results do not depend on the machine's locale.

use polychip_cpu_kernels::reference::text::{self as kernel, Case, Ngrams, Weighting};
#[cfg(feature = "regex")]
use polychip_cpu_kernels::reference::{Error, Tensor};
#[cfg(feature = "regex")]
use polychip_ops::operator::RegexFullMatch;
use polychip_ops::operator::{CaseChange, StringNormalizer, StringSplit, TfIdf, Weighting as Weighted};
use polychip_ops::{Attr, DType, DTypes, Op};

use crate::call::{Call, Outputs, bad, one, sizes};
use crate::row::{INDEX, Row, TEXT};

#[cfg(feature = "regex")]
mod pattern;

const TEXT_OR_INDEX: DTypes = TEXT.with(INDEX).with(DTypes::of(&[DType::I64]));

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::StringConcat => Row {
            takes: &[TEXT],
            run: |c| one(kernel::concat(c.input(0)?, c.input(1)?)),
        },
        Op::StringSplit => Row {
            takes: &[TEXT],
            run: split,
        },
        Op::StringNormalizer => Row {
            takes: &[TEXT],
            run: normalise,
        },
        Op::TfIdfVectorizer => Row {
            takes: &[TEXT_OR_INDEX],
            run: ngrams,
        },
        #[cfg(feature = "regex")]
        Op::RegexFullMatch => Row {
            takes: &[TEXT],
            run: full_match,
        },
        _ => return None,
    })
}

/// Whether each text matches as a whole.
#[cfg(feature = "regex")]
fn full_match(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let node: RegexFullMatch = c.typed()?;
    let pattern = pattern::whole(node.pattern.as_deref().unwrap_or("")).map_err(Error::new)?;
    let matches = x.strings()?.iter().map(|text| pattern.is_match(text)).collect();
    one(Tensor::from_bools(x.shape().to_vec(), matches))
}

fn split(c: &Call<'_>) -> Outputs {
    let node: StringSplit = c.typed()?;
    let most = node.maxsplit.and_then(|most| usize::try_from(most).ok());
    let (pieces, counts) = kernel::split(c.input(0)?, node.delimiter.as_deref(), most)?;
    Ok(vec![pieces, counts])
}

fn normalise(c: &Call<'_>) -> Outputs {
    let node: StringNormalizer = c.typed()?;
    let case = match node.case {
        CaseChange::None => Case::Keep,
        CaseChange::Lower => Case::Lower,
        CaseChange::Upper => Case::Upper,
    };
    let stopwords: Vec<String> = node.stopwords.iter().map(ToString::to_string).collect();
    one(kernel::normalise(
        c.input(0)?,
        case,
        node.case_sensitive,
        &stopwords,
    ))
}

fn ngrams(c: &Call<'_>) -> Outputs {
    let items: Vec<String> = match c.attributes.ints(Attr::PoolInt64s) {
        Some(v) if !v.is_empty() => v.iter().map(ToString::to_string).collect(),
        _ => {
            let strings = c.attributes.strings(Attr::PoolStrings).unwrap_or_default();
            strings.iter().map(ToString::to_string).collect()
        }
    };
    let list = |attr: Attr| match c.attributes.ints(attr) {
        Some(list) => sizes(list),
        None => bad(format!("attribute {attr} is missing")),
    };
    let (counts, indexes) = (list(Attr::NgramCounts)?, list(Attr::NgramIndexes)?);
    // ngram_counts[n - 1] is where the n-grams of length n begin in the pool
    let mut pool = Vec::new();
    for (i, &begin) in counts.iter().enumerate() {
        let end = counts.get(i + 1).copied().unwrap_or(items.len());
        let Some(part) = items.get(begin..end) else {
            return bad(format!(
                "n-grams from {begin} to {end} of a pool of {}",
                items.len()
            ));
        };
        for gram in part.chunks_exact(i + 1) {
            let Some(&to) = indexes.get(pool.len()) else {
                return bad(format!("{} outputs for more n-grams", indexes.len()));
            };
            pool.push((gram.to_vec(), to));
        }
    }
    let node: TfIdf = c.typed()?;
    let p = Ngrams {
        lengths: (node.min_length, node.max_length),
        max_skip: node.max_skip,
        pool,
        mode: match node.mode {
            Weighted::TermFrequency => Weighting::TermFrequency,
            Weighted::Inverse => Weighting::Inverse,
            Weighted::Both => Weighting::Both,
        },
        weights: c
            .attributes
            .floats(Attr::Weights)
            .map(|w| w.iter().copied().map(f64::from).collect()),
    };
    one(kernel::ngrams(c.input(0)?, &p))
}
