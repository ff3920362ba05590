//! Language models by the command line: answers, conversations, logits, speeds, on a tiny model with random weights.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use polychip_llm::Architecture;
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;

use crate::model::{npy, read_npy};
use crate::tool::{alone, polychip};

pub(crate) fn tiny(folder: &Path) -> String {
    let model = TinyModel {
        architecture: Architecture::Llama,
        kind: TensorType::Q4_0,
        layers: 1,
        tied: true,
        seed: 3,
    };
    let path = folder.join("tiny.gguf");
    std::fs::write(&path, model.writer().finish()).unwrap();
    path.to_str().unwrap().to_owned()
}

pub(crate) fn with<'a>(command: &'a str, model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let all = [
        command,
        model,
        "--devices",
        "cpu",
        "--threads",
        "1",
        "--context",
        "64",
    ];
    [&all, more].concat()
}

#[test]
fn text_and_json_answers_match() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let asked = ["--prompt", "hello", "--raw", "--max-tokens", "5", "--greedy"];
    let text = polychip(&with("generate", &model, &asked)).ok();
    let json = polychip(&with("generate", &model, &[&asked[..], &["--json"]].concat())).json("generate");
    assert_eq!(json["text"], text.trim_end_matches('\n'));
    assert_eq!(json["tokens"].as_array().unwrap().len(), 5);
    assert_eq!(json["finish"], "length");
    assert!(json["decode_tokens_per_s"].as_f64().unwrap() > 0.0);
    // a layer's KV cache of 2 heads of 64 in 2 bytes each, for the prompt and all tokens but the
    // last
    let positions = json["prompt_tokens"].as_u64().unwrap() + 4;
    assert_eq!(json["kv_bytes"], positions * 2 * 2 * 64 * 2);

    // where the room ends, and by the template
    let long = ["--prompt", "hello", "--max-tokens", "500", "--greedy", "--json"];
    let json = polychip(&with("generate", &model, &long)).json("generate");
    assert!(
        ["room", "end"].contains(&json["finish"].as_str().unwrap()),
        "{json}"
    );
}

#[test]
fn sampling_is_repeatable_by_seed() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let draw = |seed: &str| {
        let asked = [
            "--prompt",
            "x",
            "--raw",
            "--max-tokens",
            "12",
            "--temperature",
            "2",
            "--top-k",
            "0",
            "--seed",
            seed,
            "--json",
        ];
        polychip(&with("generate", &model, &asked)).json("generate")["tokens"].to_string()
    };
    assert_eq!(draw("1"), draw("1"));
    assert_ne!(draw("1"), draw("2"));
}

#[test]
fn answer_follows_schema_or_grammar() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let asked = [
        "--prompt",
        "x",
        "--raw",
        "--temperature",
        "2",
        "--top-k",
        "0",
        "--seed",
        "5",
        "--max-tokens",
        "60",
    ];
    let ask = |more: &[&str]| polychip(&with("generate", &model, &[&asked[..], more].concat()));
    let schema = file(
        "schema.json",
        r#"{"type": "array", "items": {"enum": ["a", 1]}, "minItems": 3, "maxItems": 3}"#,
    );
    let text = ask(&["--json-schema", &schema]).ok();
    let items: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert!(
        items.len() == 3 && items.iter().all(|item| item == "a" || item == 1),
        "{text}"
    );
    let grammar = file("grammar.lark", "start: (\"yes\" | \"no\") \"!\"~2\n");
    let text = ask(&["--grammar", &grammar]).ok();
    assert!(["yes!!\n", "no!!\n"].contains(&&*text), "{text}");
    // an unsupported schema, a file that is not JSON, both options together
    let wrong = file("wrong.json", r#"{"type": "array", "uniqueItems": true}"#);
    ask(&["--json-schema", &wrong]).fails(3, &["wrong.json", "uniqueItems"]);
    ask(&["--json-schema", &grammar]).fails(3, &["grammar.lark: no JSON"]);
    ask(&["--json-schema", &schema, "--grammar", &grammar]).fails(2, &["--grammar"]);
}

