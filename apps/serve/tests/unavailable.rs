//! Requests that the server cannot serve now: each gets status 503 with the reason, and a later one an answer. A test
//! program of its own, because the command of sandboxes holds for the whole process.

#[path = "server/site.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod site;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;

use polychip_llm::sandbox;
use polychip_serve::Options;
use serde_json::{Value, json};

use site::{LONG, Running};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// One test at a time: they share the command of sandboxes.
static ONE: Mutex<()> = Mutex::new(());

#[test]
fn without_a_sandbox_program_constrained_requests_get_503() {
    let _one = ONE.lock().unwrap();
    assert!(
        sandbox::is_available(),
        "polychip-llm-sandbox is missing: cargo build --workspace --bins"
    );
    let own = std::env::current_exe().unwrap();
    let program = own.parent().unwrap().with_file_name("polychip-llm-sandbox");
    let server = Running::start(Options::new());
    let schema = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": 7}}});
    let held = json!({
        "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "response_format": schema,
    });
    sandbox::set_command("/nonexistent/sandbox", []);
    let mut response = server.begin(CHAT, &held);
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "1");
    let body: Value = response.body_mut().read_json().unwrap();
    assert_eq!(body["error"]["code"], "unavailable", "{body}");
    assert_eq!(body["error"]["type"], "server_error", "{body}");
    let words = body["error"]["message"].as_str().unwrap();
    assert!(words.contains("cannot be started"), "{words}");
    // what needs no sandbox is answered beside it
    server.ok(TEXT, &json!({"prompt": "hi", "max_tokens": 2}));
    sandbox::set_command(program, []);
    let answer = server.ok(CHAT, &held);
    assert_eq!(answer["choices"][0]["message"]["content"], "7");
}

#[test]
fn too_many_large_bodies_get_503_until_some_are_gone() {
    let _one = ONE.lock().unwrap();
    let size = 200_000;
    let server = Running::start(Options::new().max_body_bytes(size).patience(LONG));
    let head = |length: usize| {
        format!(
            "POST {TEXT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    // all but the last byte of a body
    let begin = || {
        let mut socket = TcpStream::connect(server.address).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket.write_all(head(size).as_bytes()).unwrap();
        socket.write_all(&vec![b' '; size - 1]).unwrap();
        socket
    };
    let mut unfinished: Vec<TcpStream> = (0..60).map(|_| begin()).collect();
    let mut answered = 0;
    for socket in &mut unfinished {
        // the end of a body shows whether it was taken: blanks are no JSON
        socket.write_all(b" ").unwrap();
        let mut status = [0; 12];
        socket.read_exact(&mut status).unwrap();
        match &status {
            b"HTTP/1.1 503" => answered += 1,
            b"HTTP/1.1 400" => {}
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    assert!((1..60).contains(&answered), "{answered} of 60 were refused");
    drop(unfinished);
    let long = format!(
        "{{\"prompt\": \"hi\", \"max_tokens\": 2{}}}",
        " ".repeat(size - 100)
    );
    let mut socket = TcpStream::connect(server.address).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.write_all(head(long.len()).as_bytes()).unwrap();
    socket.write_all(long.as_bytes()).unwrap();
    let mut status = [0; 12];
    socket.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
}
