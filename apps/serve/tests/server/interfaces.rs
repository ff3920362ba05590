//! The server as clients of several interfaces find it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use polychip_serve::Options;
use serde_json::{Value, json};

use crate::site::{Running, TEMPLATE, greedy, model, roomy, text, with};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// A template that writes tools, calls and results.
const TOOLS: &str = "{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role[0] }}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}";

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "description": "d", "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}, "b": {"enum": ["x", "y"]}},
        "required": ["a", "b"],
        "additionalProperties": false,
    }}})
}

fn chat(more: &Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 300, "temperature": 1.5, "seed": 5, "cache_prompt": false,
    });
    for (name, value) in more.as_object().expect("it is an object") {
        body[name] = value.clone();
    }
    body
}

/// A body as it is sent.
fn raw(server: &Running, path: &str, body: &Value) -> String {
    let mut response = server.begin(path, body);
    assert_eq!(response.status(), 200);
    response.body_mut().read_to_string().expect("it is text")
}

/// The names and data of a stream's events.
fn events(text: &str) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(event) = line.strip_prefix("event: ") {
            name = event.to_owned();
        } else if let Some(data) = line.strip_prefix("data: ").filter(|data| *data != "[DONE]") {
            events.push((
                std::mem::take(&mut name),
                serde_json::from_str(data).expect("it is JSON"),
            ));
        }
    }
    events
}

/// A head sent as it is; the whole response.
fn head(server: &Running, head: &str) -> String {
    let mut socket = TcpStream::connect(server.address).unwrap();
    socket
        .write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[track_caller]
fn is_valid(arguments: &str) {
    let value: Value = serde_json::from_str(arguments).expect("they are JSON");
    assert!(value["a"].as_u64().is_some_and(|a| a <= 9), "{arguments}");
    assert!(value["b"] == "x" || value["b"] == "y", "{arguments}");
}

#[test]
fn harmless_fields_are_ignored_unless_the_server_is_strict() {
    let lenient = Running::start(Options::new());
    let strict = Running::start(Options::new().strict(true));
    for field in ["store", "reasoning_effort", "temprature"] {
        let body = with(&greedy("hello", 2), field, json!("x"));
        lenient.ok(TEXT, &body);
        let (status, error) = strict.post(TEXT, &body);
        assert_eq!((status, &error["error"]["param"]), (400, &json!(field)));
        assert_eq!(error["error"]["code"], "unknown_parameter");
    }
    strict.ok(TEXT, &with(&greedy("hello", 2), "top_k", json!(-1)));
}

#[test]
fn model_is_known_by_its_file_and_aliases() {
    let server = Running::start(Options::new().name("mine").alias("gpt-4o-mini"));
    for name in ["mine", "tiny", "tiny.gguf", "gpt-4o-mini", "mine:latest"] {
        let answer = server.ok(TEXT, &with(&greedy("hello", 1), "model", json!(name)));
        assert_eq!(answer["model"], "mine");
    }
    assert_eq!(
        server
            .post(TEXT, &with(&greedy("hello", 1), "model", json!("other")))
            .0,
        404
    );
    let list: Value = serde_json::from_str(&server.get("/v1/models").1).unwrap();
    let ids: Vec<&Value> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| &model["id"])
        .collect();
    assert_eq!(ids, ["mine", "gpt-4o-mini"]);
    let any = Running::start(Options::new().any_model(true));
    any.ok(TEXT, &with(&greedy("hello", 1), "model", json!("other")));
}