#[test]
fn speculative_decoding_keeps_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let asked = [
        "--prompt",
        "hello hello hello hello",
        "--raw",
        "--max-tokens",
        "30",
        "--greedy",
        "--json",
    ];
    let plain = polychip(&with("generate", &model, &asked)).json("generate");
    let more = [&asked[..], &["--speculate", "prompt-lookup"]].concat();
    let guessed = polychip(&with("generate", &model, &more)).json("generate");
    assert_eq!(
        (&guessed["tokens"], &guessed["text"]),
        (&plain["tokens"], &plain["text"])
    );
    assert!(plain["speculated"].is_null());
    let found = &guessed["speculated"];
    assert!(
        found["accepted"].as_u64() <= found["proposed"].as_u64(),
        "{found}"
    );
}

#[test]
fn draft_model_keeps_the_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let asked = [
        "--prompt",
        "a",
        "--raw",
        "--max-tokens",
        "24",
        "--seed",
        "5",
        "--json",
    ];
    let plain = polychip(&with("generate", &model, &asked)).json("generate");
    let more = [&asked[..], &["--draft", &model]].concat();
    let guessed = polychip(&with("generate", &model, &more)).json("generate");
    assert_eq!(guessed["tokens"], plain["tokens"]);
    assert!(guessed["speculated"].is_object());
    // a file that is none
    let none = folder.path().join("none.gguf").display().to_string();
    let more = [&asked[..], &["--draft", &none]].concat();
    polychip(&with("generate", &model, &more)).fails(3, &["none.gguf"]);
}

#[test]
fn prompt_cache_is_reused_by_the_second_call() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let file = folder.path().join("prompt.kv").display().to_string();
    let ask = |more: &[&str]| {
        let prompt = "one two three four five six seven";
        let asked = [
            "--prompt",
            prompt,
            "--raw",
            "--max-tokens",
            "9",
            "--greedy",
            "--json",
        ];
        polychip(&with("generate", &model, &[&asked[..], more].concat()))
    };
    let plain = ask(&[]).json("generate");
    let first = ask(&["--prompt-cache", &file]).json("generate");
    let second = ask(&["--prompt-cache", &file]).json("generate");
    assert_eq!(
        (&first["tokens"], &second["tokens"]),
        (&plain["tokens"], &plain["tokens"])
    );
    let read = plain["prompt_tokens"].as_u64().unwrap();
    assert_eq!(
        (&first["reused_tokens"], second["reused_tokens"].as_u64()),
        (&0.into(), Some(read - 1))
    );
    // those of another precision are others
    let chosen = &first["precision"];
    assert!(chosen["divergence"].as_f64().unwrap() <= 0.005, "{chosen}");
    assert_eq!(chosen["chosen"], "reduced");
    ask(&["--prompt-cache", &file, "--precision", "exact"]).fails(3, &["prompt.kv", "precision"]);
    std::fs::write(&file, "no sequence").unwrap();
    ask(&["--prompt-cache", &file]).fails(3, &["prompt.kv", "not a sequence file"]);
}

#[test]
fn chat_reads_one_turn_per_line() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let mut child = Command::new(alone())
        .args(with("chat", &model, &["--max-tokens", "3", "--greedy"]))
        .env("POLYCHIP_CONFIG", "")
        .env_remove("POLYCHIP_PLUGINS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"a\n\n/clear\na\n/bye\nnever said\n")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    // an answer may have lines of its own; begun anew, the same question has the same one
    let said = String::from_utf8(output.stdout).unwrap();
    let (first, second) = said.split_at(said.len() / 2);
    assert_eq!(first, second, "{said:?}");
}

#[test]
fn prompt_comes_from_standard_input_or_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let asked = ["--raw", "--max-tokens", "5", "--greedy"];
    let expected = polychip(&with(
        "generate",
        &model,
        &[&asked[..], &["--prompt", "hello"]].concat(),
    ))
    .ok();
    let file = folder.path().join("prompt.txt");
    std::fs::write(&file, "hello\r\n").unwrap();
    let file = file.to_str().unwrap();
    let read = [&asked[..], &["--prompt-file", file]].concat();
    assert_eq!(polychip(&with("generate", &model, &read)).ok(), expected);
    let mut child = Command::new(alone())
        .args(with(
            "generate",
            &model,
            &[&asked[..], &["--prompt", "-"]].concat(),
        ))
        .env("POLYCHIP_CONFIG", "")
        .env_remove("POLYCHIP_PLUGINS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);

    polychip(&with("generate", &model, &asked)).fails(2, &["--prompt"]);
    polychip(&with(
        "generate",
        &model,
        &[&read[..], &["--prompt", "x"]].concat(),
    ))
    .fails(2, &["--prompt-file"]);
    std::fs::write(file, b"\xff").unwrap();
    polychip(&with("generate", &model, &read)).fails(3, &["prompt.txt", "UTF-8"]);
}

