//! Requests that would end the server, hold up others or learn what others asked: each harms its own client alone.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use polychip_serve::Options;
use serde_json::{Map, Value, json};

use crate::site::{LONG, Running, greedy, model_with};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn chat() -> Value {
    json!({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, "temperature": 0})
}

fn held_to(schema: &Value) -> Value {
    let mut asked = chat();
    asked["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    asked
}

fn chain(count: usize, link: impl Fn(Value) -> Value) -> Value {
    let next = |index: usize| json!({"$ref": format!("#/$defs/d{index}")});
    let mut definitions: Map<String, Value> = (0..count)
        .map(|index| (format!("d{index}"), link(next(index + 1))))
        .collect();
    definitions.insert(format!("d{count}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

fn wide(count: usize, are_required: bool) -> Value {
    let properties: Map<String, Value> = (0..count)
        .map(|index| (format!("p{index}"), json!({"type": "integer"})))
        .collect();
    let names: Vec<&String> = properties.keys().collect();
    let required = if are_required { json!(names) } else { json!([]) };
    json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
}

/// Whether the program of sandboxes was built; these tests need it.
fn has_sandboxes() {
    assert!(
        polychip_llm::sandbox::is_available(),
        "polychip-llm-sandbox is missing: cargo build -p polychip-llm --bins"
    );
}

#[test]
fn large_schemas_do_not_end_the_server() {
    has_sandboxes();
    let server = Running::start(Options::new());
    let names: Vec<String> = (0..50_000).map(|index| format!("p{index}")).collect();
    let schemas = [
        chain(275, |next| json!({"anyOf": [next, {"type": "null"}]})),
        chain(5000, |next| next),
        wide(6500, false),
        wide(10_000, true),
        json!({"type": "object", "required": names}),
        json!({"enum": (0..3000).map(|index| json!([index])).collect::<Vec<_>>()}),
    ];
    for (index, schema) in schemas.iter().enumerate() {
        let (status, body) = server.post(CHAT, &held_to(schema));
        assert!(status == 200 || status == 400, "schema {index}: {status}, {body}");
        let words = body["error"]["message"].as_str().unwrap_or_default();
        assert!(!words.contains("panic") && !words.contains("assertion"), "{body}");
        server.ok(CHAT, &chat());
    }
    // and the answer to a small one is held to it still
    let answer = server.ok(CHAT, &held_to(&json!({"const": 7})));
    assert_eq!(answer["choices"][0]["message"]["content"], "7");
}

#[test]
fn hostile_templates_do_not_end_the_server() {
    has_sandboxes();
    let doubled =
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
    for template in [
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}".to_owned(),
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns ~ '' }}".to_owned(),
        "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a == ns.a[:] }}".to_owned(),
        format!("{doubled}{{{{ ns.x }}}}"),
        format!("{doubled}{{{{ ns.x | string }}}}"),
        format!("{doubled}{{{{ ns.x == ns.x[:] }}}}"),
        "{% set ns = namespace(x=range(99999) | list) %}{% for i in range(99999) %}{% set ns.x = ns.x[:] %}{% endfor %}"
            .to_owned(),
        "{% set ns = namespace(x=[]) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% endfor %}".to_owned(),
    ] {
        let server = Running::start_with(model_with(&template).unwrap(), Options::new());
        let (status, body) = server.post(CHAT, &chat());
        // one that is rendered after all is as good
        assert!(status == 200 || status == 400, "{template}: {status}, {body}");
        server.ok(TEXT, &greedy("hello", 4));
    }
    let nots = model_with(&format!("{{{{ {} true }}}}", "not ".repeat(100_000)));
    assert!(nots.unwrap_err().to_string().contains("maximum"));
}

#[test]
fn slow_schemas_do_not_hold_up_plain_requests() {
    has_sandboxes();
    let server = Running::start(Options::new().timeout(LONG));
    let slow = held_to(&wide(4500, false));
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| server.post(CHAT, &slow))).collect();
        for _ in 0..3 {
            server.ok(CHAT, &chat());
        }
        assert!(
            asked.iter().any(|one| !one.is_finished()),
            "the schemas are not slow"
        );
    });
}

