//! What clients ask of the server and the model: endpoints, properties, tokens.

use polychip_llm::{LanguageModel, Specials, TokenId};
use serde_json::{Value, json};

use crate::fields::{Fields, Notes, wrong};
use crate::problem::Problem;

/// Paths and what they do, for `GET /`.
pub(crate) const ENDPOINTS: [(&str, &str); 17] = [
    ("POST /v1/chat/completions", "answers a chat (OpenAI)"),
    ("POST /v1/completions", "continues texts or tokens (OpenAI)"),
    ("POST /v1/responses", "answers a chat (OpenAI)"),
    ("POST /v1/messages", "answers a chat (Anthropic)"),
    ("POST /v1/embeddings", "embeddings of texts (OpenAI)"),
    ("POST /api/chat", "answers a chat (Ollama)"),
    ("POST /api/generate", "answers a text (Ollama)"),
    ("POST /tokenize", "the tokens of a text"),
    ("POST /detokenize", "the text of tokens"),
    ("GET /v1/models", "the model and its names"),
    ("GET /v1/models/NAME", "the model"),
    ("GET /api/tags", "the model (Ollama)"),
    ("GET /api/version", "the server's version (Ollama)"),
    ("GET /props", "properties of the model and the server"),
    ("GET /health", "whether requests are answered"),
    ("GET /metrics", "counts and times for Prometheus"),
    ("GET /", "this list"),
];

/// The body of `GET /`.
pub(crate) fn root(model: &str) -> Value {
    let endpoints = ENDPOINTS
        .iter()
        .map(|(path, what)| ((*path).to_owned(), json!(what)));
    json!({
        "name": "polychip",
        "version": env!("CARGO_PKG_VERSION"),
        "model": model,
        "endpoints": endpoints.collect::<serde_json::Map<_, _>>(),
    })
}

/// The body of `GET /props`.
pub(crate) fn props(model: &LanguageModel, name: &str, slots: usize) -> Value {
    let tokenizer = model.tokenizer();
    let token = |id: Option<TokenId>| id.and_then(|id| tokenizer.token(id));
    json!({
        "model_alias": name,
        "n_ctx": model.capacity(),
        "total_slots": slots,
        "precision": model.precision().to_string(),
        "default_generation_settings": {"n_ctx": model.capacity()},
        "chat_template": model.template().map(|template| template.source()),
        "bos_token": token(tokenizer.bos()),
        "eos_token": token(tokenizer.eos()),
        "modalities": {"vision": false, "audio": false},
        "build_info": format!("polychip {}", env!("CARGO_PKG_VERSION")),
    })
}

/// Answers `POST /tokenize`: `content` or `prompt` as tokens.
pub(crate) fn tokenize(
    body: &[u8],
    model: &LanguageModel,
    longest: usize,
    notes: &mut Notes,
) -> Result<Value, Problem> {
    let mut fields = Fields::of_body(body)?;
    let content = fields.text("content")?;
    let (text, param) = match (content, fields.text("prompt")?) {
        (Some(_), Some(_)) => {
            return Err(Problem::value("prompt", "give `content` or `prompt`, not both"));
        }
        (Some(text), None) => (text, "content"),
        (None, Some(text)) => (text, "prompt"),
        (None, None) => return Err(Problem::missing("content")),
    };
    let wants_specials = [fields.flag("add_special")?, fields.flag("add_special_tokens")?];
    let parses = fields.flag("parse_special")?.unwrap_or(true);
    let has_pieces = fields.flag("with_pieces")?.unwrap_or(false);
    fields.take("model");
    fields.finish(notes)?;
    // cutting it into tokens takes seconds where it is a megabyte of them
    if text.len() > longest {
        return Err(Problem::text_length(param, text.len(), model.capacity()));
    }
    let specials = if parses { Specials::Parse } else { Specials::AsText };
    let tokenizer = model.tokenizer();
    let tokens = if wants_specials.contains(&Some(true)) {
        tokenizer.encode_prompt(&text, specials)
    } else {
        tokenizer.encode(&text, specials)
    };
    let tokens = tokens.map_err(|error| Problem::bad(error.to_string()))?;
    let count = tokens.len();
    let tokens: Value = if has_pieces {
        let piece = |id: &TokenId| json!({"id": id, "piece": tokenizer.token(*id)});
        tokens.iter().map(piece).collect()
    } else {
        json!(tokens)
    };
    Ok(json!({"tokens": tokens, "count": count, "max_model_len": model.capacity()}))
}

/// Answers `POST /detokenize`: `tokens` as text.
pub(crate) fn detokenize(body: &[u8], model: &LanguageModel, notes: &mut Notes) -> Result<Value, Problem> {
    let mut fields = Fields::of_body(body)?;
    let tokens = match fields.take("tokens") {
        None => return Err(Problem::missing("tokens")),
        Some(Value::Array(tokens)) => tokens,
        Some(other) => return Err(wrong("tokens", "an array of tokens", &other)),
    };
    fields.take("model");
    fields.finish(notes)?;
    let ids = tokens.iter().map(|token| {
        let id = token.as_u64().and_then(|id| TokenId::try_from(id).ok());
        id.ok_or_else(|| wrong("tokens", "an array of tokens: non-negative integers", token))
    });
    let ids: Vec<TokenId> = ids.collect::<Result<_, _>>()?;
    let text = model.tokenizer().decode(&ids);
    let text = text.map_err(|error| Problem::value("tokens", error.to_string()))?;
    Ok(json!({"content": text, "prompt": text}))
}
