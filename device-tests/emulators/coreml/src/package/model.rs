//! The model of a package: its description and its program.

use std::collections::{BTreeMap, BTreeSet};

use polychip_ops::DType;

use super::blob;
use super::element::Type;
use super::wire::Message;

/// Type and extents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shaped {
    pub(crate) ty: Type,
    pub(crate) dims: Vec<usize>,
}

/// A value that is known.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Constant {
    pub(crate) of: Shaped,
    pub(crate) content: Content,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Content {
    Bytes(Vec<u8>),
    Bools(Vec<bool>),
    Text(String),
}

/// One operation, constants apart.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) kind: String,
    pub(crate) inputs: BTreeMap<String, Vec<String>>,
    pub(crate) outputs: Vec<(String, Shaped)>,
}

/// The function `main`.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) inputs: Vec<(String, Shaped)>,
    pub(crate) outputs: Vec<String>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) constants: BTreeMap<String, Constant>,
}

/// A model.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// Ports as the description has them.
    pub(crate) inputs: Vec<(String, Shaped)>,
    pub(crate) outputs: Vec<(String, Shaped)>,
    pub(crate) main: Function,
}

/// The one opset that this system executes, and the version of the format that goes with it.
const OPSET: &str = "CoreML7";
const SPECIFICATION: u64 = 8;

impl Model {
    /// Decodes a model, with the file of its weights.
    pub(crate) fn decode(bytes: &[u8], weights: &[u8]) -> Result<Model, String> {
        let model = Message::of(bytes)?;
        let version = model.number(1);
        if version != SPECIFICATION {
            return Err(format!(
                "specification version {version}; this system reads {SPECIFICATION}"
            ));
        }
        let description = model.message(2)?.ok_or("the model has no description")?;
        let (inputs, outputs) = (features(&description, 1)?, features(&description, 10)?);
        let program = model.message(502)?.ok_or("the model is no ML Program")?;
        let functions = program.entries(2)?;
        let [("main", function)] = &functions[..] else {
            return Err("the program has other functions than main".to_owned());
        };
        if function.text(2)? != OPSET {
            return Err(format!(
                "opset {}; this system executes {OPSET}",
                function.text(2)?
            ));
        }
        let blocks = function.entries(3)?;
        let block = blocks.iter().find(|(opset, _)| *opset == OPSET);
        let (_, block) = block.ok_or("the function has no block of its opset")?;
        let named_inputs = function.all(1).map(named).collect::<Result<_, _>>()?;
        let main = Function::decode(named_inputs, block, weights)?;
        let model = Model {
            inputs,
            outputs,
            main,
        };
        model.agree()?;
        Ok(model)
    }

    /// Checks that the description agrees with the function.
    fn agree(&self) -> Result<(), String> {
        if self.inputs != self.main.inputs {
            return Err("the description has other inputs than main".to_owned());
        }
        let names: Vec<&String> = self.outputs.iter().map(|(name, _)| name).collect();
        if names != self.main.outputs.iter().collect::<Vec<_>>() {
            return Err("the description has other outputs than main".to_owned());
        }
        let made = self
            .main
            .operations
            .iter()
            .flat_map(|operation| &operation.outputs);
        let made: BTreeMap<&String, &Shaped> = made.map(|(name, of)| (name, of)).collect();
        for (name, of) in &self.outputs {
            if made.get(name) != Some(&of) {
                return Err(format!("output {name} is made with another type, or by nothing"));
            }
        }
        Ok(())
    }
}

fn features(description: &Message<'_>, field: u64) -> Result<Vec<(String, Shaped)>, String> {
    let feature = |bytes: &[u8]| -> Result<(String, Shaped), String> {
        let feature = Message::of(bytes)?;
        let name = feature.text(1)?.to_owned();
        let ty = feature.message(3)?.ok_or_else(|| format!("{name} has no type"))?;
        let array = ty.message(5)?.ok_or_else(|| format!("{name} is no array"))?;
        let dims = array
            .numbers(1)?
            .into_iter()
            .map(|dim| dim as usize)
            .collect::<Vec<_>>();
        if dims.is_empty() || dims.contains(&0) {
            return Err(format!("{name} is an array of {dims:?}"));
        }
        let ty = Type::of_array(array.number(2))?;
        Ok((name, Shaped { ty, dims }))
    };
    description.all(field).map(feature).collect()
}

fn shaped(ty: &Message<'_>) -> Result<Shaped, String> {
    let tensor = ty.message(1)?.ok_or("a type that is no tensor")?;
    let mut dims = Vec::new();
    for dim in tensor.all(3) {
        let constant = Message::of(dim)?
            .message(1)?
            .ok_or("an extent that is not known")?;
        dims.push(constant.number(1) as usize);
    }
    if tensor.number(2) != dims.len() as u64 {
        return Err(format!("rank {} of {} extents", tensor.number(2), dims.len()));
    }
    Ok(Shaped {
        ty: Type::of(tensor.number(1))?,
        dims,
    })
}

fn named(bytes: &[u8]) -> Result<(String, Shaped), String> {
    let named = Message::of(bytes)?;
    let name = named.text(1)?.to_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(plain) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("{name:?} is no name"));
    }
    let ty = named.message(2)?.ok_or_else(|| format!("{name} has no type"))?;
    let of = shaped(&ty).map_err(|why| format!("{name}: {why}"))?;
    Ok((name, of))
}