#[cfg(unix)]
#[test]
fn interrupt_ends_the_answer_and_a_second_one_the_program() {
    use std::io::Read as _;

    use rustix::process::{Pid, Signal, kill_process};

    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let chat = || {
        let asked = [
            "--devices",
            "cpu",
            "--threads",
            "1",
            "--context",
            "512",
            "--max-tokens",
            "480",
            "--temperature",
            "3",
        ];
        let mut child = Command::new(alone())
            .args([&["chat", &*model], &asked[..]].concat())
            .env("POLYCHIP_CONFIG", "")
            .env_remove("POLYCHIP_PLUGINS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = child.stdout.take().unwrap();
        input.write_all(b"hello\n").unwrap();
        // it answers
        output.read_exact(&mut [0]).unwrap();
        (child, input, output)
    };
    let (mut child, mut input, mut output) = chat();
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    input.write_all(b"and then?\n/bye\n").unwrap();
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let (mut child, _input, _output) = chat();
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    // signals that come together are one
    std::thread::sleep(std::time::Duration::from_millis(200));
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn logits_are_a_row_for_each_token() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let ids: Vec<u8> = [5i64, 250, 7].iter().flat_map(|id| id.to_le_bytes()).collect();
    std::fs::write(path("ids.npy"), npy("<i8", "(3,)", &ids)).unwrap();
    let (tokens, save) = (path("ids.npy"), path("out.npy"));
    polychip(&with("logits", &model, &["--tokens", &tokens, "--save", &save])).ok();
    let (dtype, shape, bytes) = read_npy(Path::new(&save));
    assert_eq!((&*dtype, &*shape), ("<f4", "3,266"));
    assert!(
        bytes
            .as_chunks::<4>()
            .0
            .iter()
            .all(|bytes| f32::from_le_bytes(*bytes).is_finite())
    );

    std::fs::write(path("text"), "hello hello").unwrap();
    let (text, kept) = (path("text"), path("kept.npy"));
    let asked = [
        "--text",
        &*text,
        "--first",
        "2",
        "--save-tokens",
        &*kept,
        "--save",
        &*save,
    ];
    polychip(&with("logits", &model, &asked)).ok();
    assert_eq!(read_npy(Path::new(&kept)).1, "2");

    // invalid tokens, and too many tokens
    std::fs::write(path("bad.npy"), npy("<i8", "(1,)", &(-1i64).to_le_bytes())).unwrap();
    let bad = path("bad.npy");
    polychip(&with("logits", &model, &["--tokens", &bad, "--save", &save]))
        .fails(3, &["non-negative integers"]);
    std::fs::write(path("many.npy"), npy("<i8", "(65,)", &[0; 8 * 65])).unwrap();
    let many = path("many.npy");
    polychip(&with("logits", &model, &["--tokens", &many, "--save", &save]))
        .fails(3, &["context length of 64"]);
}

#[test]
fn bench_reports_the_requested_tests() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let asked = ["-p", "8,16", "-n", "4", "-d", "10", "--rounds", "2"];
    let json = polychip(&with("bench-llm", &model, &[&asked[..], &["--json"]].concat())).json("bench-llm");
    let names: Vec<&str> = json["tests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|test| test["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["pp8", "pp16", "tg4 @ d10"]);
    assert_eq!(json["tests"][0]["rounds"].as_array().unwrap().len(), 2);
    let text = polychip(&with("bench-llm", &model, &asked)).ok();
    assert!(
        text.contains("pp16") && text.contains("peak process memory"),
        "{text}"
    );
}

#[test]
fn non_language_model_is_refused() {
    let shapes = crate::tool::shapes();
    let asked = ["--prompt", "x", "--raw", "--greedy"];
    polychip(&[&["generate", &*shapes], &asked[..]].concat()).fails(3, &["shapes.onnx", "GGUF"]);
    polychip(&[&["generate", "nowhere.gguf"], &asked[..]].concat()).fails(3, &["nowhere.gguf"]);
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(folder.path());
    let too_long = [
        "generate",
        &*model,
        "--context",
        "9999",
        "--prompt",
        "x",
        "--raw",
        "--greedy",
    ];
    polychip(&too_long).fails(3, &["9999", "1 to 512"]);
    polychip(&[&["generate", &*model, "--top-p", "0"], &asked[..3]].concat()).fails(3, &["top-p"]);
}
