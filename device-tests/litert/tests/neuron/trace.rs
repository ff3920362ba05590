//! The emulator's record of calls, and the operations in it as texts that can be compared.
//!
//! Invariants:
//! 1. A text holds the models that were compiled and stored, and of those all that an operation says but for the numbers
//!    of operands, which are numbered in the order in which operations name them.
//! 2. Operations and types have the names of our header, where it has any.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use serde::Deserialize;
use serde_json::Value;

/// Our declarations.
const HEADER: &str = include_str!("../../../../sys/headers/neuron.h");
const TYPES: &str = "/* types of operands */";
const OPERATIONS: &str = "/* operations that we use */";

/// An operand, or what later calls set for it.
#[derive(Debug, Default, Deserialize)]
struct Operand {
    #[serde(rename = "type")]
    ty: i64,
    dims: Vec<u32>,
    scale: f64,
    zero: i64,
    #[serde(skip)]
    channels: Option<String>,
    #[serde(skip)]
    value: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Operation {
    operation: i64,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

/// A model as it was built.
#[derive(Debug, Default)]
struct Model {
    operands: Vec<Operand>,
    operations: Vec<Operation>,
    ports: [Vec<usize>; 2],
    stored: usize,
}

/// What was called.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    models: Vec<Model>,
}

/// Reads lines of a trace.
pub(crate) fn parse(text: &str) -> Result<Seen> {
    let mut seen = Seen::default();
    // numbers of models are given anew when a model is gone
    let mut places = BTreeMap::new();
    for line in text.lines() {
        let call: Value = serde_json::from_str(line)?;
        let Some(number) = call["model"].as_u64() else {
            continue;
        };
        let name = call["call"].as_str().unwrap_or_default().to_owned();
        if name == "NeuronModel_create" {
            places.insert(number, seen.models.len());
            seen.models.push(Model::default());
        }
        if let Some(&place) = places.get(&number) {
            seen.models[place].call(&name, call)?;
        }
    }
    Ok(seen)
}

impl Model {
    fn call(&mut self, name: &str, call: Value) -> Result<()> {
        let list = |key: &str| serde_json::from_value::<Vec<usize>>(call[key].clone());
        match name {
            "NeuronModel_addOperand" => self.operands.push(serde_json::from_value(call)?),
            "NeuronModel_setOperandValue" => {
                let operand = self.operand(&call);
                if let Some(operand) = operand {
                    let bytes = &call["value"];
                    operand.value = Some(if bytes.is_null() {
                        format!(
                            "{} bytes {}",
                            call["bytes"],
                            &call["hash"].as_str().unwrap_or_default()[..16]
                        )
                    } else {
                        bytes.to_string()
                    });
                }
            }
            "NeuronModel_setOperandSymmPerChannelQuantParams" => {
                let text = format!("axis {} {}", call["axis"], call["scales"]);
                if let Some(operand) = self.operand(&call) {
                    operand.channels = Some(text);
                }
            }
            "NeuronModel_addOperation" => self.operations.push(serde_json::from_value(call)?),
            "NeuronModel_identifyInputsAndOutputs" => self.ports = [list("inputs")?, list("outputs")?],
            "NeuronCompilation_storeCompiledNetwork" => self.stored += 1,
            _ => {}
        }
        Ok(())
    }

    fn operand(&mut self, call: &Value) -> Option<&mut Operand> {
        let index = usize::try_from(call["operand"].as_u64()?).ok()?;
        self.operands.get_mut(index)
    }

    fn text(&self, text: &mut String) {
        let mut numbers = BTreeMap::new();
        for operation in &self.operations {
            let _ = writeln!(text, "{}", named(OPERATIONS, operation.operation));
            for (side, operands) in [("<", &operation.inputs), (">", &operation.outputs)] {
                for &index in operands {
                    let _ = writeln!(text, "  {side} {}", self.operand_text(index, &mut numbers));
                }
            }
        }
    }

    fn operand_text(&self, index: usize, numbers: &mut BTreeMap<usize, usize>) -> String {
        let Some(operand) = self.operands.get(index) else {
            return format!("no operand {index}");
        };
        let contents = operand.text();
        if operand.value.is_some() {
            return contents;
        }
        let next = numbers.len();
        let number = *numbers.entry(index).or_insert(next);
        let role = match (self.ports[0].contains(&index), self.ports[1].contains(&index)) {
            (true, _) => "in",
            (_, true) => "out",
            _ => "tensor",
        };
        format!("{role} {number} {contents}")
    }
}

impl Operand {
    fn text(&self) -> String {
        let mut text = format!("{}{:?}", named(TYPES, self.ty), self.dims).replace(", ", ",");
        if self.scale != 0.0 {
            let _ = write!(text, " scale {} zero {}", self.scale, self.zero);
        }
        if let Some(channels) = &self.channels {
            let _ = write!(text, " {channels}");
        }
        if let Some(value) = &self.value {
            let _ = write!(text, " = {value}");
        }
        text
    }
}

impl Seen {
    /// Networks that were taken.
    pub(crate) fn stored(&self) -> usize {
        self.models.iter().map(|model| model.stored).sum()
    }

    /// Operations of the models that were taken: one line each, and one per operand.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for model in self.models.iter().filter(|model| model.stored > 0) {
            model.text(&mut text);
        }
        text
    }
}

/// What our header calls a number of one of its lists.
fn named(list: &str, number: i64) -> String {
    let (_, rest) = HEADER
        .split_once(list)
        .unwrap_or_else(|| panic!("the header has no list {list:?}"));
    let (rest, _) = rest.split_once("};").unwrap_or_default();
    let mut lines = rest
        .lines()
        .filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = "));
    let found = lines.find(|(_, value)| value.parse() == Ok(number));
    match found {
        Some((name, _)) => name.trim_start_matches("NEURON_").to_owned(),
        None => format!("number {number}"),
    }
}
