//! A server by the command line: where it listens, how it ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::language::{tiny, with};
use crate::tool::{Done, alone, polychip};

/// A server that runs, and what it printed.
fn start(model: &str, more: &[&str]) -> (Child, Value) {
    let mut child = Command::new(alone())
        .args(with("serve", model, &[&["--port", "0", "--json"], more].concat()))
        .env("POLYCHIP_CONFIG", "")
        .env_remove("POLYCHIP_PLUGINS")
        .env_remove("POLYCHIP_API_KEY")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let said = Done {
        code: 0,
        stdout: line,
        stderr: String::new(),
    };
    (child, said.json("serve"))
}

fn post(said: &Value, headers: &str, body: &Value) -> TcpStream {
    let mut socket = TcpStream::connect(said["address"].as_str().unwrap()).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all((head + &body).as_bytes()).unwrap();
    socket
}

#[test]
fn server_prints_its_address_and_shuts_down_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let (mut child, said) = start(&model, &["--api-key", "secret"]);
    assert_eq!((&said["model"], &said["context"]), (&json!("tiny"), &json!(64)));
    assert_eq!(
        said["url"],
        format!("http://{}/v1", said["address"].as_str().unwrap())
    );

    let asked = json!({"prompt": "hello", "temperature": 0, "stream": true});
    let mut text = String::new();
    post(&said, "", &asked).read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 401"), "{text}");
    // told to end while it answers, it ends that answer before itself
    let mut open = post(&said, "Authorization: Bearer secret\r\n", &asked);
    let mut first = [0; 16];
    open.read_exact(&mut first).unwrap();
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::TERM).unwrap();
    let mut rest = String::new();
    open.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("data: [DONE]"), "{rest}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn server_answers_to_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let more = [
        "--host",
        "localhost",
        "--alias",
        "gpt-4o-mini",
        "--allow-host",
        "host.docker.internal",
    ];
    let (mut child, said) = start(&model, &more);
    assert!(
        said["address"].as_str().unwrap().starts_with("127.0.0.1:"),
        "{said}"
    );
    let ask = |name: &str| {
        let asked = json!({"prompt": "hello", "model": name, "max_tokens": 1, "store": true});
        let mut text = String::new();
        post(&said, "", &asked).read_to_string(&mut text).unwrap();
        text
    };
    for name in ["tiny", "tiny.gguf", "gpt-4o-mini", "tiny:latest"] {
        assert!(ask(name).starts_with("HTTP/1.1 200"), "{name}");
    }
    let refused = ask("gpt-9");
    assert!(
        refused.starts_with("HTTP/1.1 404") && refused.contains("--any-model"),
        "{refused}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn server_start_failure_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let (mut child, said) = start(&model, &[]);
    let port = said["address"].as_str().unwrap().rsplit_once(':').unwrap().1;
    polychip(&with("serve", &model, &["--port", port])).fails(2, &["listening on 127.0.0.1", port]);
    child.kill().unwrap();
    child.wait().unwrap();
    polychip(&with("serve", &model, &["--port", "0", "--api-key", ""])).fails(2, &["key"]);
    polychip(&with("serve", &model, &["--port", "0", "--cors", "app.example"]))
        .fails(2, &["app.example", "https://"]);
    polychip(&with("serve", &model, &["--port", "0", "--host", "no such host"])).fails(2, &["no such host"]);
    polychip(&["serve", "nowhere.gguf"]).fails(3, &["nowhere.gguf"]);
}
