//! Lowering: a part becomes steps over values, with layouts, fusion, packing and memory decided once.
//!
//! Invariants:
//! 1. Same part, options, choices and instruction set: the same program, and the same packed weights, byte for byte.
//!    So a blob holds the packed weights and the choices only, and `load` lowers again.
//! 2. A tensor may exist in several forms; a step asks for the form it wants, and what makes it is added once, where it is
//!    first asked for.
//! 3. A step is *fast* (a kernel of `cpu-kernels` on known shapes) or *reference* (the evaluator on boxed
//!    tensors); what a class's kernels do not cover falls to the reference, never to a wrong answer.
//!
//! From the bottom up: what a node or an encoding says (`function`, `window`, `encoding`, `tail`, `precision`,
//! `in_place`), the program in the making (`builder`, `places`, `steps`, `quantise`, `forms`), the kernels of each op class
//! (`conv` to `softmax`), nodes with bodies (`control`, `scan`, `body`), what is lowered while a part runs (`late`), who is
//! given a node (`fuse`, `dispatch`), and what becomes of all (`finish`, `draft`). A file
//! imports files below its own only.
//!
//! Not here: running (`exec`), reading the flat graph (`part`), offsets (the SDK's `arena`).
//! Start reading at [`lower`], then `dispatch`.

mod attention;
mod blocks;
mod body;
mod builder;
mod cached;
mod cast;
mod codes;
mod concat;
mod control;
mod conv;
mod conv_transpose;
mod dispatch;
mod draft;
mod einsum;
mod elementwise;
mod encoding;
mod filter;
mod finish;
mod forest;
mod forms;
mod found;
#[cfg(feature = "fourier")]
mod fourier;
mod function;
mod fuse;
mod gather;
mod halves;
mod in_place;
mod integers;
mod late;
mod loss;
mod matmul;
mod members;
mod movement;
mod nibbles;
mod normalise;
mod pick;
mod places;
mod plain_product;
mod pool;
mod precision;
mod quantise;
mod recurrent;
mod reduce;
mod reference;
mod resize;
mod resize_axes;
mod rotary;
mod sample;
mod scan;
mod scatter;
mod selection;
mod softmax;
mod sort;
mod statistics;
mod steps;
mod tail;
#[cfg(test)]
mod tests;
mod typed;
mod window;
mod window_max;

pub(crate) use builder::Options;
pub(crate) use draft::Draft;

use polychip_sdk::{ErrorKind, Result};

use crate::part::{BodyPart, Part};
use crate::step::{Program, Step};
use crate::work::Repeated;
use builder::Lowered;

/// Lowers a part.
pub(crate) fn lower(part: &Part, options: &Options<'_>) -> Result<Program> {
    let (mut lowering, groups) = fuse::begin(part, options);
    let members = members::of(part, &groups);
    lowering.lower_body = lower_body;
    for port in 0..part.inputs.len() {
        lowering.feed(port)?;
    }
    for (index, members) in members.into_iter().enumerate() {
        if let Some((anchor, tail)) = groups.at(index) {
            lowering.node = anchor;
            lowering.members = members;
            dispatch::emit(&mut lowering, &part.nodes[anchor], tail).map_err(|error| {
                if error.node().is_none() {
                    error.at_node(index as u32)
                } else {
                    error
                }
            })?;
        }
    }
    finish::finish(lowering)
}

/// Lowers a part for its steps alone (see [`draft`](mod@draft)).
pub(crate) fn draft(part: &Part, options: &Options<'_>) -> Draft {
    draft::draft(part, options, lower_body)
}

/// Lowers a body as a part of its own, for its steps alone where it is `dry`; `None` where it cannot be.
fn lower_body(body: &BodyPart, options: &Options<'_>, dry: bool) -> Result<Option<Lowered>> {
    if dry {
        let draft = draft(&body.part, options);
        let whole = draft.refused.iter().all(Option::is_none);
        return Ok(whole.then(|| Lowered {
            program: None,
            work: works(&draft.steps),
        }));
    }
    match lower(&body.part, options) {
        Ok(program) => Ok(Some(Lowered {
            work: works(&program.steps),
            program: Some(program),
        })),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(error),
    }
}

/// What steps do, those inside them among it.
fn works(steps: &[Step]) -> Vec<Repeated> {
    let works = steps.iter().flat_map(|step| {
        let own = Repeated {
            name: step.name,
            work: step.work,
            times: 1,
        };
        std::iter::once(own).chain(step.within.iter().copied())
    });
    works.collect()
}
