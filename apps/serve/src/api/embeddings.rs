//! OpenAI's embeddings: `POST /v1/embeddings`.

use serde_json::{Value, json};

use super::completions::read_prompts;
use super::{Frame, Reply, total};
use crate::answer::{Part, Whole};
use crate::fields::{Fields, Notes};
use crate::problem::Problem;
use crate::request::Asked;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Reads a request for embeddings of texts.
pub(crate) fn read(body: &[u8], model: &str, notes: &mut Notes) -> Result<(Asked, Box<dyn Reply>), Problem> {
    let mut fields = Fields::of_body(body)?;
    let input = fields.take("input").ok_or_else(|| Problem::missing("input"))?;
    let mut inputs = read_prompts(input, "input")?;
    let first = inputs.remove(0);
    let mut asked = Asked::new(first, "input");
    asked.inputs.extend(inputs);
    asked.pools = true;
    asked.model = fields.text("model")?;
    let is_base64 = match fields.text("encoding_format")?.as_deref() {
        Some("base64") => true,
        Some("float") | None => false,
        Some(other) => {
            let words = format!("`encoding_format` is {other:?}; it must be float or base64");
            return Err(Problem::value("encoding_format", words));
        }
    };
    // shorter ones are of models that were trained for that
    fields.only("dimensions", &[])?;
    fields.take("user");
    fields.finish(notes)?;
    let reply = EmbeddingReply {
        model: model.to_owned(),
        is_base64,
    };
    Ok((asked, Box::new(reply)))
}

/// Writes embeddings.
struct EmbeddingReply {
    model: String,
    is_base64: bool,
}

impl Reply for EmbeddingReply {
    fn whole(&mut self, answers: &[&Whole]) -> Value {
        let data = answers.iter().enumerate().map(|(index, answer)| {
            let embedding = if self.is_base64 {
                json!(base64(&answer.embedding))
            } else {
                json!(answer.embedding)
            };
            json!({"object": "embedding", "index": index, "embedding": embedding})
        });
        let data: Vec<Value> = data.collect();
        let prompt = total(answers).prompt;
        json!({
            "object": "list",
            "data": data,
            "model": self.model,
            "usage": {"prompt_tokens": prompt, "total_tokens": prompt},
        })
    }

    // there are no streams
    fn open(&mut self, _prompts: &[usize], _out: &mut Vec<Frame>) {}
    fn part(&mut self, _choice: usize, _part: &Part, _out: &mut Vec<Frame>) {}
    fn end(&mut self, _choice: usize, _whole: &Whole, _out: &mut Vec<Frame>) {}
    fn close(&mut self, _answers: &[&Whole], _out: &mut Vec<Frame>) {}
}

/// The numbers' little-endian bytes in base64 (RFC 4648).
fn base64(numbers: &[f32]) -> String {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let all = chunk.iter().fold(0u32, |all, byte| all << 8 | u32::from(*byte));
        let all = all << (8 * (3 - chunk.len()));
        for place in 0..4 {
            text.push(if place <= chunk.len() {
                char::from(BASE64[(all >> (18 - 6 * place)) as usize & 63])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_encoded() {
        // python: base64.b64encode(struct.pack("<2f", 1.0, -2.5))
        assert_eq!(base64(&[1.0, -2.5]), "AACAPwAAIMA=");
        assert_eq!(base64(&[0.0, 0.0, 0.0]), "AAAAAAAAAAAAAAAA");
        assert_eq!(base64(&[1.0]), "AACAPw==");
        assert_eq!(base64(&[]), "");
    }

    #[test]
    fn requests_are_read() {
        let read = |body: Value| {
            let read = read(body.to_string().as_bytes(), "m", &mut Notes::default());
            read.map(|(asked, _)| asked.inputs.len())
                .map_err(|problem| problem.json()["error"]["param"].clone())
        };
        assert_eq!(
            read(json!({"input": ["a", "b"], "encoding_format": "base64"})),
            Ok(2)
        );
        assert_eq!(read(json!({"input": [1, 2]})), Ok(1));
        assert_eq!(read(json!({"input": 1})), Err(json!("input")));
        assert_eq!(
            read(json!({"input": "a", "dimensions": 8})),
            Err(json!("dimensions"))
        );
        assert_eq!(
            read(json!({"input": "a", "encoding_format": "x"})),
            Err(json!("encoding_format"))
        );
    }
}
