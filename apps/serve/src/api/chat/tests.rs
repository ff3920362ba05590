//! Requests for chats: what they mean, and what is wrong with them.

use polychip_llm::Sampling;

use super::*;

fn asked(body: &[u8]) -> Result<Asked, Problem> {
    let (asked, _) = read(body, "m", &mut Notes::default())?;
    asked.check()?;
    Ok(asked)
}

fn param(asked: Result<Asked, Problem>) -> (u16, Value) {
    let problem = asked.expect_err("it is wrong");
    (
        problem.status().as_u16(),
        problem.json()["error"]["param"].clone(),
    )
}

fn body(more: Value) -> Vec<u8> {
    let mut body = json!({"messages": [{"role": "user", "content": "Hi"}]});
    let (Some(fields), Value::Object(more)) = (body.as_object_mut(), more) else {
        unreachable!("both are objects");
    };
    fields.extend(more);
    body.to_string().into_bytes()
}

fn of_chat(more: Value) -> Result<Asked, Problem> {
    asked(&body(more))
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
}

#[test]
fn chat_request_parses_all_fields() {
    let asked = of_chat(json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true}, "max_completion_tokens": 7,
        "max_tokens": null, "temperature": 0, "top_p": 0.5, "top_k": 3.0, "min_p": 0.1, "repetition_penalty": 1.1,
        "frequency_penalty": -1, "presence_penalty": 2, "seed": -1, "stop": "x", "n": 2, "user": "me", "tools": [],
        "response_format": {"type": "text"}, "logprobs": true, "top_logprobs": 3, "cache_prompt": false,
        "prompt_cache_key": "k", "logit_bias": {"5": -100},
    }))
    .unwrap();
    let expected = Asked {
        model: Some("m".to_owned()),
        is_streamed: true,
        wants_usage: true,
        max_tokens: Some(MaxTokens {
            tokens: 7,
            param: "max_completion_tokens",
        }),
        sampling: Sampling {
            temperature: 0.0,
            top_k: 3,
            top_p: 0.5,
            min_p: 0.1,
            repetition: 1.1,
            frequency: -1.0,
            presence: 2.0,
            bias: vec![(5, -100.0)],
            ..Sampling::usual(0)
        },
        seed: Some(u64::MAX),
        stop: vec!["x".to_owned()],
        may_reuse: false,
        cache_key: Some("k".to_owned()),
        count: 2,
        scores: Some(3),
        tools: Tools {
            are_parallel: true,
            ..Tools::default()
        },
        ..Asked::new(Input::Chat(vec![Message::new("user", "Hi")]), "messages")
    };
    assert_eq!(asked, expected);
}

#[test]
fn harmless_fields_are_noted_or_refused_by_strict_servers() {
    let harmless = json!({
        "messages": [{"role": "user", "content": "Hi", "name": "x"}],
        "temprature": 1, "store": true, "reasoning_effort": "low", "user": "me", "nothing": null,
        "stream": true, "stream_options": {"x": 1},
    });
    let harmless = harmless.to_string();
    let mut notes = Notes::new(false);
    read(harmless.as_bytes(), "m", &mut notes).unwrap();
    let ignored: Vec<String> = notes.into_ignored().into_iter().collect();
    assert_eq!(
        ignored,
        [
            "messages[].name",
            "reasoning_effort",
            "store",
            "stream_options.x",
            "temprature"
        ]
    );
    let strict = |more: Value| read(&body(more), "m", &mut Notes::new(true)).map(|(asked, _)| asked);
    assert_eq!(
        param(strict(json!({"temprature": 1}))),
        (400, json!("temprature"))
    );
    assert_eq!(param(strict(json!({"store": true}))), (400, json!("store")));
    let neutral =
        json!({"store": false, "service_tier": "auto", "user": "me", "top_k": -1, "repeat_penalty": 1.5});
    let asked = strict(neutral).unwrap();
    assert_eq!((asked.sampling.top_k, asked.sampling.repetition), (0, 1.5));
}

