//! Converts a decoded function to a program of the chip.
//!
//! Invariants:
//! 1. An operation must declare the type and extents that follow from its op; others are refused.
//! 2. Unknown arguments and missing required arguments of an op are refused.
//!
//! Not here: how steps are computed (`polychip_emulator_chip::program`).

mod args;
mod maker;
mod ops;
mod quantised;

use polychip_emulator_chip::program::Program;
use polychip_emulator_chip::table::Width;

use crate::package::{Function, Model, Type};
use maker::Maker;

/// What the emulator reports about one operation.
pub(crate) struct Stated {
    pub(crate) op: String,
    pub(crate) output: String,
    /// Its share of the model's time, by the chip's table.
    pub(crate) weight: f64,
    /// Whether all its tensors are 16-bit floats or 8-bit integers, which the Neural Engine
    /// requires.
    pub(crate) half: bool,
}

/// A model that can be run.
pub(crate) struct Ready {
    pub(crate) model: Model,
    pub(crate) program: Program,
    pub(crate) operations: Vec<Stated>,
}

/// Builds a model.
pub(crate) fn build(model: Model) -> Result<Ready, String> {
    let main: &Function = &model.main;
    let mut maker = Maker::new(main);
    let mut inputs = Vec::new();
    for (name, of) in &main.inputs {
        inputs.push(maker.input(name, of)?);
    }
    for operation in &main.operations {
        let output = operation.outputs.first().map_or("", |(name, _)| name);
        ops::operation(&mut maker, operation).map_err(|why| format!("{} {output}: {why}", operation.kind))?;
    }
    let mut outputs = Vec::new();
    for name in &main.outputs {
        outputs.push(maker.id(name)?);
    }
    let chip = crate::world::chip();
    let times = maker.times(chip, Width::Bits16);
    let whole: f64 = times.iter().sum::<f64>().max(1.0);
    let stated = |(operation, time): (&crate::package::Operation, &f64)| Stated {
        op: format!("ios17.{}", operation.kind),
        output: operation
            .outputs
            .first()
            .map_or_else(String::new, |(name, _)| name.clone()),
        weight: time / whole,
        half: operation
            .outputs
            .iter()
            .all(|(_, of)| matches!(of.ty, Type::F16 | Type::I8 | Type::U8))
            || operation.kind == "cast",
    };
    let operations = main.operations.iter().zip(&times).map(stated).collect();
    let program = maker.builder.finish(&inputs, &outputs)?;
    Ok(Ready {
        program,
        operations,
        model,
    })
}
