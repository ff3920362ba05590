//! The planned sizes of a session with buckets, and the valid elements of a padded run.
//!
//! Invariants:
//! 1. A session with buckets exists only if the graph's results are proved independent along each
//!    of their dimensions (`polychip_graph::true_shapes`), for a size between buckets of each.
//! 2. A run is padded only with a proof for its exact sizes; without one its sizes are planned
//!    individually.
//! 3. A run whose sizes were proved before allocates nothing here.
//!
//! Not here: copying (`padding`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use polychip_graph::{Graph, TrueShapes, true_shapes};
use smallvec::SmallVec;

use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;

/// Sizes of the open dimensions, in the order of their names.
pub(crate) type Sizes = SmallVec<[usize; 8]>;

/// Proofs that are kept: each is two lists of small shapes.
const KEPT_PROOFS: usize = 1024;

/// The buckets of a session.
#[derive(Debug)]
pub(crate) struct Buckets {
    /// By open dimension: ascending, empty where every size is planned for as it is.
    sizes: Vec<Vec<usize>>,
    /// By true sizes, newest last; none where nothing is proved.
    proofs: Mutex<Vec<(Sizes, Option<Arc<Padding>>)>>,
    count: Arc<PaddingCount>,
}

/// The valid elements of a padded run, and the counter of its copies.
#[derive(Debug)]
pub(crate) struct Padding {
    pub(crate) shapes: TrueShapes,
    pub(crate) count: Arc<PaddingCount>,
}

/// Padded runs of a session.
#[derive(Debug, Default)]
pub(crate) struct PaddingCount {
    runs: AtomicU64,
    bytes: AtomicU64,
}

