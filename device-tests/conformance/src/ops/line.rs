//! Parses `ops.txt`.
//!
//! Invariant: an unknown word is an error with its line.

use std::sync::Arc;

use polychip_ops::{Attr, AttrKind, AttrValue, Attributes, DType, DTypes, Op, OpSpec, PortKind};

use super::build::{Class, Fill, Input, Spec};
use crate::value::literal;

/// Shape classes of ops with one input: name and sizes.
const UNARY: &[(&str, &[usize])] = &[
    ("scalar", &[]),
    ("one", &[1]),
    ("prime", &[17]),
    ("odd", &[3, 7]),
    ("image", &[1, 3, 5, 7]),
    ("rank5", &[2, 1, 3, 1, 5]),
    ("empty", &[0, 3]),
    ("large", &[65, 257]),
];
/// Pairs of shapes that broadcast.
const BINARY: &[(&str, &[usize], &[usize])] = &[
    ("same", &[3, 7], &[3, 7]),
    ("scalar", &[3, 7], &[]),
    ("scalar-first", &[], &[3, 7]),
    ("row", &[3, 7], &[7]),
    ("column", &[3, 7], &[3, 1]),
    ("both", &[3, 1], &[1, 7]),
    ("image", &[1, 3, 5, 7], &[3, 1, 1]),
    ("rank5", &[2, 1, 3, 1, 5], &[3, 4, 1]),
    ("empty", &[0, 3], &[1, 3]),
    ("large", &[65, 257], &[257]),
];
/// Classes that types other than f32 are tried on.
const FEW: &[&str] = &["scalar", "odd", "same", "row"];

/// The plain element types.
const PLAIN: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::Bool,
];

/// Reads the whole table.
pub(super) fn read(text: &str) -> Result<Vec<Arc<Spec>>, String> {
    let mut specs = Vec::new();
    let mut family = "default".to_owned();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section.clone_into(&mut family);
            continue;
        }
        one(&family, line, &mut specs).map_err(|words| format!("line {}: {words}", number + 1))?;
    }
    Ok(specs)
}

fn one(family: &str, line: &str, specs: &mut Vec<Arc<Spec>>) -> Result<(), String> {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let (ops, name) = columns[0].split_once(' ').ok_or("no name")?;
    let types = columns.get(1).ok_or("no element types")?;
    let inputs = columns.get(2).ok_or("no inputs")?;
    let mut attributes = columns.get(3).copied().unwrap_or("");
    let mut outputs = columns.get(4).copied();
    if attributes.parse::<usize>().is_ok() {
        (attributes, outputs) = ("", Some(attributes));
    }
    for op in ops.split(',') {
        let op = Op::from_name(op).ok_or_else(|| format!("no op {op}"))?;
        let row = op.spec();
        let required = row
            .outputs
            .iter()
            .filter(|port| !matches!(port.kind, PortKind::Optional))
            .count();
        let outputs = match outputs {
            Some(count) => count
                .parse()
                .map_err(|_| format!("{count} is no count of outputs"))?,
            None => required.max(1),
        };
        for class in classes(types, row, inputs)? {
            for (shape, unary, pair) in shapes(inputs) {
                if !shape.is_empty() && class.dtype() != DType::F32 && !FEW.contains(&shape) {
                    continue;
                }
                let full = if shape.is_empty() {
                    name.to_owned()
                } else {
                    format!("{name}-{shape}")
                };
                let inputs = inputs
                    .split(';')
                    .map(|input| {
                        let mut input = self::input(input.trim(), &class, unary, pair)?;
                        if let Some(input) = input.as_mut().filter(|_| family == "comparison") {
                            // so that some are equal
                            input.whole = true;
                        }
                        Ok::<_, String>(input)
                    })
                    .collect::<Result<Vec<_>, _>>()?;
                specs.push(Arc::new(Spec {
                    name: format!("{}/{full}/{}", op.name(), class.name()),
                    family: family.to_owned(),
                    op,
                    class,
                    inputs,
                    attributes: self::attributes(attributes, row)?,
                    outputs,
                }));
            }
        }
    }
    Ok(())
}

