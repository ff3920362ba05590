//! Limits of schemas and grammars that are compiled in the app's own process. A sandbox has the system's limits instead,
//! and takes larger ones.

use serde_json::Value;

/// Stack of the thread that compiles, in bytes. The compiler calls itself for each step of a chain: what `check_schema`
/// and `check_lark` let through takes a small part of it.
pub(super) const STACK: usize = 256 << 20;

/// Most values in a schema, and deepest nesting.
const MAX_VALUES: usize = 20_000;
const MAX_DEPTH: usize = 64;
/// Most properties of an object, names in `required`, and alternatives in a list.
const MAX_ITEMS: usize = 500;
/// Most references in a schema: each may be a step of a chain.
const MAX_REFERENCES: usize = 500;
/// Most bytes of a grammar, rules, and open brackets.
const MAX_LARK: usize = 64 << 10;
const MAX_RULES: usize = 500;
const MAX_BRACKETS: usize = 64;

/// What would change the reading of the whole schema.
pub(crate) const OWN_KEY: &str = "x-guidance";

fn above(what: &str, found: usize, most: usize) -> Result<(), String> {
    if found <= most {
        return Ok(());
    }
    Err(format!(
        "it has {found} {what}; without a sandbox process (polychip-llm-sandbox) the maximum is {most}"
    ))
}

/// Refuses schemas that could take too much stack or time.
pub(crate) fn check_schema(schema: &Value) -> Result<(), String> {
    let (mut values, mut references) = (0, 0);
    let mut rest = vec![(schema, 1)];
    while let Some((value, depth)) = rest.pop() {
        values += 1;
        above("values or more", values, MAX_VALUES)?;
        above("levels", depth, MAX_DEPTH)?;
        match value {
            Value::Array(items) => {
                above("items in a list", items.len(), MAX_ITEMS)?;
                rest.extend(items.iter().map(|item| (item, depth + 1)));
            }
            Value::Object(fields) => {
                above("properties in an object", fields.len(), MAX_ITEMS)?;
                references += usize::from(fields.contains_key("$ref"));
                above("references", references, MAX_REFERENCES)?;
                rest.extend(fields.values().map(|field| (field, depth + 1)));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses grammars that could take too much stack or time.
pub(super) fn check_lark(grammar: &str) -> Result<(), String> {
    above("bytes", grammar.len(), MAX_LARK)?;
    above("lines", grammar.lines().count(), MAX_RULES)?;
    // brackets within texts count as well: what is refused is refused for sure
    let mut open = 0_usize;
    for one in grammar.bytes() {
        match one {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'\n' => open = 0,
            _ => {}
        }
        above("open brackets", open, MAX_BRACKETS)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bounds_name_what_exceeds_them() {
        let deep = (0..70).fold(json!({}), |inner, _| json!({"items": inner}));
        let wide: Value = (0..600)
            .map(|i| (format!("p{i}"), json!({})))
            .collect::<serde_json::Map<_, _>>()
            .into();
        for (schema, word) in [
            (deep, "levels"),
            (wide, "properties"),
            (json!({"required": vec!["a"; 501]}), "items in a list"),
        ] {
            let error = check_schema(&schema).unwrap_err();
            assert!(error.contains(word) && error.contains("maximum"), "{error}");
        }
        assert!(check_schema(&json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}})).is_ok());
        assert!(check_lark(&"(".repeat(65)).unwrap_err().contains("brackets"));
        assert!(check_lark(&"a: b\n".repeat(501)).unwrap_err().contains("lines"));
        assert!(check_lark("start: (\"a\" | \"b\")~2\n").is_ok());
    }
}