/// Sends bytes on a connection of their own.
fn send(server: &Running, bytes: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.address).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.write_all(bytes.as_bytes()).unwrap();
    socket
}

fn request(body: &str, length: usize) -> String {
    format!(
        "POST {TEXT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

#[test]
fn client_that_closes_its_sending_half_gets_its_answer() {
    let server = Running::start(Options::new());
    let body = greedy("hello w", 300).to_string();
    let expected = server.ok(TEXT, &greedy("hello w", 300));
    let mut socket = send(&server, &request(&body, body.len()));
    socket.shutdown(Shutdown::Write).unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    // interim responses may come before
    let start = reply.find("HTTP/1.1 200").unwrap_or_else(|| panic!("{reply}"));
    assert!(
        reply[..start]
            .split("\r\n\r\n")
            .all(|interim| matches!(interim, "" | "HTTP/1.1 100 Continue"))
    );
    let body = &reply[start..].split_once("\r\n\r\n").unwrap().1;
    let answer: Value = serde_json::from_str(body).unwrap();
    assert_eq!(answer["choices"], expected["choices"]);
}

#[test]
fn silent_connections_make_room_for_others() {
    let server = Running::start(Options::new().max_connections(8).patience(LONG * 5));
    // each time over a new connection: an idle one makes room, too
    let health = || {
        ureq::get(server.url("/health"))
            .call()
            .expect("it answers")
            .status()
            .as_u16()
    };
    let _silent: Vec<TcpStream> = (0..24).map(|_| send(&server, "GET /hea")).collect();
    assert_eq!(health(), 200);
    let _unfinished: Vec<TcpStream> = (0..24).map(|_| send(&server, &request("{", 100))).collect();
    assert_eq!(health(), 200);
}

#[test]
fn timeout_covers_the_body() {
    let server = Running::start(Options::new().timeout(Duration::from_secs(1)).patience(LONG * 5));
    let mut socket = send(&server, &request("{\"prompt\": ", 100));
    let mut head = [0; 12];
    socket.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 504");
}

/// An answer's cached tokens, for a client with a key.
fn cached(server: &Running, key: &str, body: &Value) -> u64 {
    let request = ureq::post(server.url(TEXT)).header("Authorization", format!("Bearer {key}"));
    let mut response = request.send_json(body).expect("it answers");
    let answer: Value = response.body_mut().read_json().expect("it is JSON");
    let details = &answer["usage"]["prompt_tokens_details"]["cached_tokens"];
    details.as_u64().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn keys_learn_nothing_of_each_others_prompts() {
    let server = Running::start(Options::new().api_key("first").api_key("second"));
    let secret = "the code is 4711 and some more words behind it";
    let asked = |prompt: &str| json!({"prompt": prompt, "max_tokens": 1, "temperature": 0});
    assert_eq!(cached(&server, "first", &asked(secret)), 0);
    assert_eq!(cached(&server, "second", &asked(secret)), 0);
    assert!(cached(&server, "first", &asked(secret)) > 16);
    // nor within a key, if a request asks for that
    let mut private = asked("another secret, which is long enough to be shared");
    private["cache_prompt"] = json!(false);
    assert_eq!(cached(&server, "first", &private), 0);
    private["cache_prompt"] = json!(true);
    assert_eq!(cached(&server, "first", &private), 0);
    private["prompt_cache_key"] = json!("of a user");
    assert_eq!(cached(&server, "first", &private), 0);
    assert!(cached(&server, "first", &private) > 16);
    let wrong = ureq::get(server.url("/v1/models"))
        .header("Authorization", "Bearer third")
        .call();
    assert!(matches!(wrong, Err(ureq::Error::StatusCode(401))), "{wrong:?}");
}
