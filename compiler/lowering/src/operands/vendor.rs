//! What a plugin says of its chips, for the front.
//!
//! Invariant: an answer depends on its arguments only.

use polychip_ops::Op;

use super::builder::{Domain, Lower};
use super::program::{OperandId, Quant, Type};
use super::traits::{Stored, Stores};
use crate::{Layout, Node, Outcome};

/// A chip.
pub trait Vendor: Stores {
    /// Whether an op is a step of its own; some others are made of several.
    fn has(&self, op: Op) -> bool;

    /// Whether a Clip to this range is a step; else it is a maximum and a minimum.
    fn clips(&self, range: [f32; 2]) -> bool;

    /// The order in which an op must be computed, where it differs from other chips'.
    fn order(&self, op: Op, rank: usize) -> Option<Layout> {
        let _ = (op, rank);
        None
    }

    /// The encoding that the chip itself gives to a result of an op on integers of this type and encoding.
    fn own_quant(&self, op: Op, ty: Type, operand: &Quant) -> Option<Quant> {
        let _ = (op, ty, operand);
        None
    }

    /// Refuses what this chip alone does not compute.
    ///
    /// # Errors
    /// What it does not compute.
    fn check(&self, lower: &Lower<'_>, node: &Node, domain: Option<Domain>) -> Outcome<()> {
        let _ = (lower, node, domain);
        Ok(())
    }

    /// Refuses floats that the chip does not compute in; `name` is that of the tensor.
    ///
    /// # Errors
    /// Why not.
    fn floats(&self, ty: Type, name: &str) -> Outcome<()> {
        let _ = (ty, name);
        Ok(())
    }

    /// How integers are stored as weights: their type, what is taken off each, and the encoding.
    ///
    /// # Errors
    /// Where they cannot be.
    fn weights(&self, stored: &Stored<'_>) -> Outcome<(Type, i32, Quant)>;

    /// The type that the learned scales of a normalisation of integers are quantised to.
    fn scale_type(&self, data: Type) -> Type {
        let _ = data;
        Type::Ufixed8
    }

    /// The input of a step with weights, where the chip wants it as the type of the result.
    ///
    /// # Errors
    /// Where it cannot be.
    fn widened(&self, lower: &mut Lower<'_>, id: OperandId, result: Type) -> Outcome<OperandId> {
        let _ = (lower, result);
        Ok(id)
    }

    /// Makes the operands of the steps from `first` on one type, where a chip wants that.
    ///
    /// # Errors
    /// Where they cannot be.
    fn unify(&self, lower: &mut Lower<'_>, first: usize) -> Outcome<()> {
        let _ = (lower, first);
        Ok(())
    }
}