#[test]
fn browsers_and_named_hosts_are_let_in() {
    let server = Running::start(
        Options::new()
            .cors("https://a.example")
            .allow_host("host.docker.internal"),
    );
    let preflight = |origin: &str| {
        let text = format!(
            "OPTIONS {CHAT} HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type, x-stainless-os"
        );
        head(&server, &text).to_lowercase()
    };
    let allowed = preflight("https://a.example");
    assert!(allowed.starts_with("http/1.1 204"), "{allowed}");
    for line in [
        "access-control-allow-origin: https://a.example",
        "access-control-allow-headers: content-type, x-stainless-os",
        "access-control-allow-methods: get, post, options",
        "vary: origin",
    ] {
        assert!(allowed.contains(line), "{allowed}");
    }
    let refused = preflight("https://b.example");
    assert!(
        refused.starts_with("http/1.1 405") && !refused.contains("access-control-allow"),
        "{refused}"
    );
    let get =
        |host: &str, more: &str| head(&server, &format!("GET /v1/models HTTP/1.1\r\nHost: {host}{more}"));
    let page = get("host.docker.internal:8080", "\r\nOrigin: https://a.example").to_lowercase();
    assert!(
        page.starts_with("http/1.1 200") && page.contains("access-control-allow-origin"),
        "{page}"
    );
    assert!(get("other.internal", "").starts_with("HTTP/1.1 403"));
    // a key is needed by requests, and not by a browser that asks for leave
    let keyed = Running::start(Options::new().cors("*").api_key("secret"));
    let ask = format!(
        "OPTIONS {CHAT} HTTP/1.1\r\nHost: x\r\nOrigin: http://b\r\nAccess-Control-Request-Method: POST"
    );
    assert!(head(&keyed, &ask).starts_with("HTTP/1.1 204"));
    assert!(head(&keyed, "GET /v1/models HTTP/1.1\r\nHost: x").starts_with("HTTP/1.1 401"));
    assert!(
        head(&keyed, "GET /v1/models HTTP/1.1\r\nHost: x\r\nx-api-key: secret").starts_with("HTTP/1.1 200")
    );
}

#[test]
fn required_calls_conform_to_their_schema() {
    for template in [TOOLS, "{% for m in messages %}{{ m.content }}{% endfor %}"] {
        let server = Running::start_with(roomy(template), Options::new());
        for seed in 0..4 {
            let asked = chat(&json!({
                "tools": [tool("f"), tool("get_it")], "tool_choice": "required", "seed": seed,
                "parallel_tool_calls": false,
            }));
            let answer = server.ok(CHAT, &asked);
            let choice = &answer["choices"][0];
            assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
            assert_eq!(choice["message"]["content"], Value::Null);
            let calls = choice["message"]["tool_calls"].as_array().unwrap();
            assert_eq!(calls.len(), 1);
            let arguments = calls[0]["function"]["arguments"].as_str().unwrap();
            is_valid(arguments);

            // the same call in pieces
            let events = server.stream(CHAT, &with(&asked, "stream", json!(true))).rest();
            let deltas = events
                .iter()
                .filter_map(|event| event["choices"][0]["delta"]["tool_calls"].get(0));
            let (mut name, mut pieces) = (Value::Null, String::new());
            for delta in deltas {
                assert_eq!(delta["index"], 0);
                if delta["id"].is_string() {
                    name = delta["function"]["name"].clone();
                }
                pieces.push_str(delta["function"]["arguments"].as_str().unwrap());
            }
            assert_eq!((&name, &*pieces), (&calls[0]["function"]["name"], arguments));
            let last = events.last().unwrap();
            assert_eq!(last["choices"][0]["finish_reason"], "tool_calls");
        }
        let named = json!({"type": "function", "function": {"name": "get_it"}});
        let asked = chat(&json!({"tools": [tool("f"), tool("get_it")], "tool_choice": named}));
        let answer = server.ok(CHAT, &asked);
        let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap();
        assert_eq!(
            (calls.len(), &calls[0]["function"]["name"]),
            (1, &json!("get_it"))
        );
        // several
        let asked = chat(&json!({"tools": [tool("f")], "tool_choice": "required"}));
        let answer = server.ok(CHAT, &asked);
        for call in answer["choices"][0]["message"]["tool_calls"].as_array().unwrap() {
            if answer["choices"][0]["finish_reason"] == "tool_calls" {
                is_valid(call["function"]["arguments"].as_str().unwrap());
            }
        }
        // calls and results of before, and a model that may call but need not
        let call =
            json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}});
        let history = json!([
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "7"},
        ]);
        let asked = chat(&json!({"messages": history, "tools": [tool("f")], "max_tokens": 5}));
        let answer = server.ok(CHAT, &asked);
        let without =
            chat(&json!({"messages": history, "tools": [tool("f")], "max_tokens": 5, "tool_choice": "none"}));
        let fewer = server.ok(CHAT, &without);
        let tokens = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64();
        assert!(tokens(&answer) > tokens(&fewer), "{answer} {fewer}");
    }
    let server = Running::start_with(roomy(TEMPLATE), Options::new());
    let mut odd = tool("f");
    odd["function"]["parameters"] = json!({"type": "array", "uniqueItems": true});
    let (status, error) = server.post(CHAT, &chat(&json!({"tools": [odd], "tool_choice": "required"})));
    assert_eq!((status, &error["error"]["param"]), (400, &json!("tools")));
    assert!(
        error["error"]["message"]
            .as_str()
            .unwrap()
            .contains("uniqueItems"),
        "{error}"
    );
}

