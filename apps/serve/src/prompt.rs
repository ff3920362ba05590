//! Converts a client's request to tasks of the model.

use polychip_llm::{
    CallStyle, Error, ErrorKind, Generate, Grammar, LanguageModel, Specials, TokenId, Trigger,
};
use serde_json::json;

use crate::answer::Reading;
use crate::job::{Owner, Task};
use crate::problem::Problem;
use crate::request::{Asked, Format, Input, ToolChoice, Tools};

/// The model, and the limits of requests to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits<'a> {
    pub(crate) model: &'a LanguageModel,
    /// How the template writes calls, if there is one.
    pub(crate) style: Option<CallStyle>,
    /// The longest answer that the server makes.
    pub(crate) most: Option<usize>,
    /// Bytes beyond which no text fits.
    pub(crate) longest: usize,
}

/// Writes a request as tokens: a task for each of its answers.
///
/// # Errors
/// The model has no chat template or its template refuses the messages, a prompt is empty or too long, a longer answer is
/// asked for than the server makes, or `go_on` returned false because the client has gone.
pub(crate) fn tasks(
    asked: &mut Asked,
    owner: Owner,
    limits: Limits<'_>,
    call_prefix: &'static str,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Vec<(Task, Reading)>, Problem> {
    let Limits { model, most, .. } = limits;
    if let (Some(asked), Some(most)) = (asked.max_tokens, most)
        && asked.tokens > most
    {
        let words = format!(
            "`{}` is {}; this server's maximum is {most} tokens (--max-tokens)",
            asked.param, asked.tokens
        );
        return Err(Problem::value(asked.param, words));
    }
    let vocabulary = model.sizes().vocabulary;
    let mut biased = asked.sampling.bias.iter().map(|(token, _)| *token);
    if let Some(token) = biased.find(|token| *token >= vocabulary) {
        let words = format!("token {token} exceeds the vocabulary of {vocabulary} tokens");
        return Err(Problem::value("logit_bias", words));
    }
    let default = asked
        .default_tokens
        .map(|tokens| tokens.min(most.unwrap_or(tokens)));
    let mut wanted = asked.max_tokens.map(|asked| asked.tokens).or(default).or(most);
    if asked.pools {
        wanted = Some(0);
        if !model.has_hidden_states() {
            let words = "the model has no embeddings: its exported graph outputs logits, not hidden states";
            return Err(Problem::unsupported("model", words));
        }
    }
    let seed = match asked.seed {
        Some(seed) => seed,
        None => getrandom::u64().map_err(|error| Problem::internal(format!("no random seed: {error}")))?,
    };
    let scores_prompt = asked.is_echoed && asked.scores.is_some();
    let callable = asked.tools.callable();
    let style = limits.style.filter(|_| !callable.is_empty());
    let mut tasks: Vec<(Task, Reading)> = Vec::new();
    for input in std::mem::take(&mut asked.inputs) {
        let text = match &input {
            Input::Text(text) if asked.is_echoed => Some(text.clone()),
            _ => None,
        };
        let prompt = tokens(input, asked, limits, go_on)?;
        let capacity = model.capacity();
        if prompt.is_empty() {
            return Err(Problem::value(asked.param, format!("`{}` is empty", asked.param)));
        }
        // an answer has a token at least
        if prompt.len() + usize::from(wanted != Some(0)) > capacity {
            return Err(Problem::context_length(asked.param, prompt.len(), capacity));
        }
        let room = capacity - prompt.len();
        let echoed = match (asked.is_echoed, text) {
            (false, _) => None,
            (true, Some(text)) => Some(text),
            (true, None) => {
                let text = model.tokenizer().decode(&prompt);
                Some(text.map_err(|error| Problem::bad(error.to_string()))?)
            }
        };
        for count in 0..asked.count {
            let mut sampling = asked.sampling.clone();
            sampling.seed = seed.wrapping_add(tasks.len() as u64);
            let task = Task {
                prompt: prompt.clone(),
                // a prompt that is scored or pooled is read anew
                may_reuse: asked.may_reuse && !scores_prompt && !asked.pools,
                owner,
                holds: None,
                grammar_param: grammar_param(&asked.tools),
                wanted: Generate {
                    sampling,
                    stop: asked.stop.clone(),
                    scores: asked.scores,
                    scores_prompt,
                    pools: asked.pools,
                    shown: style
                        .map(|style| style.shown(model.tokenizer()))
                        .unwrap_or_default(),
                    ..Generate::greedy(wanted.unwrap_or(room).min(room))
                },
            };
            let reading = Reading {
                parser: style.map(|style| style.parser(&callable)),
                echoed: echoed.clone().map(|text| (text, prompt.clone())),
                has_scores: asked.scores.is_some(),
                has_short_ids: style.is_some_and(|style| style.has_short_ids()),
                call_prefix,
                is_first: count == 0,
            };
            tasks.push((task, reading));
        }
    }
    Ok(tasks)
}