impl PaddingCount {
    pub(crate) fn add_run(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Buckets {
    /// The buckets that a policy asks for, of a model with these open dimensions, whose canonical graph is given where it
    /// is needed; none where it asks for none.
    pub(crate) fn new<'a>(
        model: &Model,
        names: &[String],
        wanted: &[(String, Vec<usize>)],
        canonical: impl FnOnce() -> Result<&'a Graph>,
    ) -> Result<Option<Buckets>> {
        if wanted.is_empty() {
            return Ok(None);
        }
        let refuse = |words: String| {
            let words = format!("{}: {words} (Policy::shapes)", model.path().display());
            Err(Error::new(ErrorKind::BadInput, words))
        };
        let mut sizes: Vec<Vec<usize>> = vec![Vec::new(); names.len()];
        for (name, buckets) in wanted {
            let Some(place) = names.iter().position(|other| other == name) else {
                let open = names.join(", ");
                return refuse(format!(
                    "buckets for {name:?}, which is not a dimension that the model leaves open: {open}"
                ));
            };
            if buckets.is_empty() || buckets.contains(&0) {
                return refuse(format!(
                    "buckets of {name:?} are {buckets:?}; expected at least one size, all above 0"
                ));
            }
            if !sizes[place].is_empty() {
                return refuse(format!("buckets of {name:?} are set twice"));
            }
            sizes[place].clone_from(buckets);
        }
        let graph = canonical()?;
        let has_buckets = |place: &usize| !sizes[*place].is_empty();
        for place in (0..names.len()).filter(has_buckets) {
            let name = &names[place];
            if let Err(error) = prove(graph, names, &sizes, place) {
                let words = format!(
                    "{}: runs cannot be padded to buckets of {name:?} (Policy::shapes)",
                    model.path().display()
                );
                return Err(Error::caused(ErrorKind::BadInput, words, error));
            }
        }
        Ok(Some(Buckets {
            sizes,
            proofs: Mutex::default(),
            count: Arc::default(),
        }))
    }

    /// The sizes that are planned for these.
    pub(crate) fn planned(&self, sizes: &Sizes) -> Sizes {
        let next = |(size, buckets): (&usize, &Vec<usize>)| {
            // nothing to pad, or larger than every bucket
            let larger = buckets.iter().find(|bucket| *bucket >= size);
            larger.filter(|_| *size > 0).copied().unwrap_or(*size)
        };
        sizes.iter().zip(&self.sizes).map(next).collect()
    }

    /// What of a run of these sizes is true where it is padded to the planned ones; none where that is not proved.
    pub(crate) fn padding(
        &self,
        graph: &Graph,
        names: &[String],
        planned: &Sizes,
        sizes: &Sizes,
    ) -> Option<Arc<Padding>> {
        let lock = || self.proofs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = lock().iter().find(|(known, _)| known == sizes) {
            return found.clone();
        }
        let named = |sizes: &Sizes| -> BTreeMap<String, usize> {
            names.iter().cloned().zip(sizes.iter().copied()).collect()
        };
        let proved = match true_shapes(graph, &named(planned), &named(sizes)) {
            Ok(shapes) => Some(Arc::new(Padding {
                shapes,
                count: Arc::clone(&self.count),
            })),
            Err(error) => {
                tracing::info!("sizes {sizes:?} are not padded: {error}");
                None
            }
        };
        let mut proofs = lock();
        if proofs.len() == KEPT_PROOFS {
            proofs.remove(0);
        }
        proofs.push((sizes.clone(), proved.clone()));
        proved
    }

    /// Whether a dimension has buckets.
    pub(crate) fn has(&self, names: &[String], name: &str) -> bool {
        let place = names.iter().position(|other| other == name);
        place.is_some_and(|place| !self.sizes[place].is_empty())
    }

    /// Buckets by dimension, for the report.
    pub(crate) fn by_name(&self, names: &[String]) -> BTreeMap<String, Vec<usize>> {
        let all = names.iter().cloned().zip(self.sizes.iter().cloned());
        all.filter(|(_, buckets)| !buckets.is_empty()).collect()
    }

    pub(crate) fn count(&self) -> &PaddingCount {
        &self.count
    }
}

/// Sizes that dimensions without buckets are given for the first proof, where it needs some: the first that breaks no rule
/// of the model.
const SAMPLES: [usize; 5] = [64, 32, 128, 16, 1];

/// Proves that runs may be padded along one dimension: from the bucket before the largest one to that, where that size
/// breaks no rule of the model, else from another. Other open dimensions have no size, or where nothing is proved then, a
/// sample: what follows from a size is known of numbers only, and a run's own sizes are proved before it is padded.
fn prove(
    graph: &Graph,
    names: &[String],
    sizes: &[Vec<usize>],
    place: usize,
) -> std::result::Result<(), polychip_graph::Error> {
    let without = prove_beside(graph, names, sizes, place, None);
    if without.is_ok() || names.len() == 1 {
        return without;
    }
    for sample in SAMPLES {
        match prove_beside(graph, names, sizes, place, Some(sample)) {
            Err(error) if error.kind() != polychip_graph::ErrorKind::Mixed => {}
            judged => return judged,
        }
    }
    without
}

fn prove_beside(
    graph: &Graph,
    names: &[String],
    sizes: &[Vec<usize>],
    place: usize,
    sample: Option<usize>,
) -> std::result::Result<(), polychip_graph::Error> {
    let named = |size| {
        let others = names.iter().zip(sizes).enumerate();
        let others = others.filter(|(other, _)| *other != place);
        let others = others.filter_map(|(_, (name, buckets))| {
            let size = sample.map(|sample| buckets.last().copied().unwrap_or(sample))?;
            Some((name.clone(), size))
        });
        let own = (names[place].clone(), size);
        others.chain([own]).collect::<BTreeMap<String, usize>>()
    };
    let buckets = &sizes[place];
    let largest = buckets[buckets.len() - 1];
    let before = buckets.iter().rev().nth(1).copied();
    let others = [largest.saturating_sub(1), largest / 2, 1];
    let mut first = None;
    let smaller = before.into_iter().chain(others);
    for size in smaller.filter(|size| (1..largest).contains(size)) {
        match true_shapes(graph, &named(largest), &named(size)) {
            Err(error) if error.kind() != polychip_graph::ErrorKind::Mixed => {
                first.get_or_insert(error);
            }
            judged => return judged.map(drop),
        }
    }
    // a bucket of one pads nothing
    first.map_or(Ok(()), Err)
}
