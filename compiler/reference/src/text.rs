//! Ops on strings.
//!
//! Invariant: results do not depend on the machine's locale.

use polychip_cpu_kernels::reference::text::{self as kernel, Case, Ngrams, Weighting};
#[cfg(feature = "regex")]
use polychip_cpu_kernels::reference::{Error, Tensor};
use polychip_ops::{Attr, DType, DTypes, Op};

use crate::call::{Call, Outputs, bad, one};
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
    let pattern = pattern::whole(c.text(Attr::Pattern, "")).map_err(Error::new)?;
    let matches = x.strings()?.iter().map(|text| pattern.is_match(text)).collect();
    one(Tensor::from_bools(x.shape().to_vec(), matches))
}

fn split(c: &Call<'_>) -> Outputs {
    let most = c
        .attributes
        .int(Attr::Maxsplit)
        .and_then(|m| usize::try_from(m).ok());
    let (pieces, counts) = kernel::split(c.input(0)?, c.attributes.str(Attr::Delimiter), most)?;
    Ok(vec![pieces, counts])
}

fn normalise(c: &Call<'_>) -> Outputs {
    let case = match c.text(Attr::CaseChangeAction, "NONE") {
        "NONE" => Case::Keep,
        "LOWER" => Case::Lower,
        "UPPER" => Case::Upper,
        other => return bad(format!("case_change_action is {other:?}")),
    };
    let sensitive = c.flag(Attr::IsCaseSensitive, false);
    one(kernel::normalise(
        c.input(0)?,
        case,
        sensitive,
        &c.texts(Attr::Stopwords),
    ))
}

fn ngrams(c: &Call<'_>) -> Outputs {
    let items: Vec<String> = match c.attributes.ints(Attr::PoolInt64s) {
        Some(v) if !v.is_empty() => v.iter().map(ToString::to_string).collect(),
        _ => c.texts(Attr::PoolStrings),
    };
    let (Some(counts), Some(indexes)) = (c.sizes(Attr::NgramCounts)?, c.sizes(Attr::NgramIndexes)?) else {
        return bad("attributes ngram_counts and ngram_indexes are wanted");
    };
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
    let p = Ngrams {
        lengths: (
            c.required_size(Attr::MinGramLength)?,
            c.required_size(Attr::MaxGramLength)?,
        ),
        max_skip: c.required_size(Attr::MaxSkipCount)?,
        pool,
        mode: match c.text(Attr::Mode, "") {
            "TF" => Weighting::TermFrequency,
            "IDF" => Weighting::Inverse,
            "TFIDF" => Weighting::Both,
            other => return bad(format!("mode is {other:?}, not TF, IDF or TFIDF")),
        },
        weights: c
            .attributes
            .floats(Attr::Weights)
            .map(|w| w.iter().copied().map(f64::from).collect()),
    };
    one(kernel::ngrams(c.input(0)?, &p))
}