#[test]
fn scores_are_those_of_the_most_likely_tokens() {
    let server = Running::start(Options::new());
    let asked = with(
        &with(
            &chat(&json!({"temperature": 0, "max_tokens": 8})),
            "logprobs",
            json!(true),
        ),
        "top_logprobs",
        json!(2),
    );
    let answer = server.ok(CHAT, &asked);
    let scores = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(scores.len(), 8);
    let mut bytes = Vec::new();
    for score in scores {
        let top = score["top_logprobs"].as_array().unwrap();
        assert_eq!((top.len(), &top[0]["logprob"]), (2, &score["logprob"]));
        assert!(score["logprob"].as_f64().unwrap() <= 0.0);
        assert!(top[0]["logprob"].as_f64() >= top[1]["logprob"].as_f64());
        bytes.extend(
            score["bytes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|byte| byte.as_u64().unwrap() as u8),
        );
    }
    let said = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(
        String::from_utf8_lossy(&bytes).starts_with(said),
        "{said:?} {bytes:?}"
    );
    let events = server.stream(CHAT, &with(&asked, "stream", json!(true))).rest();
    let streamed: Vec<&Value> = events
        .iter()
        .filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array())
        .flatten()
        .collect();
    assert_eq!(streamed, scores.iter().collect::<Vec<_>>());
}

#[test]
fn echoed_prompts_are_scored() {
    let server = Running::start(Options::new());
    let long = "hello world ".repeat(30);
    let mut asked = greedy(&long, 3);
    asked["echo"] = json!(true);
    asked["logprobs"] = json!(1);
    let answer = server.ok(TEXT, &asked);
    let choice = &answer["choices"][0];
    assert!(choice["text"].as_str().unwrap().starts_with(&long));
    let scores = &choice["logprobs"];
    let count = answer["usage"]["total_tokens"].as_u64().unwrap() as usize;
    let numbers = scores["token_logprobs"].as_array().unwrap();
    assert_eq!((numbers.len(), &numbers[0]), (count, &Value::Null));
    assert_eq!(scores["text_offset"].as_array().unwrap().len(), count);
    // a token of the answer has the same score as when it is part of the prompt
    let tokens = server.ok(
        "/tokenize",
        &json!({"content": choice["text"], "parse_special": false}),
    );
    let mut again = json!({"prompt": tokens["tokens"], "max_tokens": 0, "echo": true, "logprobs": 0});
    again["temperature"] = json!(0);
    let again = server.ok(TEXT, &again);
    if tokens["count"].as_u64() == Some(count as u64) {
        let of_prompt = again["choices"][0]["logprobs"]["token_logprobs"]
            .as_array()
            .unwrap();
        for (one, two) in of_prompt.iter().zip(numbers).skip(1) {
            assert!(
                (one.as_f64().unwrap() - two.as_f64().unwrap()).abs() < 1e-3,
                "{one} {two}"
            );
        }
    }
    assert_eq!(again["usage"]["completion_tokens"], 0);
    // without scores
    let plain = server.ok(TEXT, &with(&greedy("hello", 3), "echo", json!(true)));
    let alone = server.ok(TEXT, &greedy("hello", 3));
    let expected = format!("hello{}", alone["choices"][0]["text"].as_str().unwrap());
    assert_eq!(plain["choices"][0]["text"], expected);
    let streamed = server.stream(
        TEXT,
        &with(
            &with(&greedy("hello", 3), "echo", json!(true)),
            "stream",
            json!(true),
        ),
    );
    assert_eq!(text(&streamed.rest()), expected);
}

