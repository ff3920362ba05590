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
//! (`conv` to `softmax`), who is given a node (`fuse`, `dispatch`), and what becomes of all (`finish`, `draft`). A file
//! imports files below its own only.
//!
//! Not here: running (`exec`), reading the flat graph (`part`), offsets (the SDK's `arena`).
//! Start reading at [`lower`], then `dispatch`.

mod attention;
mod body;
mod builder;
mod cast;
mod codes;
mod concat;
mod conv;
mod conv_transpose;
mod dispatch;
mod draft;
mod einsum;
mod elementwise;
mod encoding;
mod filter;
mod finish;
mod forms;
mod fourier;
mod function;
mod fuse;
mod gather;
mod in_place;
mod integers;
mod matmul;
mod movement;
mod nibbles;
mod normalise;
mod places;
mod pool;
mod precision;
mod quantise;
mod recurrent;
mod reduce;
mod reference;
mod resize;
mod selection;
mod softmax;
mod sort;
mod steps;
mod tail;
#[cfg(test)]
mod tests;
mod typed;
mod window;

pub(crate) use builder::Options;
pub(crate) use draft::{Draft, draft};

use polychip_sdk::Result;

use crate::part::Part;
use crate::step::Program;

/// Lowers a part.
pub(crate) fn lower(part: &Part, options: &Options<'_>) -> Result<Program> {
    let (mut lowering, groups) = fuse::begin(part, options);
    for port in 0..part.inputs.len() {
        lowering.feed(port)?;
    }
    for index in 0..part.nodes.len() {
        if let Some((anchor, tail)) = groups.at(index) {
            lowering.node = anchor;
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
