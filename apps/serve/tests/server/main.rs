//! A server as clients find it: what it answers, whom it sends away, how it ends.

mod hostile;
mod interfaces;
mod malformed;
mod site;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use polychip_serve::{ErrorKind, Options, Server};
use serde_json::{Value, json};
use site::{LONG, Running, greedy, model, text, with};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn chat(content: &str) -> Value {
    json!({
        "model": "tiny",
        "messages": [{"role": "system", "content": "be short"}, {"role": "user", "content": content}],
        "max_tokens": 40,
        "temperature": 0,
        "cache_prompt": false,
    })
}

#[test]
fn streamed_pieces_form_the_whole_answer() {
    let server = Running::start(Options::new());
    for (path, body) in [
        (CHAT, chat("hello")),
        (
            CHAT,
            with(&with(&chat("é漢😀"), "temperature", json!(1.5)), "seed", json!(7)),
        ),
        (TEXT, greedy("hello w", 40)),
        (TEXT, with(&greedy("x", 60), "frequency_penalty", json!(1.5))),
    ] {
        let whole = server.ok(path, &body);
        let choice = &whole["choices"][0];
        let said = choice["message"]["content"].as_str().or(choice["text"].as_str());
        let said = said.expect("there is a text");
        assert!(!said.is_empty(), "{whole}");

        let body = with(&body, "stream", json!(true));
        let body = with(&body, "stream_options", json!({"include_usage": true}));
        let events = server.stream(path, &body).rest();
        assert_eq!(text(&events), said, "{body}");
        let (last, before) = events.split_last().expect("there are events");
        assert_eq!(
            (&last["choices"], &last["usage"]["total_tokens"]),
            (&json!([]), &whole["usage"]["total_tokens"])
        );
        assert!(
            before
                .iter()
                .all(|event| event["usage"].is_null() && event["id"] == last["id"])
        );
        let (end, pieces) = before.split_last().expect("there is an end");
        assert_eq!(end["choices"][0]["finish_reason"], choice["finish_reason"]);
        assert!(
            pieces
                .iter()
                .all(|event| event["choices"][0]["finish_reason"].is_null())
        );
        if path == CHAT {
            assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
            assert_eq!(events[0]["object"], "chat.completion.chunk");
            assert_eq!(whole["object"], "chat.completion");
        }
    }
}

#[test]
fn server_answer_matches_the_library() {
    use std::ops::ControlFlow;

    use polychip_llm::{Generate, Specials};

    let model = model();
    let prompt = model
        .tokenizer()
        .encode_prompt("hello w", Specials::AsText)
        .unwrap();
    let mut sequence = model.sequence().unwrap();
    let go_on = &mut |_: &str| ControlFlow::Continue(());
    let expected = sequence.generate(&prompt, &Generate::greedy(30), go_on).unwrap();

    let server = Running::start(Options::new());
    let answer = server.ok(TEXT, &greedy("hello w", 30));
    assert_eq!(answer["choices"][0]["text"], expected.text);
    assert_eq!(answer["usage"]["prompt_tokens"], prompt.len());
    assert_eq!(answer["usage"]["completion_tokens"], expected.tokens.len());
    // the same prompt as tokens, and as a chat whose template writes no more than it
    let tokens = with(&greedy("", 30), "prompt", json!(prompt));
    assert_eq!(server.ok(TEXT, &tokens)["choices"][0]["text"], expected.text);
    let of_chat = json!({
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        "max_completion_tokens": 5, "temperature": 0, "cache_prompt": false,
    });
    let of_text = server.ok(TEXT, &greedy("ux", 5));
    assert_eq!(
        server.ok(CHAT, &of_chat)["choices"][0]["message"]["content"],
        of_text["choices"][0]["text"]
    );
}

#[test]
fn answers_are_independent_of_other_clients() {
    let long = "hello world 12 ".repeat(20);
    let prompts = [
        "a",
        "hello w",
        &long,
        &format!("{long}?"),
        "1212",
        "é漢",
        "wor",
        &long[..200],
    ];
    let alone = Running::start(Options::new().max_active(1));
    let expected: Vec<Value> = prompts
        .iter()
        .map(|prompt| alone.ok(TEXT, &greedy(prompt, 60))["choices"].clone())
        .collect();
    drop(alone);
    let together = Running::start(Options::new().max_active(5));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            for (prompt, expected) in prompts.iter().zip(&expected) {
                let together = &together;
                scope.spawn(move || {
                    let answer = together.ok(TEXT, &greedy(prompt, 60));
                    assert_eq!(answer["choices"], *expected, "{prompt:?}");
                });
            }
        }
    });
}