#[test]
fn several_answers_and_prompts_share_a_request() {
    let server = Running::start(Options::new());
    let mut asked = greedy("", 6);
    asked["prompt"] = json!(["hello", "x"]);
    let together = server.ok(TEXT, &asked);
    let choices = together["choices"].as_array().unwrap();
    for (index, prompt) in ["hello", "x"].iter().enumerate() {
        let alone = server.ok(TEXT, &greedy(prompt, 6));
        assert_eq!(choices[index]["text"], alone["choices"][0]["text"]);
        assert_eq!(choices[index]["index"], index);
    }
    assert_eq!(together["usage"]["completion_tokens"], 12);

    let drawn = chat(&json!({"n": 3, "max_tokens": 12, "temperature": 2}));
    let answer = server.ok(CHAT, &drawn);
    let texts: Vec<&Value> = answer["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| &choice["message"]["content"])
        .collect();
    assert_eq!(texts.len(), 3);
    assert!(texts[0] != texts[1] || texts[1] != texts[2], "{answer}");
    let one = server.ok(CHAT, &with(&drawn, "n", json!(1)));
    assert_eq!(one["usage"]["prompt_tokens"], answer["usage"]["prompt_tokens"]);
    assert_eq!(&one["choices"][0]["message"]["content"], texts[0]);
    let events = server.stream(CHAT, &with(&drawn, "stream", json!(true))).rest();
    for (index, expected) in texts.iter().enumerate() {
        let own: Vec<Value> = events
            .iter()
            .filter(|event| event["choices"][0]["index"] == index)
            .cloned()
            .collect();
        assert_eq!(json!(text(&own)), **expected);
    }
    let (status, error) = server.post(CHAT, &with(&drawn, "n", json!(33)));
    assert_eq!((status, &error["error"]["param"]), (400, &json!("n")));
}

#[test]
fn biased_tokens_are_preferred_or_avoided() {
    let server = Running::start(Options::new());
    let tokens = server.ok("/tokenize", &json!({"content": "w", "parse_special": false}));
    let id = tokens["tokens"][0].to_string();
    let biased = server.ok(TEXT, &with(&greedy("hello", 3), "logit_bias", json!({id: 100})));
    assert_eq!(biased["choices"][0]["text"], "www");
    let model = model();
    let prompt = model
        .tokenizer()
        .encode_prompt("hello", polychip_llm::Specials::AsText)
        .unwrap();
    let go_on = &mut |_: &str| std::ops::ControlFlow::Continue(());
    let mut sequence = model.sequence().unwrap();
    let first = sequence.generate(&prompt, &polychip_llm::Generate::greedy(1), go_on);
    let id = first.unwrap().tokens[0].to_string();
    let avoided = server.ok(TEXT, &with(&greedy("hello", 4), "logit_bias", json!({id: -100})));
    let said = server.ok(TEXT, &greedy("hello", 4));
    assert_ne!(avoided["choices"][0]["text"], said["choices"][0]["text"]);
    let (status, error) = server.post(
        TEXT,
        &with(&greedy("hello", 1), "logit_bias", json!({"999999": 1})),
    );
    assert_eq!((status, &error["error"]["param"]), (400, &json!("logit_bias")));
}

#[test]
fn an_answer_that_is_cut_ends_with_a_whole_character() {
    // é has two bytes, each a token: with these biases the answer is nothing else
    let server = Running::start(Options::new());
    let tokens = server.ok("/tokenize", &json!({"content": "é"}));
    let ids: Vec<String> = tokens["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(Value::to_string)
        .collect();
    assert_eq!(ids.len(), 2);
    let first = json!({ids[0].as_str(): 100});
    let answer = server.ok(TEXT, &with(&greedy("hello", 1), "logit_bias", first));
    assert_eq!(
        (
            &answer["choices"][0]["text"],
            &answer["choices"][0]["finish_reason"]
        ),
        (&json!(""), &json!("length"))
    );
}

#[test]
fn tokens_and_properties_are_given() {
    let server = Running::start(Options::new());
    let tokens = server.ok(
        "/tokenize",
        &json!({"content": "hello wé<|end|>", "with_pieces": true}),
    );
    assert_eq!(tokens["tokens"][0]["piece"], "hello");
    let plain = server.ok("/tokenize", &json!({"prompt": "hello wé"}));
    assert_eq!(
        plain["count"].as_u64().unwrap() as usize,
        plain["tokens"].as_array().unwrap().len()
    );
    let back = server.ok("/detokenize", &json!({"tokens": plain["tokens"]}));
    assert_eq!(back["content"], "hello wé");
    assert_eq!(server.post("/detokenize", &json!({"tokens": [999_999]})).0, 400);
    assert_eq!(server.post("/tokenize", &json!({})).0, 400);
    let long = json!({"content": "hello1 ".repeat(20_000)});
    assert_eq!(
        server.post("/tokenize", &long).1["error"]["code"],
        "context_length_exceeded"
    );
    let props: Value = serde_json::from_str(&server.get("/props").1).unwrap();
    assert_eq!(
        (&props["n_ctx"], &props["eos_token"]),
        (&json!(512), &json!("<|end|>"))
    );
    let root: Value = serde_json::from_str(&server.get("/").1).unwrap();
    let endpoints = root["endpoints"].as_object().unwrap();
    // each is there
    for endpoint in endpoints.keys().filter_map(|name| name.strip_prefix("GET ")) {
        assert_eq!(server.get(&endpoint.replace("NAME", "tiny")).0, 200, "{endpoint}");
    }
    for endpoint in endpoints.keys().filter_map(|name| name.strip_prefix("POST ")) {
        let (status, _) = server.post(
            endpoint,
            &json!({"max_tokens": 1, "messages": 1, "prompt": 1, "input": 1}),
        );
        assert_eq!(status, 400, "{endpoint}");
    }
}

#[test]
fn embeddings_are_those_of_the_library() {
    let server = Running::start(Options::new());
    let long = "hello world ".repeat(30);
    let asked = json!({"input": ["hello", long, "hello"]});
    let whole = server.ok("/v1/embeddings", &asked);
    let numbers = |index: usize| -> Vec<f32> {
        let list = whole["data"][index]["embedding"].as_array().unwrap();
        list.iter()
            .map(|number| number.as_f64().unwrap() as f32)
            .collect()
    };
    let length: f32 = numbers(1).iter().map(|number| number * number).sum();
    assert!((length - 1.0).abs() < 1e-4, "{length}");
    assert_eq!(numbers(0), numbers(2));
    assert_ne!(numbers(0), numbers(1));
    let model = model();
    let prompt = model
        .tokenizer()
        .encode_prompt(&long, polychip_llm::Specials::AsText)
        .unwrap();
    let expected = model.sequence().unwrap().embedding(&prompt).unwrap();
    for (found, expected) in numbers(1).iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
    assert_eq!(whole["usage"]["prompt_tokens"].as_u64().unwrap() as usize, {
        let short = model
            .tokenizer()
            .encode_prompt("hello", polychip_llm::Specials::AsText);
        prompt.len() + 2 * short.unwrap().len()
    });
    let (status, error) = server.post("/v1/embeddings", &json!({"input": ""}));
    assert_eq!((status, &error["error"]["param"]), (400, &json!("input")));
    let many = json!({"input": vec!["x"; 33]});
    assert_eq!(server.post("/v1/embeddings", &many).1["error"]["param"], "input");
}

#[test]
fn anthropic_messages_are_answered() {
    let server = Running::start_with(roomy(TEMPLATE), Options::new());
    let path = "/v1/messages";
    let asked = json!({
        "model": "tiny", "max_tokens": 8, "temperature": 0, "cache_prompt": false,
        "system": "be short", "messages": [{"role": "user", "content": "hello"}],
    });
    let whole = server.ok(path, &asked);
    assert_eq!(
        (&whole["type"], &whole["stop_reason"]),
        (&json!("message"), &json!("max_tokens"))
    );
    let said = whole["content"][0]["text"].as_str().unwrap();
    let events = events(&raw(&server, path, &with(&asked, "stream", json!(true))));
    let names: Vec<&str> = events.iter().map(|(name, _)| &**name).collect();
    assert_eq!((names[0], names[1]), ("message_start", "content_block_start"));
    assert_eq!(
        names[names.len() - 3..],
        ["content_block_stop", "message_delta", "message_stop"]
    );
    assert!(events.iter().all(|(name, data)| data["type"] == **name));
    let pieces: String = events
        .iter()
        .filter_map(|(_, data)| data["delta"]["text"].as_str())
        .collect();
    assert_eq!(pieces, said);
    assert_eq!(events[events.len() - 2].1["usage"]["output_tokens"], 8);

    let of_tool = &tool("f")["function"];
    let tools = json!([{"name": "f", "description": "d", "input_schema": of_tool["parameters"]}]);
    let mut asked = with(&asked, "tools", tools);
    asked["tool_choice"] = json!({"type": "any", "disable_parallel_tool_use": true});
    asked["max_tokens"] = json!(100);
    asked["temperature"] = json!(1);
    asked["seed"] = json!(3);
    let whole = server.ok(path, &asked);
    assert_eq!(
        (&whole["stop_reason"], whole["content"].as_array().unwrap().len()),
        (&json!("tool_use"), 1)
    );
    let call = &whole["content"][0];
    is_valid(&call["input"].to_string());
    assert!(call["id"].as_str().unwrap().starts_with("toolu_"));
    let streamed = self::events(&raw(&server, path, &with(&asked, "stream", json!(true))));
    let pieces: String = streamed
        .iter()
        .filter_map(|(_, data)| data["delta"]["partial_json"].as_str())
        .collect();
    assert_eq!(serde_json::from_str::<Value>(&pieces).unwrap(), call["input"]);
    let (status, error) = server.post(path, &json!({"messages": []}));
    assert_eq!(
        (status, &error["type"], &error["error"]["type"]),
        (400, &json!("error"), &json!("invalid_request_error"))
    );
}

#[test]
fn ollama_chats_are_answered() {
    let server = Running::start(Options::new());
    let asked = json!({
        "model": "tiny:latest", "messages": [{"role": "user", "content": "hello"}], "stream": false,
        "options": {"temperature": 0, "num_predict": 8, "num_ctx": 100},
    });
    let whole = server.ok("/api/chat", &asked);
    assert_eq!(
        (&whole["done"], &whole["done_reason"]),
        (&json!(true), &json!("length"))
    );
    assert_eq!(whole["eval_count"], 8);
    let said = whole["message"]["content"].as_str().unwrap();
    let lines = |path: &str, body: &Value| -> Vec<Value> {
        let text = raw(&server, path, body);
        text.lines()
            .map(|line| serde_json::from_str(line).expect("it is JSON"))
            .collect()
    };
    let streamed = lines("/api/chat", &with(&asked, "stream", json!(true)));
    let pieces: String = streamed
        .iter()
        .filter_map(|line| line["message"]["content"].as_str())
        .collect();
    assert_eq!(pieces, said);
    let (last, before) = streamed.split_last().unwrap();
    assert!(last["done"] == true && before.iter().all(|line| line["done"] == false));

    let of_text = json!({"model": "tiny", "prompt": "hello", "raw": true, "options": {"temperature": 0, "num_predict": 5}});
    let pieces: String = lines("/api/generate", &of_text)
        .iter()
        .filter_map(|line| line["response"].as_str())
        .collect();
    assert_eq!(pieces, server.ok(TEXT, &greedy("hello", 5))["choices"][0]["text"]);
    let loaded = server.ok("/api/generate", &json!({"model": "tiny", "stream": false}));
    assert_eq!(
        (&loaded["done_reason"], &loaded["response"]),
        (&json!("load"), &json!(""))
    );
    let schema = json!({"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": false});
    let mut held = with(&asked, "format", schema);
    held["options"] = json!({"num_predict": 50});
    let whole = server.ok("/api/chat", &held);
    let value: Value = serde_json::from_str(whole["message"]["content"].as_str().unwrap()).unwrap();
    assert!(value["a"] == 1 || value["a"] == 2, "{value}");

    let tags: Value = serde_json::from_str(&server.get("/api/tags").1).unwrap();
    assert_eq!(
        (
            &tags["models"][0]["name"],
            &tags["models"][0]["details"]["family"]
        ),
        (&json!("tiny"), &json!("llama"))
    );
    assert!(server.get("/api/version").1.contains("version"));
    let (status, error) = server.post(
        "/api/chat",
        &json!({"model": "other", "messages": [{"role": "user", "content": "x"}]}),
    );
    assert!(
        status == 404 && error["error"].as_str().unwrap().contains("other"),
        "{error}"
    );
}

#[test]
fn openai_responses_are_answered() {
    let server = Running::start_with(roomy(TEMPLATE), Options::new());
    let path = "/v1/responses";
    let asked = json!({
        "model": "tiny", "input": "hello", "max_output_tokens": 8, "temperature": 0, "cache_prompt": false,
    });
    let whole = server.ok(path, &asked);
    assert_eq!(
        (&whole["object"], &whole["status"]),
        (&json!("response"), &json!("incomplete"))
    );
    assert_eq!(whole["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(whole["usage"]["output_tokens"], 8);
    let said = whole["output"][0]["content"][0]["text"].as_str().unwrap();
    let stream = events(&raw(&server, path, &with(&asked, "stream", json!(true))));
    let names: Vec<&str> = stream.iter().map(|(name, _)| &**name).collect();
    assert_eq!(
        (names[0], names[names.len() - 1]),
        ("response.created", "response.incomplete")
    );
    for (index, (name, data)) in stream.iter().enumerate() {
        assert_eq!(
            (&data["type"], &data["sequence_number"]),
            (&json!(name), &json!(index))
        );
    }
    let pieces: String = stream
        .iter()
        .filter_map(|(_, data)| data["delta"].as_str())
        .collect();
    assert_eq!(pieces, said);
    assert_eq!(
        stream.last().unwrap().1["response"]["output"][0]["content"][0]["text"],
        said
    );

    let function = &tool("f")["function"];
    let tools = json!([{"type": "function", "name": "f", "parameters": function["parameters"]}]);
    let mut asked = with(&asked, "tools", tools);
    asked["tool_choice"] = json!("required");
    asked["parallel_tool_calls"] = json!(false);
    asked["max_output_tokens"] = json!(100);
    let whole = server.ok(path, &asked);
    let call = &whole["output"][0];
    assert_eq!(
        (&call["type"], &call["name"]),
        (&json!("function_call"), &json!("f"))
    );
    is_valid(call["arguments"].as_str().unwrap());
    let stream = events(&raw(&server, path, &with(&asked, "stream", json!(true))));
    let done = stream
        .iter()
        .find(|(name, _)| name == "response.function_call_arguments.done");
    assert_eq!(done.unwrap().1["arguments"], call["arguments"]);
    let (status, error) = server.post(path, &json!({"input": "x", "previous_response_id": "resp_1"}));
    assert_eq!(
        (status, &error["error"]["param"]),
        (400, &json!("previous_response_id"))
    );
}

#[test]
fn failures_in_streams_have_the_form_of_their_interface() {
    let server = Running::start(Options::new());
    let chat = json!({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 500, "stream": true, "temperature": 0});
    let begun = |path: &str, body: &Value| {
        let mut response = server.begin(path, body).into_body().into_reader();
        response.read_exact(&mut [0]).unwrap();
        response
    };
    let mut open: Vec<_> = [
        (CHAT, chat.clone()),
        ("/v1/messages", chat.clone()),
        ("/api/chat", json!({"messages": chat["messages"]})),
        ("/v1/responses", json!({"input": "hello", "stream": true})),
    ]
    .iter()
    .map(|(path, body)| (*path, begun(path, body)))
    .collect();
    server.handle.give_up();
    for (path, response) in &mut open {
        let mut rest = String::new();
        response.read_to_string(&mut rest).unwrap();
        let expected = match *path {
            CHAT => "\"code\":\"shutting_down\"",
            "/v1/messages" => "event: error",
            "/api/chat" => "{\"error\":\"the server is shutting down\"}",
            _ => "event: response.failed",
        };
        // a short answer may have ended before
        assert!(
            rest.contains(expected)
                || rest.contains("[DONE]")
                || rest.contains("stop")
                || rest.contains("completed"),
            "{path}: {rest}"
        );
    }
}
