//! Shapes of ops on text.
//!
//! Invariant: a size that depends on the text is unknown, or a bound where there is one.
//! Not here: the text.

use crate::infer::call::{Call, Out, Result, bad_input, bail, unknown};
use crate::{Attr, Dim, Op};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    let same = || call.dims(0).map(<[_]>::to_vec);
    match call.op {
        Op::RegexFullMatch => Ok(vec![Out::new(same())]),
        Op::StringConcat => Ok(vec![Out::new(call.broadcast(&[call.dims(0), call.dims(1)])?)]),
        Op::StringNormalizer => normalise(call),
        Op::StringSplit => {
            let parts = same().map(|mut shape| {
                shape.push(Dim::Unknown);
                shape
            });
            Ok(vec![Out::new(parts), Out::new(same())])
        }
        _ => vectorise(call),
    }
}

fn normalise(call: &Call<'_>) -> Result<Vec<Out>> {
    match call.dims(0) {
        None => return Ok(vec![Out::unranked()]),
        Some([_]) => {}
        Some([one, _]) if !one.differs(&Dim::Known(1)) => {}
        Some(_) => bad_input!(call, 0, "neither [c] nor [1, c]"),
    }
    let out = Out::new(call.dims(0).map(<[_]>::to_vec));
    let removes = call
        .attributes
        .strings(Attr::Stopwords)
        .is_some_and(|words| !words.is_empty());
    // A text of stop words alone leaves one empty string.
    Ok(vec![if removes { out.bounded() } else { out }])
}

fn vectorise(call: &Call<'_>) -> Result<Vec<Out>> {
    let indexes = call.attributes.ints(Attr::NgramIndexes).unwrap_or_default();
    let Some(largest) = indexes.iter().max() else {
        bail!(call, Attribute, "ngram_indexes is empty");
    };
    let size = call.size_from(largest.saturating_add(1), 1, "the largest of ngram_indexes")?;
    Ok(vec![match call.dims(0) {
        None => Out::unranked(),
        Some([_]) => Out::dims(vec![Dim::Known(size)]),
        Some([batch, _]) => Out::dims(vec![batch.clone(), Dim::Known(size)]),
        Some([]) => Out::dims(unknown(1)),
        Some(_) => bad_input!(call, 0, "not of rank 1 or 2"),
    }])
}