fn value(message: &Message<'_>, weights: &[u8]) -> Result<Constant, String> {
    let of = shaped(&message.message(2)?.ok_or("a value has no type")?)?;
    let elements: usize = of.dims.iter().product();
    if let Some(file) = message.message(5)? {
        let name = file.text(1)?;
        if name != "@model_path/weights/weight.bin" {
            return Err(format!("weights in {name:?}"));
        }
        let bytes = blob::entry(weights, file.number(2), of.ty)?;
        return bytes_of(of, bytes, elements);
    }
    let tensor = message.message(3)?.ok_or("a value without content")?;
    let tensor = tensor.message(1)?.ok_or("a value that is no tensor")?;
    let ty = of.ty;
    let field = |number| -> Result<Message<'_>, String> {
        tensor
            .message(number)?
            .ok_or_else(|| format!("a value of {ty:?} elsewhere"))
    };
    match of.ty {
        Type::F32 => {
            let bytes = field(1)?.bytes(1).unwrap_or_default().to_vec();
            bytes_of(of, bytes, elements)
        }
        Type::I32 => {
            let numbers = field(2)?.numbers(1)?;
            let bytes = numbers
                .into_iter()
                .flat_map(|number| (number as i64 as i32).to_le_bytes())
                .collect();
            bytes_of(of, bytes, elements)
        }
        Type::F16 | Type::I8 | Type::U8 => {
            let bytes = field(7)?.bytes(1).unwrap_or_default().to_vec();
            bytes_of(of, bytes, elements)
        }
        Type::Bool => {
            let bools: Vec<bool> = field(3)?
                .numbers(1)?
                .into_iter()
                .map(|number| number != 0)
                .collect();
            if bools.len() != elements {
                return Err(format!("{} truth values for {:?}", bools.len(), of.dims));
            }
            Ok(Constant {
                of,
                content: Content::Bools(bools),
            })
        }
        Type::Text => {
            let text = field(4)?.text(1)?.to_owned();
            Ok(Constant {
                of,
                content: Content::Text(text),
            })
        }
    }
}

fn bytes_of(of: Shaped, bytes: Vec<u8>, elements: usize) -> Result<Constant, String> {
    let width = of.ty.dtype().and_then(DType::byte_width).unwrap_or(1);
    if bytes.len() != elements * width {
        return Err(format!("{} bytes for {:?} of {:?}", bytes.len(), of.ty, of.dims));
    }
    Ok(Constant {
        of,
        content: Content::Bytes(bytes),
    })
}

impl Function {
    fn decode(
        inputs: Vec<(String, Shaped)>,
        block: &Message<'_>,
        weights: &[u8],
    ) -> Result<Function, String> {
        let mut function = Function {
            inputs,
            outputs: Vec::new(),
            operations: Vec::new(),
            constants: BTreeMap::new(),
        };
        let mut known: BTreeSet<String> = function.inputs.iter().map(|(name, _)| name.clone()).collect();
        for operation in block.all(3) {
            let operation = Message::of(operation)?;
            let kind = operation.text(1)?.to_owned();
            let outputs: Vec<(String, Shaped)> = operation.all(3).map(named).collect::<Result<_, _>>()?;
            let at = |why: String| format!("{kind} {}: {why}", outputs.first().map_or("", |(name, _)| name));
            let mut inputs = BTreeMap::new();
            for (parameter, argument) in operation.entries(2)? {
                let mut names = Vec::new();
                for binding in argument.all(1) {
                    let name = Message::of(binding)?.text(1)?.to_owned();
                    if !known.contains(&name) {
                        return Err(at(format!(
                            "{parameter} is bound to {name:?}, which is not there yet"
                        )));
                    }
                    names.push(name);
                }
                inputs.insert(parameter.to_owned(), names);
            }
            for (name, _) in &outputs {
                if !known.insert(name.clone()) {
                    return Err(at(format!("{name} is made twice")));
                }
            }
            if kind == "const" {
                let attributes = operation.entries(5)?;
                let given = attributes.iter().find(|(name, _)| *name == "val");
                let (_, given) = given.ok_or_else(|| at("no val".to_owned()))?;
                let constant = value(given, weights).map_err(at)?;
                let [(name, of)] = &outputs[..] else {
                    return Err(at("not one output".to_owned()));
                };
                if *of != constant.of {
                    return Err(at(format!("declared {of:?}, and val is {:?}", constant.of)));
                }
                function.constants.insert(name.clone(), constant);
            } else {
                if kind.starts_with("constexpr_") {
                    // the operation itself holds its operands
                    let maker = outputs.first().map_or("", |(name, _)| name);
                    for (parameter, given) in operation.entries(5)? {
                        if parameter != "name" {
                            let name = format!("{maker}.{parameter}");
                            let constant = value(&given, weights).map_err(at)?;
                            function.constants.insert(name.clone(), constant);
                            inputs.insert(parameter.to_owned(), vec![name]);
                        }
                    }
                }
                function.operations.push(Operation {
                    kind,
                    inputs,
                    outputs,
                });
            }
        }
        for name in block.all(2) {
            let name = std::str::from_utf8(name).map_err(|_| "an output's name is no text")?;
            function.outputs.push(name.to_owned());
        }
        Ok(function)
    }
}
