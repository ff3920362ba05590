//! OpenAI's continuations of texts: `POST /v1/completions`.

use polychip_llm::TokenId;
use serde_json::{Map, Value, json};

use super::{Frame, Reply, finish_reason, id, seconds, total, usage};
use crate::answer::{Part, Scored, Whole};
use crate::fields::{Fields, Notes, wrong};
use crate::problem::Problem;
use crate::request::{Asked, Input, MaxTokens, read_common, read_scores};

/// The interface's default of the longest answer.
const MAX_TOKENS: usize = 16;

/// Reads a request for the continuation of texts.
pub(crate) fn read(body: &[u8], model: &str, notes: &mut Notes) -> Result<(Asked, Box<dyn Reply>), Problem> {
    let mut fields = Fields::of_body(body)?;
    let prompt = fields.take("prompt").ok_or_else(|| Problem::missing("prompt"))?;
    let mut inputs = read_prompts(prompt, "prompt")?;
    let first = inputs.remove(0);
    let mut asked = Asked::new(first, "prompt");
    asked.inputs.extend(inputs);
    asked.is_echoed = fields.flag("echo")?.unwrap_or(false);
    // a prompt may be scored without an answer
    let least = u64::from(!asked.is_echoed);
    asked.max_tokens = fields.count("max_tokens", least)?.map(|tokens| MaxTokens {
        tokens,
        param: "max_tokens",
    });
    asked.default_tokens = Some(MAX_TOKENS);
    if let Some(scores) = fields.count("logprobs", 0)? {
        asked.scores = Some(read_scores(scores, "logprobs")?);
    }
    fields.only("suffix", &[json!("")])?;
    let best_of = fields.count("best_of", 1)?;
    read_common(&mut fields, &mut asked, notes)?;
    if best_of.is_some_and(|best| best != asked.count) {
        let words = "`best_of` is not supported, unless it equals `n`";
        return Err(Problem::unsupported("best_of", words));
    }
    fields.finish(notes)?;
    let reply = TextReply {
        id: id("cmpl-")?,
        created: seconds(),
        model: model.to_owned(),
        wants_usage: asked.wants_usage,
        has_scores: asked.scores.is_some(),
        offsets: Vec::new(),
    };
    Ok((asked, Box::new(reply)))
}

/// Reads a text or tokens, or an array of these.
pub(super) fn read_prompts(prompt: Value, param: &str) -> Result<Vec<Input>, Problem> {
    match prompt {
        Value::String(text) => Ok(vec![Input::Text(text)]),
        Value::Array(list) => match list.first() {
            Some(Value::String(_)) => {
                let text = |value| match value {
                    Value::String(text) => Ok(Input::Text(text)),
                    other => Err(wrong(param, "an array of texts", &other)),
                };
                list.into_iter().map(text).collect()
            }
            Some(Value::Array(_)) => {
                let tokens = |value| match value {
                    Value::Array(tokens) => read_tokens(&tokens, param),
                    other => Err(wrong(param, "an array of arrays of tokens", &other)),
                };
                list.into_iter().map(tokens).collect()
            }
            _ => Ok(vec![read_tokens(&list, param)?]),
        },
        other => Err(wrong(
            param,
            "a text, an array of tokens, or an array of these",
            &other,
        )),
    }
}

fn read_tokens(list: &[Value], param: &str) -> Result<Input, Problem> {
    let token = |value: &Value| value.as_u64().and_then(|id| TokenId::try_from(id).ok());
    let tokens: Option<Vec<TokenId>> = list.iter().map(token).collect();
    let words = format!("an array in `{param}` must hold tokens: non-negative integers");
    tokens
        .map(Input::Tokens)
        .ok_or_else(|| Problem::value(param, words))
}

/// Writes continuations of texts.
struct TextReply {
    id: String,
    created: u64,
    model: String,
    /// Whether each event of a stream has a field for what the answer took.
    wants_usage: bool,
    has_scores: bool,
    /// Where the next token's text begins, for each answer.
    offsets: Vec<usize>,
}