#[test]
fn content_may_be_text_or_parts() {
    let body = json!({"messages": [
        {"role": "developer", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        {"role": "assistant", "content": null, "refusal": null, "tool_calls": []},
    ]});
    let expected = [("system", "a"), ("user", "b\nc"), ("assistant", "")];
    let expected = expected
        .map(|(role, content)| Message::new(role, content))
        .to_vec();
    assert_eq!(
        asked(body.to_string().as_bytes()).unwrap().inputs,
        [Input::Chat(expected)]
    );
}

#[test]
fn calls_and_results_reach_the_template() {
    let call = json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}});
    let body = json!({"messages": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "content": "7", "tool_call_id": "1"},
    ], "tools": [tool("f"), tool("g")], "tool_choice": {"type": "function", "function": {"name": "g"}},
       "parallel_tool_calls": false});
    let asked = asked(body.to_string().as_bytes()).unwrap();
    let [Input::Chat(messages)] = &asked.inputs[..] else {
        panic!("it is a chat");
    };
    assert_eq!(
        messages[1].fields["tool_calls"][0]["function"]["arguments"],
        json!({"a": 1})
    );
    assert_eq!(messages[2].fields["tool_call_id"], "1");
    assert_eq!(asked.tools.described().len(), 2);
    let callable = asked.tools.callable();
    assert_eq!((callable.len(), &*callable[0].name), (1, "g"));
    let none = of_chat(json!({"tools": [tool("f")], "tool_choice": "none"})).unwrap();
    assert_eq!(
        (none.tools.described().len(), none.tools.callable().len()),
        (0, 0)
    );
    assert_eq!(
        of_chat(json!({"tools": [tool("f")]})).unwrap().tools.choice,
        ToolChoice::Auto
    );
}

#[test]
fn request_errors_name_the_field() {
    for (more, name) in [
        (json!({"temperature": 2.1}), "temperature"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"top_p": -0.1}), "top_p"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": 1.5}), "max_tokens"),
        (json!({"max_tokens": 1e300}), "max_tokens"),
        (json!({"max_tokens": 1, "max_completion_tokens": 2}), "max_tokens"),
        (json!({"seed": 1.5}), "seed"),
        (json!({"stop": ""}), "stop"),
        (json!({"stop": [1]}), "stop"),
        (json!({"stop": vec!["a"; 17]}), "stop"),
        (json!({"stream": "yes"}), "stream"),
        (
            json!({"stream_options": {"include_usage": true}}),
            "stream_options",
        ),
        (json!({"response_format": "json"}), "response_format"),
        (
            json!({"response_format": {"type": "xml"}}),
            "response_format.type",
        ),
        (
            json!({"response_format": {"type": "json_object", "schema": {}}}),
            "response_format.schema",
        ),
        (
            json!({"response_format": {"type": "json_schema"}}),
            "response_format.json_schema",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}),
            "response_format.json_schema.schema",
        ),
        (json!({"n": 33}), "n"),
        (json!({"n": 0}), "n"),
        (json!({"logit_bias": {"x": 1}}), "logit_bias"),
        (json!({"logit_bias": {"1": 101}}), "logit_bias"),
        (json!({"logit_bias": [1]}), "logit_bias"),
        (json!({"top_logprobs": 2}), "top_logprobs"),
        (json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs"),
        (json!({"tools": {}}), "tools"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].function"),
        (json!({"tools": [{"type": "web_search"}]}), "tools[0].type"),
        (
            json!({"tools": [{"type": "function", "function": {}}]}),
            "tools[0].function.name",
        ),
        (json!({"tools": [tool("a b")]}), "tools"),
        (json!({"tools": [tool("f"), tool("f")]}), "tools"),
        (json!({"tools": vec![tool("f"); 129]}), "tools"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (
            json!({"tools": [tool("f")], "tool_choice": "maybe"}),
            "tool_choice",
        ),
        (
            json!({"tools": [tool("f")], "tool_choice": {"type": "function", "function": {"name": "g"}}}),
            "tool_choice",
        ),
        (
            json!({"tools": [tool("f")], "response_format": {"type": "json_object"}}),
            "response_format",
        ),
        (json!({"model": 1}), "model"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": "Hi"}), "messages"),
        (json!({"messages": null}), "messages"),
        (json!({"messages": ["Hi"]}), "messages[0]"),
        (json!({"messages": [{"content": "Hi"}]}), "messages[0].role"),
        (json!({"messages": [{"role": "user"}]}), "messages[0].content"),
        (
            json!({"messages": [{"role": "function", "content": "Hi"}]}),
            "messages[0].role",
        ),
        (
            json!({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}]}),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}),
            "messages[0].content[0].type",
        ),
    ] {
        assert_eq!(param(of_chat(more.clone())), (400, json!(name)), "{more}");
    }
    for body in [
        &b"{"[..],
        b"[]",
        b"\xff",
        b"{\"messages\": [1e999]}",
        b"",
        &[b'['; 100_000],
    ] {
        assert_eq!(param(asked(body)), (400, Value::Null));
    }
}
