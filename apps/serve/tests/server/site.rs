//! A server of a tiny model with random weights, and a client of it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;
use polychip_llm::{Architecture, Gguf, LanguageModel};
use polychip_serve::{Error, Handle, Options, Server};
use serde_json::{Value, json};

/// The longest that anything takes here on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Writes the contents of messages one after another, so that a chat and a text can be the same prompt.
pub(crate) const TEMPLATE: &str =
    "{% for message in messages %}{{ message['role'][0] + message['content'] }}{% endfor %}";

/// The model. With greedy decoding it continues for hundreds of tokens.
pub(crate) fn model() -> LanguageModel {
    model_with(TEMPLATE).expect("it is supported")
}

/// The model with another chat template.
pub(crate) fn model_with(template: &str) -> Result<LanguageModel, polychip_llm::Error> {
    model_of(template, 512, 5)
}

/// The model with room for descriptions of tools, of which it takes a token for each byte.
pub(crate) fn roomy(template: &str) -> LanguageModel {
    // of other seeds, some answers are numbers without an end
    model_of(template, 2048, 7).expect("it is supported")
}

fn model_of(template: &str, context: u32, seed: u64) -> Result<LanguageModel, polychip_llm::Error> {
    let tiny = TinyModel {
        architecture: Architecture::Llama,
        kind: TensorType::Q8_0,
        layers: 2,
        tied: true,
        seed,
    };
    let mut writer = tiny.writer();
    writer.remove_key("tokenizer.chat_template");
    writer.remove_key("llama.context_length");
    writer.u32("llama.context_length", context);
    writer.text("tokenizer.chat_template", template);
    let file = Gguf::read(writer.finish().into()).expect("it was written right");
    // the CPU alone: plugins that lie beside the test program may offer devices that compute in another order
    let cpu = polychip::Runtime::builder().only_given_folders();
    let cpu = cpu.build().expect("the CPU needs no library");
    let options = polychip_llm::Options::new()
        .runtime(&cpu)
        .policy(polychip::Policy::latency().threads(1));
    LanguageModel::of("tiny.gguf", file, options)
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) handle: Handle,
    agent: ureq::Agent,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Running {
    pub(crate) fn start(options: Options) -> Running {
        Running::start_with(model(), options)
    }

    pub(crate) fn start_with(model: LanguageModel, options: Options) -> Running {
        let server = Server::new(model, options.port(0)).expect("it listens");
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(LONG))
            .build();
        Running {
            address: server.address(),
            handle: server.handle(),
            agent: agent.into(),
            thread: Some(std::thread::spawn(move || server.run())),
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut response = self.agent.get(self.url(path)).call().expect("it answers");
        let text = response.body_mut().read_to_string().expect("it is text");
        (response.status().as_u16(), text)
    }

    /// A response whose body is still to come.
    pub(crate) fn begin(&self, path: &str, body: &Value) -> ureq::http::Response<ureq::Body> {
        let request = self.agent.post(self.url(path));
        request.send_json(body).expect("it answers")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let mut response = self.begin(path, body);
        let value = response.body_mut().read_json().expect("it is JSON");
        (response.status().as_u16(), value)
    }

    /// An answer that went well.
    #[track_caller]
    pub(crate) fn ok(&self, path: &str, body: &Value) -> Value {
        let (status, value) = self.post(path, body);
        assert_eq!(status, 200, "{value}");
        value
    }

    pub(crate) fn stream(&self, path: &str, body: &Value) -> Stream {
        let response = self.begin(path, body);
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Stream(BufReader::new(Box::new(response.into_body().into_reader())))
    }

    /// A figure of the metrics, by its line's beginning.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let (status, text) = self.get("/metrics");
        assert_eq!(status, 200);
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0.0, |value| value.trim().parse().expect("it is a number"))
    }

    /// Waits until a figure has a value.
    #[track_caller]
    pub(crate) fn wait_for(&self, name: &str, value: f64) {
        let started = Instant::now();
        while self.metric(name) != value {
            assert!(started.elapsed() < LONG, "{name} is {}", self.metric(name));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the server has ended.
    pub(crate) fn ended(mut self) -> Result<(), Error> {
        let thread = self.thread.take().expect("it was started");
        thread.join().expect("it does not panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.give_up();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("it does not panic").expect("it was shut down");
            }
        }
    }
}

/// The events of an answer.
pub(crate) struct Stream(BufReader<Box<dyn std::io::Read>>);

impl Stream {
    /// The next event; nothing behind `[DONE]`.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(
                self.0.read_line(&mut line).expect("it is sent") > 0,
                "it broke off"
            );
            match line.trim_end().strip_prefix("data: ") {
                Some("[DONE]") => return None,
                Some(event) => return Some(serde_json::from_str(event).expect("it is JSON")),
                None => {}
            }
        }
    }

    /// What is left, as it is sent.
    pub(crate) fn into_inner(self) -> impl std::io::Read {
        self.0
    }

    pub(crate) fn rest(mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// The text of a stream's events.
pub(crate) fn text(events: &[Value]) -> String {
    let piece = |event: &Value| {
        let choice = &event["choices"][0];
        let piece = choice["delta"]["content"].as_str().or(choice["text"].as_str());
        piece.unwrap_or_default().to_owned()
    };
    events.iter().map(piece).collect()
}

/// A text to be gone on with, by the most likely tokens, and read anew: to the bit the same each time.
pub(crate) fn greedy(prompt: &str, max_tokens: u32) -> Value {
    json!({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "cache_prompt": false})
}

/// A body with another field.
pub(crate) fn with(body: &Value, field: &str, value: Value) -> Value {
    let mut body = body.clone();
    body[field] = value;
    body
}