type Pair = (&'static [usize], &'static [usize]);

fn shapes(inputs: &str) -> Vec<(&'static str, &'static [usize], Pair)> {
    let none: &'static [usize] = &[];
    if inputs.contains("<U>") {
        return UNARY
            .iter()
            .map(|(name, sizes)| (*name, *sizes, (none, none)))
            .collect();
    }
    if inputs.contains("<A>") {
        return BINARY
            .iter()
            .map(|(name, a, b)| (*name, none, (*a, *b)))
            .collect();
    }
    vec![("", none, (none, none))]
}

/// The classes of a line that the op takes.
fn classes(types: &str, row: &OpSpec, inputs: &str) -> Result<Vec<Class>, String> {
    let first = inputs.split(';').position(|input| input.trim().starts_with('T'));
    let allowed = match first.and_then(|index| row.input(index)) {
        Some(port) => row.allowed(port).dtypes,
        None => DTypes::ALL,
    };
    let floats = [DType::F32, DType::F16, DType::BF16, DType::F64];
    let mut classes = Vec::new();
    for word in types.split_whitespace() {
        let mut plain = |types: &[DType]| {
            classes.extend(
                types
                    .iter()
                    .filter(|dtype| allowed.contains(**dtype))
                    .map(|dtype| Class::Plain(*dtype)),
            );
        };
        match word {
            "all" => plain(PLAIN),
            "floats" => plain(&floats),
            "ints" => plain(&PLAIN[4..12]),
            "qu8" => classes.push(Class::quantised(DType::U8, false)),
            "qs8" => classes.push(Class::quantised(DType::I8, false)),
            "qu8a" => classes.push(Class::quantised(DType::U8, true)),
            "qs8a" => classes.push(Class::quantised(DType::I8, true)),
            "qu16" => classes.push(Class::quantised(DType::U16, true)),
            "qs16" => classes.push(Class::quantised(DType::I16, true)),
            word => {
                let dtype = DType::from_name(word).ok_or_else(|| format!("no element type {word}"))?;
                if !allowed.contains(dtype) {
                    return Err(format!("{} does not take {word}", row.name()));
                }
                classes.push(Class::Plain(dtype));
            }
        }
    }
    Ok(classes)
}

fn input(text: &str, class: &Class, unary: &[usize], pair: Pair) -> Result<Option<Input>, String> {
    if text == "-" {
        return Ok(None);
    }
    let end = text
        .find(['[', '<'])
        .ok_or_else(|| format!("no shape in {text}"))?;
    let (ty, rest) = text.split_at(end);
    let dtype = match ty {
        "T" => None,
        word => Some(DType::from_name(word).ok_or_else(|| format!("no element type {word}"))?),
    };
    let close = rest
        .find([']', '>'])
        .ok_or_else(|| format!("no end of shape in {text}"))?;
    let shape: Vec<usize> = match &rest[..=close] {
        "<U>" => unary.to_vec(),
        "<A>" => pair.0.to_vec(),
        "<B>" => pair.1.to_vec(),
        "[]" => Vec::new(),
        sizes => sizes[1..sizes.len() - 1]
            .split(',')
            .map(|size| size.trim().parse().map_err(|_| format!("{size} is no size")))
            .collect::<Result<_, _>>()?,
    };
    let mut rest = &rest[close + 1..];
    let mut constant = false;
    let mut fill = Fill::Usual;
    let mut channels = None;
    let mut bias = false;
    if let Some(after) = rest.strip_prefix('!') {
        (constant, rest) = (true, after);
        if let Some(after) = rest.strip_prefix('w') {
            let axis = after
                .chars()
                .next()
                .and_then(|c| c.to_digit(10))
                .ok_or("no axis of channels")?;
            (channels, rest) = (Some(axis as usize), &after[1..]);
        } else if let Some(after) = rest.strip_prefix('b') {
            (bias, rest) = (true, after);
        }
    }
    if let Some(range) = rest.strip_prefix('~') {
        let (low, high) = range.split_once("..").ok_or("no range")?;
        let number = |word: &str| word.parse::<f64>().map_err(|_| format!("{word} is no number"));
        fill = Fill::Between(number(low)?, number(high)?);
    } else if let Some(list) = rest.strip_prefix('=').or_else(|| rest.strip_prefix('&')) {
        constant |= rest.starts_with('=');
        fill = Fill::Values(numbers(list)?);
    } else if !rest.is_empty() {
        return Err(format!("{rest} is not understood"));
    }
    Ok(Some(Input {
        dtype: dtype.unwrap_or_else(|| class.dtype()),
        under_test: dtype.is_none(),
        shape,
        constant,
        fill,
        channels,
        bias,
        whole: false,
    }))
}