#[test]
fn cached_prefix_is_not_recomputed() {
    let server = Running::start(Options::new());
    let cached = |answer: &Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
    let reusing = |prompt: &str, tokens| with(&greedy(prompt, tokens), "cache_prompt", json!(true));
    let begun = "hello world 12 ".repeat(10);
    let first = server.ok(TEXT, &reusing(&begun, 20));
    assert_eq!(cached(&first), Some(0));
    // continue the chat
    let whole = format!("{begun}{}", first["choices"][0]["text"].as_str().unwrap());
    let second = server.ok(TEXT, &reusing(&format!("{whole} and"), 20));
    assert!(
        cached(&second) >= first["usage"]["prompt_tokens"].as_u64(),
        "{second}"
    );

    // another one begins the same while the first is answered
    let open = with(&reusing(&format!("{begun}x"), 400), "stream", json!(true));
    let mut open = server.stream(TEXT, &open);
    open.next();
    let other = server.ok(TEXT, &reusing(&format!("{begun}yz"), 5));
    assert!(cached(&other) > Some(60), "{other}");
    // a copied cache gives the same answer as a fresh one
    let fresh = server.ok(TEXT, &greedy(&format!("{begun}yz"), 5));
    assert_eq!((cached(&fresh), &fresh["choices"]), (Some(0), &other["choices"]));
    let counted = server.metric("polychip_reused_tokens_total") as u64;
    assert!(counted > cached(&second).unwrap() + cached(&other).unwrap());
}