/// The field that a grammar comes from.
fn grammar_param(tools: &Tools) -> &'static str {
    match tools.choice {
        ToolChoice::None => "response_format",
        ToolChoice::Auto | ToolChoice::Required | ToolChoice::Named(_) => "tools",
    }
}

/// What an answer is held to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub(crate) grammar: Option<Grammar>,
    pub(crate) trigger: Option<Trigger>,
}

/// Compiles what the answers are held to.
///
/// # Errors
/// They cannot be held to it, or `go_on` returned false because the client has gone.
pub(crate) fn held(
    format: &Format,
    tools: &Tools,
    limits: Limits<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Held, Problem> {
    let callable = tools.callable();
    if let Some(style) = limits.style.filter(|_| !callable.is_empty()) {
        let is_one = matches!(tools.choice, ToolChoice::Named(_));
        let are_parallel = tools.are_parallel && !is_one;
        let mut held = Held::default();
        let refused = |error: Error| refused("tools", &error);
        if tools.choice == ToolChoice::Auto {
            let trigger = style.trigger(limits.model, &callable, are_parallel, go_on);
            held.trigger = Some(trigger.map_err(refused)?);
        } else {
            let grammar = style.calls(limits.model, &callable, are_parallel, go_on);
            held.grammar = Some(grammar.map_err(refused)?);
        }
        return Ok(held);
    }
    let object;
    let (schema, param) = match format {
        Format::JsonSchema(schema) => (schema, "response_format.json_schema.schema"),
        Format::Text | Format::JsonObject => {
            object = json!({"type": "object"});
            (&object, "response_format")
        }
    };
    let grammar = Grammar::json_schema_while(limits.model, schema, go_on);
    Ok(Held {
        grammar: Some(grammar.map_err(|error| refused(param, &error))?),
        trigger: None,
    })
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
    asked: &Asked,
    limits: Limits<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Vec<TokenId>, Problem> {
    let Limits { model, longest, .. } = limits;
    let param = asked.param;
    let tokenizer = model.tokenizer();
    let (text, specials) = match input {
        Input::Tokens(tokens) => {
            let vocabulary = model.sizes().vocabulary;
            if let Some(token) = tokens.iter().find(|token| **token >= vocabulary) {
                let words = format!("token {token} exceeds the vocabulary of {vocabulary} tokens");
                return Err(Problem::value(param, words));
            }
            return Ok(tokens);
        }
        Input::Text(text) => (text, Specials::AsText),
        Input::Chat(messages) => {
            let (Some(template), Some(style)) = (model.template(), limits.style) else {
                return Err(Problem::unsupported(
                    param,
                    "the model has no chat template; use /v1/completions to continue a text",
                ));
            };
            let (messages, variables) = style.prompt(asked.tools.described(), messages);
            let text = template.render_with(&messages, true, &variables, go_on);
            let text = text.map_err(|error| refused(param, &error))?;
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
