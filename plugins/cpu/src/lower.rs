//! Lowering: a part becomes steps over values, with layouts, fusion, packing and memory decided once.
//!
//! Invariants:
//! 1. Same part, options, choices and instruction set: the same program, and the same packed weights, byte for byte.
//!    So a blob holds the packed weights and the choices only, and `load` lowers again.
//! 2. A tensor may exist in several forms; a step asks for the form it wants, and the conversion is added once, at its
//!    first use.
//! 3. A step is *fast* (a kernel of `cpu-kernels` on known shapes) or *reference* (the evaluator on boxed
//!    tensors); a node that its class's kernels do not cover falls to the reference, never to a wrong result.
//!
//! From the bottom up: properties of a node or an encoding (`function`, `window`, `encoding`, `epilogue`, `precision`,
//! `in_place`), the program builder (`builder`, `tensor_forms`, `steps`, `quantise`, `materialize`), the kernels of each op
//! class (`conv` to `softmax`), nodes with bodies (`control`, `scan`, `body`), nodes lowered at run time (`dynamic_shapes`,
//! `regions`) or computed on boxed tensors (`boxed`, `by_rank`), the choice of a kernel (`fuse`, `dispatch`), and the last passes
//! (`finish`, `dry_run`). A file imports only files below its own.
//!
//! Not here: running (`exec`), reading the flat graph (`part`), offsets (the SDK's `arena`).
//! Start reading at [`lower`], then `dispatch`.

mod argreduce;
mod attention;
mod blocks;
mod body;
mod boxed;
mod builder;
mod by_rank;
mod cached;
mod cast;
mod concat;
mod control;
mod conv;
mod conv_transpose;
mod cumulative;
mod data_dependent;
mod dispatch;
mod dry_run;
mod dynamic_shapes;
mod einsum;
mod elementwise;
mod elementwise_int;
mod encoding;
mod epilogue;
mod filter;
mod finish;
mod forest;
#[cfg(feature = "fourier")]
mod fourier;
mod function;
mod fuse;
mod gather;
mod gemm_int;
mod group_members;
mod half;
mod in_place;
mod int4;
mod int8;
mod integers;
mod loss;
mod materialize;
mod matmul;
mod movement;
mod normalise;
mod pool;
mod precision;
mod quantise;
mod recurrent;
mod reduce;
mod reference;
mod regions;
mod resize;
mod resize_axes;
mod reverse;
mod rotary;
mod sample;
mod scan;
mod scatter;
mod selection;
mod softmax;
mod sort;
mod statistics;
mod steps;
mod tensor_forms;
#[cfg(test)]
mod tests;
mod window;
mod window_max;

pub(crate) use builder::Options;
pub(crate) use dry_run::DryRun;

use polychip_sdk::{ErrorKind, Result};

use crate::part::{BodyPart, Part};
use crate::step::{Program, Step};
use crate::work::Repeated;
use builder::Lowered;

/// Lowers a part.
pub(crate) fn lower(part: &Part, options: &Options<'_>) -> Result<Program> {
    let (mut lowering, groups) = fuse::begin(part, options);
    let members = group_members::of(part, &groups);
    lowering.lower_body = lower_body;
    for port in 0..part.inputs.len() {
        lowering.feed(port)?;
    }
    let mut spans = Vec::new();
    for (index, members) in members.into_iter().enumerate() {
        let (first, is_single) = (lowering.steps.len(), members.len() == 1);
        if let Some((anchor, fused)) = groups.at(index) {
            lowering.node = anchor;
            lowering.members = members;
            dispatch::emit(&mut lowering, &part.nodes[anchor], fused).map_err(|error| {
                if error.node().is_none() {
                    error.at_node(index as u32)
                } else {
                    error
                }
            })?;
            if is_single && anchor == index {
                let steps = first..lowering.steps.len();
                spans.push(regions::Span { node: index, steps });
            }
        }
    }
    let regions = regions::find(&lowering, &spans);
    finish::finish(lowering, regions)
}

/// Lowers a part for its steps only (see [`dry_run`](mod@dry_run)).
pub(crate) fn dry_run(part: &Part, options: &Options<'_>) -> DryRun {
    dry_run::dry_run(part, options, lower_body)
}

/// Lowers a body as a part of its own, for its steps only where it is `dry`; `None` where it cannot be.
fn lower_body(body: &BodyPart, options: &Options<'_>, dry: bool) -> Result<Option<Lowered>> {
    if dry {
        let dry = dry_run(&body.part, options);
        let whole = dry.refused.iter().all(Option::is_none);
        return Ok(whole.then(|| Lowered {
            program: None,
            work: works(&dry.steps),
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