impl TextReply {
    fn object(&self, choices: Value) -> Value {
        json!({
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }

    fn event(&self, choices: Value) -> Value {
        let mut event = self.object(choices);
        if self.wants_usage {
            event["usage"] = Value::Null;
        }
        event
    }
}

impl Reply for TextReply {
    fn whole(&mut self, answers: &[&Whole]) -> Value {
        let choices = answers.iter().enumerate().map(|(index, answer)| {
            let logprobs = answer.scores.as_deref().map(|scores| logprobs(scores, &mut 0));
            choice(index, &answer.text, logprobs, Some(finish_reason(answer.finish)))
        });
        let mut whole = self.object(choices.collect());
        whole["usage"] = usage(total(answers));
        whole
    }

    fn open(&mut self, _prompts: &[usize], _out: &mut Vec<Frame>) {}

    fn part(&mut self, index: usize, part: &Part, out: &mut Vec<Frame>) {
        // texts have no tools
        let Part::Text { text, scores } = part else {
            return;
        };
        if self.offsets.len() <= index {
            self.offsets.resize(index + 1, 0);
        }
        let logprobs = self
            .has_scores
            .then(|| logprobs(scores, &mut self.offsets[index]));
        let event = self.event(json!([choice(index, text, logprobs, None)]));
        out.push(Frame::new(&event));
    }

    fn end(&mut self, index: usize, whole: &Whole, out: &mut Vec<Frame>) {
        let event = self.event(json!([choice(
            index,
            "",
            None,
            Some(finish_reason(whole.finish))
        )]));
        out.push(Frame::new(&event));
    }

    fn close(&mut self, answers: &[&Whole], out: &mut Vec<Frame>) {
        if self.wants_usage {
            let mut last = self.event(json!([]));
            last["usage"] = usage(total(answers));
            out.push(Frame::new(&last));
        }
        out.push(Frame::done());
    }
}

fn choice(index: usize, text: &str, logprobs: Option<Value>, finish: Option<&str>) -> Value {
    json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish})
}

/// Tokens, their log-probabilities, the likeliest tokens, and where each begins in the text, in characters.
fn logprobs(scores: &[Scored], offset: &mut usize) -> Value {
    let (mut tokens, mut chosen, mut top, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for scored in scores {
        tokens.push(json!(scored.token.text));
        chosen.push(json!(scored.logprob));
        let likeliest: Map<String, Value> = scored
            .top
            .iter()
            .map(|(token, logprob)| (token.text.clone(), json!(logprob)))
            .collect();
        top.push(match scored.logprob {
            Some(_) => Value::Object(likeliest),
            None => Value::Null,
        });
        offsets.push(json!(*offset));
        *offset += scored.token.text.chars().count();
    }
    json!({"tokens": tokens, "token_logprobs": chosen, "top_logprobs": top, "text_offset": offsets})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(prompt: Value) -> Result<Vec<Input>, Problem> {
        let body = json!({"prompt": prompt}).to_string();
        read(body.as_bytes(), "m", &mut Notes::default()).map(|(asked, _)| asked.inputs)
    }

    #[test]
    fn prompts_may_be_texts_or_tokens() {
        let text = |text: &str| Input::Text(text.to_owned());
        assert_eq!(inputs(json!("a")), Ok(vec![text("a")]));
        assert_eq!(inputs(json!(["a", "b"])), Ok(vec![text("a"), text("b")]));
        assert_eq!(inputs(json!([1, 2])), Ok(vec![Input::Tokens(vec![1, 2])]));
        assert_eq!(
            inputs(json!([[1, 2], [3]])),
            Ok(vec![Input::Tokens(vec![1, 2]), Input::Tokens(vec![3])])
        );
        assert_eq!(inputs(json!([])), Ok(vec![Input::Tokens(vec![])]));
        for wrong in [
            json!(["a", 1]),
            json!([[1], "a"]),
            json!([[-1]]),
            json!([-1]),
            json!(1),
            json!({}),
        ] {
            assert!(inputs(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_answer_has_sixteen_tokens_by_default() {
        let tokens = |body: Value| {
            let read = read(body.to_string().as_bytes(), "m", &mut Notes::default());
            read.map(|(asked, _)| asked.max_tokens.map(|most| most.tokens).or(asked.default_tokens))
                .map_err(|problem| problem.json()["error"]["param"].clone())
        };
        assert_eq!(tokens(json!({"prompt": "a"})), Ok(Some(16)));
        assert_eq!(
            tokens(json!({"prompt": "a", "max_tokens": 0})),
            Err(json!("max_tokens"))
        );
        assert_eq!(
            tokens(json!({"prompt": "a", "max_tokens": 0, "echo": true})),
            Ok(Some(0))
        );
        assert_eq!(
            tokens(json!({"prompt": "a", "best_of": 2})),
            Err(json!("best_of"))
        );
        assert_eq!(tokens(json!({"prompt": "a", "best_of": 2, "n": 2})), Ok(Some(16)));
        assert_eq!(
            tokens(json!({"prompt": "a", "suffix": "b"})),
            Err(json!("suffix"))
        );
        assert_eq!(
            tokens(json!({"prompt": "a", "logprobs": 21})),
            Err(json!("logprobs"))
        );
    }
}
