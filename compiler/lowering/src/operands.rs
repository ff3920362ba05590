//! The front of plugins whose vendor takes a graph of operands and operations: nodes become steps in no vendor's words.
//!
//! Invariants:
//! 1. What is not exactly a step is refused with a reason; nothing is approximated.
//! 2. What chips differ in is an argument: [`Traits`], plain data, and [`Vendor`].
//! 3. A file imports files below its own only: `program`, `traits`, `info`, `builder` with `vendor`, then the files of op classes,
//!    `dispatch`.
//!
//! Not here: what a vendor calls a step and its parameters (each plugin's `encode`), its library.
//! Start reading at [`whole`], then `dispatch`.

mod builder;
pub mod constant;
mod dispatch;
mod elementwise;
mod image;
mod info;
mod layout_preference;
mod movement;
mod norm;
mod product;
mod program;
mod quantise;
mod reduce;
mod traits;
mod weights;

pub use builder::{Domain, Lower, Vendor};
pub use dispatch::offers;
pub use info::{Info, infos};
pub use program::{Kind, Operand, OperandId, Place, Program, Quant, Resampling, Role, Step, Type};
pub use traits::{Stored, Stores, Traits};

use crate::{Layout, Node, Outcome, Part};

/// Lowers a part.
///
/// # Errors
/// The node of the call's graph that is refused, and why.
pub fn whole(part: &Part, vendor: &dyn Vendor) -> Outcome<Program> {
    let infos = infos(part, vendor);
    let layouts = layout_preference::layouts(part, &infos, vendor);
    let mut lower = Lower::new(part, &infos, vendor, true);
    for &input in &part.inputs {
        lower.port_in(input)?;
    }
    for (node, layout) in part.nodes.iter().zip(layouts) {
        dispatch::node(&mut lower, node, layout).map_err(|refusal| refusal.at(node.index))?;
    }
    for &output in &part.outputs {
        lower.port_out(output)?;
    }
    Ok(lower.program)
}

/// Lowers one node as a part of its own, once in each order that it may be planned in. Without `data`, constants are
/// empty.
///
/// # Errors
/// Why it is refused.
pub fn alone(
    part: &Part,
    infos: &[Outcome<Info>],
    vendor: &dyn Vendor,
    node: &Node,
    data: bool,
) -> Outcome<Vec<Program>> {
    let orders = if layout_preference::is_planned(node, infos, vendor) {
        &[Layout::RowMajor, Layout::ChannelsLast][..]
    } else {
        &[Layout::RowMajor]
    };
    let lowered = orders.iter().map(|&layout| {
        let mut lower = Lower::new(part, infos, vendor, data);
        for (place, input) in node.inputs.iter().enumerate() {
            if let Some(tensor) = *input
                && !node.inputs[..place].contains(input)
                && !part.is_constant(tensor)
            {
                lower.port_in(tensor)?;
            }
        }
        dispatch::node(&mut lower, node, layout)?;
        for output in node.writes() {
            lower.port_out(output)?;
        }
        Ok(lower.program)
    });
    lowered.collect()
}
