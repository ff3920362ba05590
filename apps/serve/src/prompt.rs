//! Converts a client's request to a model task.

use polychip_llm::{Error, ErrorKind, Generate, Grammar, LanguageModel, Specials, TokenId};
use serde_json::json;

use crate::job::{Owner, Task};
use crate::problem::Problem;
use crate::request::{Asked, Format, Input};

/// Writes a request as tokens; `most` is the longest answer that the server makes, `longest` bytes beyond which no text fits.
///
/// # Errors
/// The model has no chat template or its template refuses the messages, the prompt is empty or too long, a longer answer is
/// asked for than the server makes, or `go_on` returned false because the client has gone.
pub(crate) fn task(
    asked: Asked,
    owner: Owner,
    model: &LanguageModel,
    most: Option<usize>,
    longest: usize,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Task, Problem> {
    let param = asked.input.param();
    let prompt = tokens(asked.input, model, longest, go_on)?;
    let capacity = model.capacity();
    if prompt.is_empty() {
        return Err(Problem::value(param, format!("`{param}` is empty")));
    }
    if prompt.len() > capacity {
        return Err(Problem::context_length(param, prompt.len(), capacity));
    }
    if let (Some(asked), Some(most)) = (asked.max_tokens, most)
        && asked.tokens > most
    {
        let words = format!(
            "`{}` is {}; this server's maximum is {most} tokens (--max-tokens)",
            asked.param, asked.tokens
        );
        return Err(Problem::value(asked.param, words));
    }
    let seed = match asked.seed {
        Some(seed) => seed,
        None => getrandom::u64().map_err(|error| Problem::internal(format!("no random seed: {error}")))?,
    };
    let mut sampling = asked.sampling;
    sampling.seed = seed;
    // one more than is left: the last token is never read
    let room = capacity - prompt.len() + 1;
    let wanted = asked.max_tokens.map(|asked| asked.tokens).or(most);
    Ok(Task {
        prompt,
        may_reuse: asked.may_reuse,
        owner,
        holds: None,
        wanted: Generate {
            max_tokens: wanted.unwrap_or(room).min(room),
            sampling,
            stop: asked.stop,
            ignore_end: false,
            grammar: None,
            speculation: None,
        },
    })
}

/// What the answer is held to.
///
/// # Errors
/// The answer cannot be held to it, or `go_on` returned false because the client has gone.
pub(crate) fn grammar(
    format: &Format,
    model: &LanguageModel,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Grammar, Problem> {
    let object;
    let (schema, param) = match format {
        Format::JsonSchema(schema) => (schema, "response_format.json_schema.schema"),
        Format::Text | Format::JsonObject => {
            object = json!({"type": "object"});
            (&object, "response_format")
        }
    };
    Grammar::json_schema_while(model, schema, go_on).map_err(|error| refused(param, &error))
}

/// The answer for text that was not read: the fault is the client's, or the server's.
fn refused(param: &'static str, error: &Error) -> Problem {
    match error.kind() {
        ErrorKind::Run => Problem::unavailable(error.to_string()),
        _ => Problem::value(param, error.to_string()),
    }
}

fn tokens(
    input: Input,
    model: &LanguageModel,
    longest: usize,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Vec<TokenId>, Problem> {
    let param = input.param();
    let tokenizer = model.tokenizer();
    let (text, specials) = match input {
        Input::Tokens(tokens) => {
            let vocabulary = model.sizes().vocabulary;
            if let Some(token) = tokens.iter().find(|token| **token >= vocabulary) {
                let words = format!("token {token} exceeds the vocabulary of {vocabulary} tokens");
                return Err(Problem::value("prompt", words));
            }
            return Ok(tokens);
        }
        Input::Text(text) => (text, Specials::AsText),
        Input::Chat(messages) => {
            let template = model.template().ok_or_else(|| {
                Problem::unsupported(
                    "messages",
                    "the model has no chat template; use /v1/completions to continue a text",
                )
            })?;
            let text = template.render_while(&messages, true, go_on);
            let text = text.map_err(|error| refused("messages", &error))?;
            (text, Specials::Parse)
        }
    };
    // cutting it into tokens takes seconds where it is a megabyte of them
    if text.len() > longest {
        return Err(Problem::text_length(param, text.len(), model.capacity()));
    }
    let tokens = tokenizer.encode_prompt(&text, specials);
    tokens.map_err(|error| Problem::bad(error.to_string()))
}
