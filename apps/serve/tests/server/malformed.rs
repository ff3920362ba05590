//! Malformed requests: each gets the right status, and the server continues.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use polychip_serve::Options;
use serde_json::{Value, json};

use crate::site::{Running, greedy};

/// Sends raw bytes and returns the whole reply; closes the sending side first if `is_cut`.
fn raw(server: &Running, bytes: &[u8], is_cut: bool) -> String {
    let mut socket = TcpStream::connect(server.address).unwrap();
    // it may have been sent away before the end
    let _ = socket.write_all(bytes);
    if is_cut {
        let _ = socket.shutdown(Shutdown::Write);
    }
    let mut text = Vec::new();
    let _ = socket.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n").into_bytes();
    bytes.extend(body);
    bytes
}

fn with_length(kind: &str, body: &[u8]) -> Vec<u8> {
    let headers = format!("Content-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
    post("/v1/chat/completions", &headers, body)
}

#[test]
fn each_error_has_its_own_status() {
    let server = Running::start(
        Options::new()
            .max_body_bytes(10_000)
            .patience(Duration::from_secs(2)),
    );
    let json = "application/json";
    let chat = json!({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}).to_string();
    let chat = chat.as_bytes();
    let deep = [b"{\"messages\":".to_vec(), vec![b'['; 9000]].concat();
    let long = format!("{{\"messages\": \"{}\"}}", "a".repeat(10_000));
    let chunked = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    let many: String = (0..200).map(|index| format!("X-{index}: 1\r\n")).collect();
    let cases: Vec<(&str, Vec<u8>, &[u16])> = vec![
        (
            "right",
            with_length("Application/JSON; charset=utf-8", chat),
            &[200],
        ),
        ("no JSON", with_length(json, b"{\"messages\": ["), &[400]),
        ("nothing", with_length(json, b""), &[400]),
        ("no UTF-8", with_length(json, b"{\"messages\": \"\xff\"}"), &[400]),
        (
            "half a surrogate",
            with_length(json, b"{\"messages\": \"\\ud800\"}"),
            &[400],
        ),
        ("deep", with_length(json, &deep), &[400]),
        ("too long", with_length(json, long.as_bytes()), &[413]),
        ("of another type", with_length("text/plain", chat), &[415]),
        (
            "of no type",
            post("/v1/chat/completions", "Content-Length: 2\r\n", b"{}"),
            &[415],
        ),
        (
            "another path",
            post("/v1/chat", "Content-Length: 0\r\n", b""),
            &[404],
        ),
        (
            "another way",
            b"GET /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec(),
            &[405],
        ),
        (
            "a way that is none",
            b"FROB /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec(),
            &[405],
        ),
        ("no HTTP", b"hello\r\n\r\n".to_vec(), &[400]),
        (
            "TLS",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
            &[400],
        ),
        (
            "another version",
            b"GET /health HTTP/9.1\r\nHost: localhost\r\n\r\n".to_vec(),
            &[400, 505],
        ),
        (
            "a header that is none",
            b"GET /health HTTP/1.1\r\nHost localhost\r\n\r\n".to_vec(),
            &[400],
        ),
        (
            "a line break in a header",
            b"GET /health HTTP/1.1\r\nHost: local\x00host\r\n\r\n".to_vec(),
            &[400],
        ),
        (
            "many headers",
            format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{many}\r\n").into_bytes(),
            &[431],
        ),
        (
            "a long path",
            format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(70_000)).into_bytes(),
            &[414, 431],
        ),
        (
            "a length that is none",
            post("/v1/chat/completions", "Content-Length: -1\r\n", b""),
            &[400],
        ),
        (
            "two lengths",
            post(
                "/v1/chat/completions",
                "Content-Length: 1\r\nContent-Length: 2\r\n",
                b"{}",
            ),
            &[400],
        ),
        (
            "chunks",
            post("/v1/chat/completions", chunked, b"2\r\n{}\r\n0\r\n\r\n"),
            &[400],
        ),
        (
            "a body that is cut",
            post(
                "/v1/completions",
                "Content-Type: application/json\r\nContent-Length: 9\r\n",
                b"{",
            ),
            &[400],
        ),
        (
            "a chunk that is cut",
            post("/v1/chat/completions", chunked, b"9\r\n{"),
            &[400],
        ),
        (
            "a chunk that is none",
            post("/v1/chat/completions", chunked, b"zz\r\n{}\r\n"),
            &[400],
        ),
    ];
    for (name, bytes, statuses) in cases {
        let found = raw(&server, &bytes, name.ends_with("is cut"));
        let status = found.split(' ').nth(1).and_then(|status| status.parse().ok());
        assert!(
            status.is_some_and(|status| statuses.contains(&status)),
            "{name}: {statuses:?} expected, found {found:?}"
        );
        // a reply that has a body must describe the problem
        if let Some((_, body)) = found.split_once("\r\n\r\n").filter(|(_, body)| !body.is_empty())
            && status != Some(200)
        {
            let body: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{name}: {found:?}"));
            assert!(
                body["error"]["message"].is_string() && body["error"]["type"].is_string(),
                "{name}"
            );
        }
    }
    assert_eq!(
        server.ok("/v1/completions", &greedy("hello", 3))["usage"]["completion_tokens"],
        3
    );
}

#[test]
fn slow_senders_are_disconnected() {
    let server = Running::start(Options::new().patience(Duration::from_millis(300)));
    let wait = |begun: &[u8]| {
        let mut socket = TcpStream::connect(server.address).unwrap();
        socket.write_all(begun).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text
    };
    // nothing, half a head, half a body
    assert_eq!(wait(b""), "");
    let head = wait(b"GET /health HTTP/1.1\r\nHost: lo");
    assert!(head.is_empty() || head.starts_with("HTTP/1.1 408"), "{head}");
    let body = wait(&post(
        "/v1/completions",
        "Content-Type: application/json\r\nContent-Length: 100\r\n",
        b"{",
    ));
    assert!(
        body.starts_with("HTTP/1.1 408") && body.contains("body_timeout"),
        "{body}"
    );
    server.wait_for("polychip_connections", 1.0);
}

#[test]
fn oversized_prompts_are_reported() {
    let server = Running::start(Options::new());
    let code = |body: &Value| {
        let (status, error) = server.post("/v1/completions", body);
        (
            status,
            error["error"]["code"].clone(),
            error["error"]["param"].clone(),
        )
    };
    let long: String = "hello1 ".repeat(2000);
    assert_eq!(
        code(&greedy(&long, 5)),
        (400, json!("context_length_exceeded"), json!("prompt"))
    );
    assert_eq!(
        code(&json!({"prompt": vec![1; 513]})).1,
        "context_length_exceeded"
    );
    assert_eq!(
        code(&json!({"prompt": [999_999]})),
        (400, json!("invalid_value"), json!("prompt"))
    );
    assert_eq!(
        code(&json!({"prompt": []})),
        (400, json!("invalid_value"), json!("prompt"))
    );
    assert_eq!(
        code(&json!({"prompt": vec![1; 512]})).1,
        "context_length_exceeded"
    );
    assert_eq!(
        server.ok("/v1/completions", &json!({"prompt": vec![1; 511]}))["usage"]["completion_tokens"],
        1
    );
}
