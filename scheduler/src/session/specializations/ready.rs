//! What a run needs, if it is made: for callers that never wait.
//!
//! Not here: making it (`specializations`, `making`), the thread that does so ahead (`session::try_submit`).

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Kind, Open, Shapes};
use crate::error::Result;
use crate::session::background::Background;
use crate::session::buckets::{Padding, Sizes};
use crate::session::io_specs::sizes_of_strings;
use crate::session::specialization_state::Inner;
use crate::tensor::Input;

/// A specialisation, and the valid sizes of its runs if it belongs to a larger bucket.
type Found = (Arc<Inner>, Option<Arc<Padding>>);

impl Shapes {
    /// As [`Shapes::of`], if the specialisation exists.
    pub(crate) fn of_made(&self, inputs: &[&Input]) -> Result<Option<Found>> {
        let open = match &self.kind {
            Kind::Known(special) => return Ok(Some((Arc::clone(&special.inner), None))),
            Kind::Open(open) => open,
        };
        let shapes = self.shapes_of(inputs)?;
        let shapes = shapes
            .iter()
            .map(|(index, shape)| Ok((*index, Cow::Borrowed(&**shape))));
        let (sizes, padding) = open.bucket(self.sizes(open, shapes)?)?;
        let made = open.made_for(&sizes, self.background.as_ref());
        Ok(made.map(|inner| (inner, padding)))
    }

    /// The specialisation for these shapes, made if missing, whose plan is then ready.
    pub(crate) fn make_ready(&self, shapes: &[(usize, &[usize])]) -> Result<()> {
        let inner = match &self.kind {
            Kind::Known(special) => Arc::clone(&special.inner),
            Kind::Open(_) => self.prepare(shapes)?,
        };
        inner.mind_heat(inner.now_ns());
        inner.ready().map(drop)
    }

    /// The shapes of inputs by index; for strings whose sizes are open, those of the strings.
    pub(crate) fn shapes_of(&self, inputs: &[&Input]) -> Result<Vec<(usize, Vec<usize>)>> {
        let has_open_strings = |index: usize| match &self.kind {
            Kind::Known(_) => false,
            Kind::Open(open) => open.strings.get(index).is_some_and(Option::is_some),
        };
        let one = |input: &&Input| {
            input.check_sized()?;
            if has_open_strings(input.index) {
                return Ok((input.index, sizes_of_strings(input)?));
            }
            Ok((input.index, input.shape().to_vec()))
        };
        inputs.iter().map(one).collect()
    }
}

impl Open {
    /// The specialisation for these sizes, if it exists.
    fn made_for(&self, sizes: &Sizes, background: Option<&Background>) -> Option<Arc<Inner>> {
        let (inner, stands_in) = self.lock().find(sizes)?;
        self.hits.fetch_add(1, Ordering::Relaxed);
        if stands_in && background.is_some() {
            self.stood_in.fetch_add(1, Ordering::Relaxed);
        }
        Some(inner)
    }
}