fn numbers(list: &str) -> Result<Vec<f64>, String> {
    let inner = list
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .ok_or_else(|| format!("{list} is no list"))?;
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    inner
        .split(',')
        .map(|word| word.trim().parse().map_err(|_| format!("{word} is no number")))
        .collect()
}

fn attributes(text: &str, row: &OpSpec) -> Result<Attributes, String> {
    let mut attributes = Attributes::new();
    for word in text.split_whitespace() {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| format!("{word} is no attribute"))?;
        let attr = Attr::from_name(name).ok_or_else(|| format!("no attribute {name}"))?;
        let kind = row
            .attribute(attr)
            .ok_or_else(|| format!("{} has no {name}", row.name()))?
            .kind;
        let bad = |_| format!("{value} of {name}");
        let value = match kind {
            AttrKind::Int => AttrValue::Int(value.parse().map_err(|_| format!("{value} of {name}"))?),
            AttrKind::Float => AttrValue::Float(value.parse().map_err(bad)?),
            AttrKind::String => AttrValue::String(Arc::from(value)),
            AttrKind::Ints => AttrValue::Ints(
                value
                    .split(',')
                    .map(|word| word.parse().map_err(|_| format!("{value} of {name}")))
                    .collect::<Result<_, _>>()?,
            ),
            AttrKind::Tensor => {
                let open = value.find('{').ok_or_else(|| format!("{value} of {name}"))?;
                let dtype = DType::from_name(&value[..open]).ok_or_else(|| format!("{value} of {name}"))?;
                let values = numbers(&value[open..])?;
                AttrValue::Tensor(literal(dtype, &[values.len()], &values)?)
            }
            other => {
                return Err(format!(
                    "{name} is {}, which the table does not read",
                    other.name()
                ));
            }
        };
        attributes.set(attr, value);
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_are_errors_with_their_line() {
        for (line, words) in [
            ("Nop x | f32 | T[1]", "no op Nop"),
            ("Relu x | f31 | T[1]", "no element type f31"),
            ("Relu x | bool | T[1]", "does not take bool"),
            ("Relu x | f32 | T[a]", "no size"),
            ("Relu x | f32 | T[1]?", "not understood"),
            ("Relu x | f32 | T[1] | alpha=1", "has no alpha"),
        ] {
            let error = read(&format!("[f]\n{line}")).unwrap_err();
            assert!(error.contains("line 2") && error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_line_is_crossed_with_types_and_shapes() {
        let specs =
            read("[f]\nRelu unary | f32 f16 | T<U>\nConv c | qu8a | T[1,2,3,3]; T[4,2,1,1]!w0; T[4]!b")
                .unwrap();
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        assert!(names.contains(&"Relu/unary-rank5/f32") && names.contains(&"Relu/unary-odd/f16"));
        assert!(!names.contains(&"Relu/unary-rank5/f16"));
        assert!(names.contains(&"Conv/c/qu8a"));
        let conv = specs.last().unwrap();
        assert_eq!(conv.inputs[1].as_ref().unwrap().channels, Some(0));
        assert!(conv.inputs[2].as_ref().unwrap().bias);
    }
}
