//! Schemas that grow in one direction.

use serde_json::{Map, Value, json};

use crate::Draws;

/// Most bytes of a schema: a request has at most a mebibyte.
const MOST: usize = 900_000;

fn repeated(count: usize, one: impl FnMut(usize) -> Value) -> Vec<Value> {
    (0..count).map(one).collect()
}

fn named(prefix: &str, count: usize, mut one: impl FnMut(usize) -> Value) -> Value {
    let fields = (0..count).map(|index| (format!("{prefix}{index}"), one(index)));
    fields.collect::<Map<_, _>>().into()
}

fn reference(index: usize) -> Value {
    json!({"$ref": format!("#/$defs/d{index}")})
}

/// Definitions where each refers to the next; `link` makes one of the reference.
fn chain(count: usize, link: impl Fn(Value) -> Value, end: Value) -> Value {
    let mut definitions = named("d", count, |index| link(reference(index + 1)));
    definitions[format!("d{count}")] = end;
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

/// A schema and its name.
pub(crate) fn schema(draws: &mut Draws) -> (String, Value) {
    loop {
        let (name, schema) = any(draws);
        if schema.to_string().len() <= MOST {
            return (name, schema);
        }
    }
}

fn any(draws: &mut Draws) -> (String, Value) {
    let size = draws.size(20_000);
    match draws.below(4) {
        0 => deep(draws, size),
        1 => wide(draws, size),
        2 => shared(draws, size),
        _ => repetitive(draws, size),
    }
}

fn deep(draws: &mut Draws, size: usize) -> (String, Value) {
    let end = json!({"type": "string"});
    let kind = draws.one(&[
        "$ref",
        "anyOf",
        "oneOf",
        "allOf",
        "items",
        "properties",
        "optional",
        "prefixItems",
        "additional",
        "nested items",
        "nested anyOf",
        "nested properties",
    ]);
    // JSON itself is nested at most 127 deep
    let nested = size.min(50);
    let schema = match kind {
        "$ref" => chain(size, |next| next, end),
        "anyOf" => chain(size, |next| json!({"anyOf": [next, {"type": "null"}]}), end),
        "oneOf" => chain(size, |next| json!({"oneOf": [next, {"type": "integer"}]}), end),
        "allOf" => chain(size, |next| json!({"allOf": [next, {"type": "string"}]}), end),
        "items" => chain(size, |next| json!({"type": "array", "items": next}), end),
        "properties" => chain(
            size,
            |next| json!({"type": "object", "properties": {"a": next}, "required": ["a"], "additionalProperties": false}),
            end,
        ),
        "optional" => chain(
            size,
            |next| json!({"type": "object", "properties": {"a": next, "b": {}}}),
            end,
        ),
        "prefixItems" => chain(
            size,
            |next| json!({"type": "array", "prefixItems": [next, {"type": "null"}], "minItems": 2}),
            end,
        ),
        "additional" => chain(
            size,
            |next| json!({"type": "object", "additionalProperties": next}),
            end,
        ),
        "nested items" => (0..nested).fold(
            end,
            |inner, _| json!({"type": "array", "items": inner, "maxItems": 3}),
        ),
        "nested anyOf" => (0..nested).fold(end, |inner, _| json!({"anyOf": [inner, {"type": "null"}]})),
        _ => (0..nested).fold(
            end,
            |inner, _| json!({"type": "object", "properties": {"a": inner}}),
        ),
    };
    (format!("{size} deep by {kind}"), schema)
}

fn wide(draws: &mut Draws, size: usize) -> (String, Value) {
    let kind = draws.one(&[
        "optional properties",
        "required properties",
        "properties and more",
        "names in required",
        "texts of an enum",
        "lists of an enum",
        "objects of an enum",
        "numbers of an enum",
        "alternatives",
        "objects as alternatives",
        "patterns as alternatives",
        "prefixItems",
        "patternProperties",
        "allOf",
        "definitions unused",
        "types",
    ]);
    let names = || Value::from(repeated(size, |index| format!("p{index}").into()));
    let integers = || named("p", size, |_| json!({"type": "integer"}));
    let schema = match kind {
        "optional properties" => {
            json!({"type": "object", "properties": integers(), "additionalProperties": false})
        }
        "required properties" => {
            json!({"type": "object", "properties": integers(), "required": names(), "additionalProperties": false})
        }
        "properties and more" => json!({"type": "object", "properties": integers()}),
        "names in required" => json!({"type": "object", "required": names()}),
        "texts of an enum" => json!({"enum": names()}),
        "lists of an enum" => json!({"enum": repeated(size, |index| json!([index, "x"]))}),
        "objects of an enum" => json!({"enum": repeated(size, |index| json!({"a": index}))}),
        "numbers of an enum" => json!({"enum": repeated(size, |index| json!(index as f64 * 1.37))}),
        "alternatives" => json!({"anyOf": repeated(size, |index| json!({"const": format!("c{index}")}))}),
        "objects as alternatives" => json!({"anyOf": repeated(size, |index| json!({
            "type": "object",
            "properties": {format!("a{index}"): {"type": "string"}},
            "required": [format!("a{index}")],
        }))}),
        "patterns as alternatives" => json!({"anyOf": repeated(size, |index| json!({
            "type": "string",
            "pattern": format!("^[a-z]{{{}}}x{index}$", index % 50),
        }))}),
        "prefixItems" => {
            json!({"type": "array", "prefixItems": repeated(size, |_| json!({"type": "integer"})), "minItems": size})
        }
        "patternProperties" => {
            json!({"type": "object", "patternProperties": named("^p", size, |_| json!({"type": "null"}))})
        }
        "allOf" => {
            json!({"allOf": repeated(size, |index| json!({"type": "object", "properties": {format!("a{index}"): {}}}))})
        }
        "definitions unused" => json!({"type": "null", "$defs": integers()}),
        _ => json!({"type": repeated(size, |_| json!("string"))}),
    };
    (format!("{size} {kind}"), schema)
}

fn shared(draws: &mut Draws, size: usize) -> (String, Value) {
    let depth = size.min(2000);
    let kind = draws.one(&[
        "anyOf",
        "allOf",
        "properties",
        "prefixItems",
        "itself",
        "each other",
    ]);
    let twice = |next: &Value| json!([next, next]);
    let end = json!({"type": "string", "maxLength": 3});
    let schema = match kind {
        "anyOf" => chain(depth, |next| json!({"anyOf": twice(&next)}), end),
        "allOf" => chain(depth, |next| json!({"allOf": twice(&next)}), end),
        "properties" => chain(
            depth,
            |next| json!({"type": "object", "properties": {"a": next, "b": next}, "required": ["a", "b"]}),
            end,
        ),
        "prefixItems" => chain(
            depth,
            |next| json!({"type": "array", "prefixItems": twice(&next), "minItems": 2}),
            end,
        ),
        "itself" => {
            json!({"type": "array", "items": {"anyOf": repeated(size.min(5000), |_| json!({"$ref": "#"}))}})
        }
        _ => {
            let count = size.min(200);
            let definitions = named("d", count, |_| json!({"anyOf": repeated(count, reference)}));
            json!({"$ref": "#/$defs/d0", "$defs": definitions})
        }
    };
    (format!("{depth} doublings by {kind}"), schema)
}

fn repetitive(draws: &mut Draws, size: usize) -> (String, Value) {
    let huge = 10_usize.pow(draws.below(10) as u32);
    let kind = draws.one(&[
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "pattern repeated",
        "pattern nested",
        "pattern alternatives",
        "pattern long",
        "multipleOf",
        "minimum",
        "long const",
        "minProperties",
        "format",
    ]);
    let pattern = |pattern: String| json!({"type": "string", "pattern": pattern});
    let schema = match kind {
        "minLength" => json!({"type": "string", "minLength": huge}),
        "maxLength" => json!({"type": "string", "maxLength": huge}),
        "minItems" => json!({"type": "array", "items": {"type": "integer"}, "minItems": huge}),
        "maxItems" => json!({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": huge}),
        "pattern repeated" => pattern(format!("^(a|b){{{huge}}}c$")),
        "pattern nested" => pattern(format!(
            "^((a{{0,{n}}}b?){{0,{n}}}c?){{0,{n}}}$",
            n = size.min(1000)
        )),
        "pattern alternatives" => {
            let words: Vec<String> = (0..size.min(20_000)).map(|index| format!("w{index}.*")).collect();
            pattern(format!("^({})$", words.join("|")))
        }
        "pattern long" => pattern(format!("^{}$", "(a|b)*a".repeat(size.min(20_000)))),
        "multipleOf" => {
            json!({"type": "number", "multipleOf": 1.0 / huge as f64, "minimum": 0, "maximum": huge})
        }
        "minimum" => json!({"type": "integer", "minimum": -(huge as i64), "maximum": huge}),
        "long const" => json!({"const": "x".repeat(size * 40)}),
        "minProperties" => json!({"type": "object", "minProperties": huge, "maxProperties": huge}),
        _ => {
            json!({"type": "array", "prefixItems": repeated(size.min(5000), |_| json!({"type": "string", "format": "date-time"})), "minItems": size.min(5000)})
        }
    };
    (format!("{kind} {size}, {huge}"), schema)
}