#[test]
fn disconnected_client_frees_its_slot() {
    let server = Running::start(Options::new().max_active(1).max_queue(20));
    let endless = with(&greedy("hello", 500), "stream", json!(true));
    for round in 1..=3 {
        let mut stream = server.stream(TEXT, &endless);
        assert!(stream.next().is_some());
        assert_eq!(server.metric("polychip_answers_active"), 1.0);
        drop(stream);
        server.wait_for("polychip_answers_active", 0.0);
        assert_eq!(
            server.metric("polychip_answers_total{why=\"gone\"}"),
            f64::from(round)
        );
    }
    // before an answer that is no stream has begun, too
    // several answers take longer than the time before the server looks
    let body = with(&greedy("hello", 500), "n", json!(16)).to_string();
    let head = format!(
        "POST {TEXT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // also behind unread bytes: the server polls for that, and the answers may end before it looks
    let gone = || server.metric("polychip_answers_total{why=\"gone\"}");
    for (tries, request) in [(1, head.clone() + &body), (20, head + &body + "\r\n")] {
        let is_let_go = (0..tries).any(|_| {
            let before = gone();
            let mut socket = TcpStream::connect(server.address).unwrap();
            socket.write_all(request.as_bytes()).unwrap();
            server.wait_for("polychip_answers_active", 1.0);
            drop(socket);
            server.wait_for("polychip_answers_active", 0.0);
            gone() > before
        });
        assert!(is_let_go, "{request}");
    }
    assert_eq!(
        server.ok(TEXT, &greedy("hello", 3))["usage"]["completion_tokens"],
        3
    );
}

#[test]
fn full_queue_rejects_the_next_request() {
    let server = Running::start(Options::new().max_active(1).max_queue(1));
    let endless = with(&greedy("hello", 500), "stream", json!(true));
    let mut first = server.stream(TEXT, &endless);
    first.next();
    let second = server.stream(TEXT, &endless);
    let mut third = server.begin(TEXT, &greedy("hello", 3));
    assert_eq!(third.status(), 429);
    assert_eq!(third.headers()["retry-after"], "1");
    let error: Value = third.body_mut().read_json().unwrap();
    assert_eq!(
        (&error["error"]["code"], &error["error"]["type"]),
        (&json!("queue_full"), &json!("rate_limit_error"))
    );
    assert_eq!(server.metric("polychip_requests_waiting"), 1.0);
    // who waits and hangs up gives the place free
    drop(second);
    let started = Instant::now();
    loop {
        let mut next = server.begin(TEXT, &with(&greedy("hello", 3), "stream", json!(true)));
        if next.status() == 200 {
            drop(first);
            let text = next.body_mut().read_to_string().unwrap();
            assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
            break;
        }
        assert!(started.elapsed() < LONG);
    }
}

#[test]
fn shutdown_finishes_running_answers_and_rejects_new_ones() {
    let server = Running::start(Options::new());
    let body = with(&greedy("hello", 300), "stream", json!(true));
    let expected = text(&server.stream(TEXT, &body).rest());
    let mut open = server.stream(TEXT, &body);
    let mut events = vec![open.next().unwrap()];
    server.handle.shut_down();
    let (status, error) = server.post(TEXT, &greedy("hello", 3));
    assert_eq!((status, &error["error"]["code"]), (503, &json!("shutting_down")));
    assert_eq!(server.get("/health").0, 503);
    events.extend(open.rest());
    assert_eq!(text(&events), expected);
    let address = server.address;
    server.ended().unwrap();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn answers_past_the_grace_time_are_aborted() {
    let server = Running::start(Options::new().grace(Duration::ZERO));
    let mut open = server.stream(TEXT, &with(&greedy("hello", 500), "stream", json!(true)));
    open.next();
    server.handle.shut_down();
    let mut last = Value::Null;
    let mut line = String::new();
    let mut rest = open.into_inner();
    rest.read_to_string(&mut line).unwrap();
    for event in line.lines().filter_map(|line| line.strip_prefix("data: ")) {
        last = serde_json::from_str(event).unwrap_or(last);
    }
    assert_eq!(last["error"]["code"], "shutting_down", "{line}");
    server.ended().unwrap();
}

#[test]
fn request_timeout_is_enforced() {
    let server = Running::start(Options::new().timeout(Duration::from_millis(1)));
    let (status, error) = server.post(TEXT, &greedy("hello", 500));
    assert_eq!((status, &error["error"]["code"]), (504, &json!("timeout")));
    server.wait_for("polychip_answers_active", 0.0);
    // reading the request counts: on a busy machine a stream may not even begin, but not each time
    let server = Running::start(Options::new().timeout(Duration::from_millis(20)));
    let has_begun = (0..50).any(|_| {
        let mut response = server.begin(TEXT, &with(&greedy("hello", 500), "stream", json!(true)));
        let text = response.body_mut().read_to_string().unwrap();
        assert!(
            text.contains("\"code\":\"timeout\"") && !text.contains("[DONE]"),
            "{text}"
        );
        response.status() == 200
    });
    assert!(has_begun);
    server.wait_for("polychip_answers_active", 0.0);
}

#[test]
fn answers_respect_stop_conditions() {
    let server = Running::start(Options::new().max_tokens(50));
    let whole = server.ok(TEXT, &greedy("hello", 40));
    let whole = whole["choices"][0]["text"].as_str().unwrap().to_owned();
    let (at, stop) = whole
        .char_indices()
        .find(|(_, stop)| stop.is_ascii_graphic())
        .unwrap();
    let body = with(
        &greedy("hello", 40),
        "stop",
        json!(["never said", stop.to_string()]),
    );
    let stopped = server.ok(TEXT, &body);
    assert_eq!(stopped["choices"][0]["text"], whole[..at]);
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    let events = server.stream(TEXT, &with(&body, "stream", json!(true))).rest();
    assert_eq!(text(&events), whole[..at]);

    // the interface's default, and the server's own limit
    let without = json!({"prompt": "hello", "temperature": 0});
    let cut = server.ok(TEXT, &without);
    assert_eq!(
        (
            &cut["usage"]["completion_tokens"],
            &cut["choices"][0]["finish_reason"]
        ),
        (&json!(16), &json!("length"))
    );
    let without = json!({"messages": [{"role": "user", "content": "hello"}], "temperature": 0});
    assert_eq!(server.ok(CHAT, &without)["usage"]["completion_tokens"], 50);
    let (status, error) = server.post(TEXT, &greedy("hello", 51));
    assert_eq!((status, &error["error"]["param"]), (400, &json!("max_tokens")));
    // the room's
    let roomy = Running::start(Options::new());
    let tokens: Vec<u32> = (0..500).map(|index| index % 200).collect();
    let full = roomy.ok(
        TEXT,
        &json!({"prompt": tokens, "temperature": 0, "max_tokens": 100_000}),
    );
    assert_eq!(
        (
            &full["usage"]["completion_tokens"],
            &full["usage"]["total_tokens"]
        ),
        (&json!(12), &json!(512))
    );
}

#[test]
fn key_and_host_name_are_checked() {
    let server = Running::start(Options::new().api_key("secret").name("mine"));
    assert_eq!(server.get("/health").0, 200);
    for path in ["/v1/models", "/metrics", "/nowhere"] {
        assert_eq!(server.get(path).0, 401);
    }
    let asked = |headers: &str| {
        let mut socket = TcpStream::connect(server.address).unwrap();
        let head = format!("GET /v1/models HTTP/1.1\r\nConnection: close\r\n{headers}\r\n\r\n");
        socket.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text
    };
    assert!(asked("Host: example.com\r\nAuthorization: Bearer secret").starts_with("HTTP/1.1 200"));
    assert!(asked("Host: example.com\r\nauthorization: bearer secret").contains("\"mine\""));
    for wrong in [
        "Bearer secre",
        "Bearer secret ",
        "Basic secret",
        "secret",
        "Bearer  secret",
        "Bearer \u{e9}",
    ] {
        let found = asked(&format!("Host: localhost\r\nAuthorization: {wrong}"));
        // blanks at a header's end are no part of it
        let expected = if wrong.ends_with(' ') {
            "HTTP/1.1 200"
        } else {
            "HTTP/1.1 401"
        };
        assert!(found.starts_with(expected), "{wrong}: {found}");
    }

    let server = Running::start(Options::new());
    let asked = |host: &str| {
        let mut socket = TcpStream::connect(server.address).unwrap();
        let head = format!("GET /health HTTP/1.1\r\nConnection: close\r\nHost: {host}\r\n\r\n");
        socket.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text[9..12].to_owned()
    };
    // a page of another site, whose name was made to lead to this machine
    assert_eq!((&*asked("example.com"), &*asked("localhost:1")), ("403", "200"));
}

#[test]
fn models_are_listed() {
    let server = Running::start(Options::new());
    let list: Value = serde_json::from_str(&server.get("/v1/models").1).unwrap();
    assert_eq!(
        (&list["object"], &list["data"][0]["id"]),
        (&json!("list"), &json!("tiny"))
    );
    let one: Value = serde_json::from_str(&server.get("/v1/models/tiny").1).unwrap();
    assert_eq!((&one, &one["max_model_len"]), (&list["data"][0], &json!(512)));
    assert_eq!(server.get("/v1/models/other").0, 404);
    assert_eq!(server.get("/v1/models/a/b").0, 404);
    let (status, error) = server.get("/v1/models/%ff");
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(
        (status, &error["error"]["type"]),
        (400, &json!("invalid_request_error"))
    );
    let (status, error) = server.post(CHAT, &with(&chat("hi"), "model", json!("gpt-4")));
    assert_eq!(
        (status, &error["error"]["code"]),
        (404, &json!("model_not_found"))
    );
}

#[test]
fn answer_follows_the_response_format() {
    let server = Running::start(Options::new());
    let schema = json!({
        "type": "object",
        "properties": {
            "mood": {"enum": ["glad", "sad"]},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
        },
        "required": ["mood", "age"],
        "additionalProperties": false,
    });
    let format = |schema: &Value| json!({"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": schema}});
    std::thread::scope(|scope| {
        for seed in 0..5 {
            let (server, format) = (&server, format(&schema));
            scope.spawn(move || {
                let mut asked = with(&chat("hello"), "response_format", format);
                asked["seed"] = json!(seed);
                asked["temperature"] = json!(2);
                asked["max_tokens"] = json!(100);
                let answer = server.ok(CHAT, &asked);
                let choice = &answer["choices"][0];
                assert_eq!(choice["finish_reason"], "stop");
                let text = choice["message"]["content"].as_str().unwrap();
                let value: Value = serde_json::from_str(text).unwrap();
                assert!(value["mood"] == "glad" || value["mood"] == "sad", "{text}");
                assert!(value["age"].as_u64().unwrap() <= 150, "{text}");
                assert_eq!(value.as_object().unwrap().len(), 2);
            });
        }
    });
    let asked = with(&chat("hello"), "response_format", json!({"type": "json_object"}));
    let answer = server.ok(CHAT, &with(&asked, "max_tokens", json!(20)));
    let text = answer["choices"][0]["message"]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(text.starts_with('{'), "{text}");
    let wrong = format(&json!({"type": "array", "uniqueItems": true}));
    let (status, body) = server.post(CHAT, &with(&chat("hello"), "response_format", wrong));
    let error = &body["error"];
    assert_eq!(
        (status, &error["param"]),
        (400, &json!("response_format.json_schema.schema"))
    );
    assert!(
        error["message"].as_str().unwrap().contains("uniqueItems"),
        "{error}"
    );
    // one that nothing is of
    let endless = format(&json!({"$ref": "#"}));
    let (status, body) = server.post(CHAT, &with(&chat("hello"), "response_format", endless));
    let words = body["error"]["message"].as_str().unwrap();
    assert!(status == 400 && words.contains("unsatisfiable"), "{body}");
    assert!(!words.contains("non-verbose"), "{body}");
}

#[test]
fn metrics_count_events() {
    let server = Running::start(Options::new());
    server.ok(TEXT, &greedy("hello", 10));
    server.post(TEXT, &json!({}));
    server.get("/nowhere");
    let tokens = server.ok(TEXT, &greedy("x", 1))["usage"]["prompt_tokens"]
        .as_f64()
        .unwrap();
    for (name, value) in [
        (
            "polychip_http_responses_total{route=\"/v1/completions\",status=\"200\"}",
            2.0,
        ),
        (
            "polychip_http_responses_total{route=\"/v1/completions\",status=\"400\"}",
            1.0,
        ),
        (
            "polychip_http_responses_total{route=\"other\",status=\"404\"}",
            1.0,
        ),
        ("polychip_answer_tokens_total", 11.0),
        ("polychip_answers_total{why=\"length\"}", 2.0),
        ("polychip_answers_active", 0.0),
        ("polychip_requests_waiting", 0.0),
        ("polychip_first_token_seconds_count", 2.0),
        ("polychip_next_token_seconds_count", 9.0),
    ] {
        assert_eq!(server.metric(name), value, "{name}");
    }
    assert!(server.metric("polychip_prompt_tokens_total") > tokens);
    // what asked not to be cached is not
    assert_eq!(server.metric("polychip_kv_bytes"), 0.0);
    server.ok(TEXT, &with(&greedy("hello", 10), "cache_prompt", json!(true)));
    // a cache is kept for chats that continue, in pages, with the inputs of its chunks
    let model = model();
    let inputs: u64 = [128, 32, 8, 1].map(|rows| model.input_bytes(rows)).iter().sum();
    let (least, most) = (model.sequence_bytes(10), model.sequence_bytes(40));
    let held = server.metric("polychip_kv_bytes");
    assert!(
        held >= (least + inputs) as f64 && held <= (most + inputs) as f64,
        "{held}"
    );
    assert!(server.get("/metrics").1.ends_with("# EOF\n"));
}

#[test]
fn invalid_server_options_are_refused() {
    let refused = |options: Options| Server::new(model(), options).unwrap_err();
    assert_eq!(refused(Options::new().max_active(0)).kind(), ErrorKind::Options);
    assert_eq!(refused(Options::new().api_key("a b")).kind(), ErrorKind::Options);
    assert_eq!(refused(Options::new().name("")).kind(), ErrorKind::Options);
    assert_eq!(
        refused(Options::new().timeout(Duration::MAX)).kind(),
        ErrorKind::Options
    );
    let first = Server::new(model(), Options::new().port(0)).unwrap();
    let taken = refused(Options::new().port(first.address().port()));
    assert_eq!(taken.kind(), ErrorKind::Listen);
    assert!(
        taken.to_string().contains(&first.address().to_string()),
        "{taken}"
    );
}
