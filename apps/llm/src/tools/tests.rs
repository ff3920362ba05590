//! Calls are found whatever pieces they come in, and what is not a call stays text.

use proptest::prelude::*;

use super::*;

fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: Some("does it".to_owned()),
        parameters: json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
    }
}

fn style(source: &str) -> CallStyle {
    CallStyle::of(&ChatTemplate::new(source).unwrap())
}

const HERMES: &str = "{% if tools %}<tool_call>{% endif %}";
const MISTRAL: &str = "{% if tools %}[TOOL_CALLS]{% endif %}";
const LLAMA: &str = "{% if tools %}{{ '{\"name\": function name, \"parameters\": ...}' }}{% endif %}";

/// Text, and the calls with their arguments.
fn parsed(source: &str, pieces: &[&str]) -> (String, Vec<(String, String)>) {
    let mut parser = style(source).parser(&[tool("f"), tool("g")]);
    let mut parts = Vec::new();
    for piece in pieces {
        parts.extend(parser.push(piece));
    }
    parts.extend(parser.finish());
    let (mut text, mut calls) = (String::new(), Vec::new());
    for part in parts {
        match part {
            CallPart::Text(more) => text.push_str(&more),
            CallPart::Call { name } => calls.push((name, String::new())),
            CallPart::Arguments(more) => calls.last_mut().expect("a call came before").1.push_str(&more),
        }
    }
    assert_eq!(parser.calls(), calls.len());
    (text, calls)
}

#[test]
fn styles_are_recognized_by_the_template() {
    assert_eq!(
        (style(HERMES).format, style(HERMES).is_of_template),
        (Format::Hermes, true)
    );
    assert_eq!(style(MISTRAL).format, Format::Mistral);
    assert_eq!(style(LLAMA).format, Format::Llama);
    let generic = style("{{ messages[0].content }}");
    assert_eq!((generic.format, generic.is_of_template), (Format::Hermes, false));
    // calls in XML
    assert!(!style("{% if tools %}<tool_call><function=f>{% endif %}").is_of_template);
}

#[test]
fn calls_are_separated_from_text() {
    let call = |name: &str, arguments: &str| (name.to_owned(), arguments.to_owned());
    let two = "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\\\"\"}}\n</tool_call>\n<tool_call>\n{\"arguments\": {}, \"name\": \"g\"}\n</tool_call>";
    assert_eq!(
        parsed(HERMES, &[two]),
        (
            "Let me see.".to_owned(),
            vec![call("f", "{\"a\": \"}\\\"\"}"), call("g", "{}")]
        )
    );
    assert_eq!(
        parsed(
            MISTRAL,
            &[
                "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]"
            ]
        ),
        (String::new(), vec![call("f", "{\"a\": 1}"), call("g", "{}")])
    );
    assert_eq!(
        parsed(LLAMA, &["{\"name\": \"f\", \"parameters\": {\"a\": [1]}}"]),
        (String::new(), vec![call("f", "{\"a\": [1]}")])
    );
    // arguments as a text, as some models write them
    assert_eq!(
        parsed(LLAMA, &["{\"name\": \"f\", \"parameters\": \"{\\\"a\\\": 1}\"}"])
            .1
            .len(),
        0,
        "an answer that is JSON is not held back"
    );
    let text = "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>";
    assert_eq!(parsed(HERMES, &[text]).1, [call("f", "{\"a\": 1}")]);
    // cut within the arguments: the client sees what there is
    let cut = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1";
    assert_eq!(
        parsed(HERMES, &[cut]),
        (String::new(), vec![call("f", "{\"a\": 1")])
    );
}

#[test]
fn what_is_not_a_call_stays_text() {
    for (source, text) in [
        (HERMES, "1 < 2 <tool"),
        (HERMES, "  <tool_call> is a tag"),
        (HERMES, "<tool_call>\n{\"name\": \"unknown\", \"arguments\": {}}"),
        (HERMES, "<tool_call>{\"nam"),
        (HERMES, "a line\n"),
        (MISTRAL, "[TOOL_CALL"),
        (LLAMA, "{\"mood\": \"glad\"}"),
        (LLAMA, "{\"name\": \"unknown\", \"parameters\": {}} and more"),
        (LLAMA, " hello {"),
    ] {
        assert_eq!(parsed(source, &[text]), (text.to_owned(), Vec::new()));
    }
}

#[test]
fn templates_without_tools_get_plain_text() {
    let generic = style("{{ messages }}");
    let calls = json!([{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]);
    let messages = vec![
        Message::new("user", "Hi"),
        Message::new("assistant", "").with_field("tool_calls", calls),
        Message::new("tool", "7").with_field("tool_call_id", json!("1")),
        Message::new("tool", "8"),
    ];
    let (plain, variables) = generic.prompt(&[tool("f")], messages.clone());
    assert!(variables.is_empty());
    let roles: Vec<&str> = plain.iter().map(|message| &*message.role).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert!(
        plain[0]
            .content
            .contains("{\"type\": \"function\", \"function\": {\"name\": \"f\"")
    );
    assert_eq!(
        plain[2].content,
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"
    );
    assert_eq!(
        plain[3].content,
        "<tool_response>\n7\n</tool_response>\n<tool_response>\n8\n</tool_response>"
    );
    let (same, variables) = style(HERMES).prompt(&[tool("f")], messages.clone());
    assert_eq!((same, variables.len()), (messages, 1));
}

#[test]
fn unusable_names_and_schemas_are_refused() {
    assert!(Tool::is_name("get_weather-2.x") && !Tool::is_name("") && !Tool::is_name("a b"));
    assert!(!Tool::is_name(&"x".repeat(65)));
    let of = |parameters: Value| {
        Tool {
            parameters,
            ..tool("f")
        }
        .schema()
    };
    assert!(of(json!([])).unwrap_err().to_string().contains("\"f\""));
    assert!(
        of(json!({"x-guidance": {}}))
            .unwrap_err()
            .to_string()
            .contains("x-guidance")
    );
    assert_eq!(of(json!({})).unwrap()["type"], "object");
}

proptest! {
    #[test]
    fn pieces_do_not_change_calls(
        seed in 0usize..4,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let (source, text) = [
            (HERMES, "é so\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"é{\\\\\"}}\n</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>"),
            (HERMES, "1 < 2 and <tool_calls> <tool_call>x"),
            (MISTRAL, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": [{}]}}, {\"name\": \"g\", \"arguments\": {}}]"),
            (LLAMA, " {\"name\": \"f\", \"parameters\": {\"a\": \"x\"}}; {\"name\": \"g\", \"parameters\": {}}"),
        ][seed];
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.retain(|cut| text.is_char_boundary(*cut));
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        prop_assert_eq!(parsed(source, &pieces), parsed(source, &[text]));
    }
}
