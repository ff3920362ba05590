//! Sends a server generated schemas and chat templates that grow in depth, width, sharing or repetition, and checks that
//! it answers a plain request beside each of them in time.
//!
//! ```text
//! cargo build --workspace --bins --examples
//! target/debug/examples/hostile [--cases 1000] [--sample 1] [--seed 0] [--seconds 2]
//! ```
//!
//! `--sample 20` runs every twentieth case. The exit code is 1 if a plain request failed or took longer than
//! `--seconds`, or if a hostile one was never answered. The sandbox program has to lie in the folder above.

#![forbid(unsafe_code)]

#[path = "../../tests/server/site.rs"]
#[expect(dead_code, reason = "tests use more of it")]
mod site;

mod schemas;
mod templates;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use polychip_serve::Options;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use site::{Running, model_with};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// Numbers from a seed.
struct Draws(ChaCha8Rng);

impl Draws {
    fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    /// A size up to `most`, small and large ones alike.
    fn size(&mut self, most: usize) -> usize {
        let bits = most.ilog2() as usize + 1;
        let top = 1_usize << self.below(bits);
        (top + self.below(top)).min(most)
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// What is sent beside a plain request.
enum Case {
    Schema(String, Value),
    Template(String, String),
}

fn case(seed: u64) -> Case {
    let mut draws = Draws(ChaCha8Rng::seed_from_u64(seed));
    if seed.is_multiple_of(2) {
        let (name, schema) = schemas::schema(&mut draws);
        Case::Schema(name, schema)
    } else {
        let (name, template) = templates::template(&mut draws);
        Case::Template(name, template)
    }
}

/// How long the plain request took, and what became of both.
struct Judged {
    hostile: Option<u16>,
    plain: Option<u16>,
    took: Duration,
}

/// The status of a response that comes in time.
fn status(url: &str, body: &Value, within: Duration) -> Option<u16> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(within))
        .build()
        .into();
    let response = agent.post(url).send_json(body).ok()?;
    Some(response.status().as_u16())
}

fn judge(server: &Running, hostile: &Value) -> Judged {
    let (chat, text) = (server.url(CHAT), server.url(TEXT));
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| status(&chat, hostile, Duration::from_secs(30)));
        std::thread::sleep(Duration::from_millis(300));
        let started = Instant::now();
        let plain = json!({"prompt": "hello", "max_tokens": 4, "temperature": 0});
        let plain = status(&text, &plain, Duration::from_secs(30));
        let took = started.elapsed();
        Judged {
            hostile: asked.join().ok().flatten(),
            plain,
            took,
        }
    })
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, usual: u64| {
        let at = words.iter().position(|word| word == name);
        let value = at.and_then(|at| words.get(at + 1)?.parse().ok());
        value.unwrap_or(usual)
    };
    let (cases, sample, seed) = (
        number("--cases", 1000),
        number("--sample", 1),
        number("--seed", 0),
    );
    let within = Duration::from_secs(number("--seconds", 2));
    if !polychip_llm::sandbox::is_available() {
        eprintln!("polychip-llm-sandbox is missing: build it first (cargo build --workspace --bins)");
        return ExitCode::from(2);
    }
    // the first request of all starts a sandbox
    let options = || Options::new().timeout(Duration::from_secs(20));
    let plain = Running::start(options());
    let (mut bad, mut run, mut longest) = (0, 0, Duration::ZERO);
    for index in (0..cases).step_by(sample.max(1) as usize) {
        let (name, judged) = match case(seed.wrapping_mul(1_000_003).wrapping_add(index)) {
            Case::Schema(name, schema) => {
                let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
                let messages = json!([{"role": "user", "content": "hi"}]);
                let asked = json!({"messages": messages, "max_tokens": 8, "response_format": format});
                (format!("schema: {name}"), judge(&plain, &asked))
            }
            Case::Template(name, template) => {
                let name = format!("template: {name}");
                match model_with(&template) {
                    // a template that is refused when the model is opened harms nobody
                    Err(error) => {
                        eprintln!("     {name}: refused, {error:.120}");
                        run += 1;
                        continue;
                    }
                    Ok(model) => {
                        let server = Running::start_with(model, options());
                        let messages =
                            json!([{"role": "user", "content": "hi"}, {"role": "user", "content": "ho"}]);
                        let asked = json!({"messages": messages, "max_tokens": 8});
                        (name, judge(&server, &asked))
                    }
                }
            }
        };
        run += 1;
        longest = longest.max(judged.took);
        let is_bad = judged.plain != Some(200) || judged.took > within || judged.hostile.is_none();
        bad += u32::from(is_bad);
        eprintln!(
            "{} {name}: {:?}; beside it {:?} in {:.2} s",
            if is_bad { "BAD " } else { "    " },
            judged.hostile,
            judged.plain,
            judged.took.as_secs_f64()
        );
    }
    eprintln!(
        "{bad} of {run} hostile requests harm a plain one; the slowest plain one took {:.2} s",
        longest.as_secs_f64()
    );
    ExitCode::from(u8::from(bad > 0))
}
