//! Translates `tokenizer.json` and the files beside it to GGUF keys.

use std::path::Path;

use serde_json::Value;

use super::object::{Object, read};
use crate::gguf::GgufWriter;
use crate::tokenizer::pre;
use crate::{Error, Result};

const TOKENIZER: &str = "tokenizer.json";
const SETTINGS: &str = "tokenizer_config.json";
/// The configuration field with the tokens that end an answer: one, or a list.
pub(crate) const ENDS: &str = "eos_token_id";

/// Kinds of tokens, by their number in GGUF files.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

/// Tokens by id, with their kind.
type Tokens = Vec<Option<(String, i32)>>;

/// A configuration's tokens that end an answer; those of the generation configuration beside it
/// take precedence.
pub(super) fn stated_ends(folder: &Path, config: &Object) -> Result<Option<Value>> {
    let generation = Object::read(folder, "generation_config.json")?;
    let found = generation.as_ref().and_then(|one| one.get(ENDS));
    Ok(found.or_else(|| config.get(ENDS)).cloned())
}

/// Writes the folder's text settings; `config` names the token that begins a text, `ends` those
/// that end an answer.
pub(crate) fn write(
    folder: &Path,
    config: &Object,
    rows: u32,
    ends: Option<Value>,
    header: &mut GgufWriter,
) -> Result<()> {
    let tokenizer = Object::read(folder, TOKENIZER)?.ok_or_else(|| {
        Error::tokenizer(format!(
            "{} contains no {TOKENIZER}: other vocabulary formats are not supported",
            folder.display()
        ))
    })?;
    let model = tokenizer.needed("model", tokenizer.object("model")?)?;
    refuse_unknown(&model)?;
    let family = family(&tokenizer, &model)?;
    let mut tokens: Tokens = vec![None; rows as usize];
    let vocabulary = model.needed("vocab", model.object("vocab")?)?;
    for (token, id) in &vocabulary.fields {
        place(&mut tokens, token, id, NORMAL)?;
    }
    added(&tokenizer, &mut tokens)?;
    // rows of the table that no token has
    let tokens = tokens.into_iter().enumerate();
    let (texts, kinds): (Vec<String>, Vec<i32>) = tokens
        .map(|(id, token)| token.unwrap_or_else(|| (format!("[PAD{id}]"), UNUSED)))
        .unzip();
    header.text("tokenizer.ggml.model", "gpt2");
    header.text("tokenizer.ggml.pre", family.name());
    header.texts("tokenizer.ggml.merges", &merges(&model)?);
    let id_of = |text: &str| texts.iter().position(|one| one == text).map(|id| id as u32);
    write_ends(ends, header)?;
    begin(folder, config, &tokenizer, &id_of, header)?;
    if let Some(template) = template(folder)? {
        header.text("tokenizer.chat_template", &template);
    }
    header.texts("tokenizer.ggml.tokens", &texts);
    header.i32s("tokenizer.ggml.token_type", &kinds);
    Ok(())
}

/// Refuses unknown merge settings that change tokens.
fn refuse_unknown(model: &Object) -> Result<()> {
    model.refuse_unless("type", |kind| kind == "BPE")?;
    model.refuse_unless("byte_fallback", |value| value == false)?;
    model.refuse_unless("dropout", |value| value == 0.0)?;
    model.refuse_unless("continuing_subword_prefix", |value| value == "")?;
    model.refuse_unless("end_of_word_suffix", |value| value == "")
}

/// The pre-tokenizer, which must be that of a known family.
fn family(tokenizer: &Object, model: &Object) -> Result<&'static pre::Family> {
    let composes = match tokenizer.object("normalizer")? {
        None => false,
        Some(normalizer) => {
            normalizer.refuse_unless("type", |kind| kind == "NFC")?;
            true
        }
    };
    let whole_words = model.flag("ignore_merges")?.unwrap_or(false);
    let cutter = tokenizer.object("pre_tokenizer")?;
    let cutter = tokenizer.needed("pre_tokenizer", cutter)?;
    let steps = match cutter.text("type")? {
        Some("Sequence") => match cutter.get("pretokenizers") {
            Some(Value::Array(steps)) => steps.clone(),
            _ => Vec::new(),
        },
        _ => vec![Value::Object(cutter.fields.clone())],
    };
    let mut expressions = Vec::new();
    for step in steps {
        let step = Object::of(format!("{TOKENIZER}: \"pre_tokenizer\""), step)?;
        match step.text("type")? {
            Some("Digits") if step.flag("individual_digits")? == Some(true) => {
                expressions.push(pre::DIGITS.to_owned());
            }
            Some("ByteLevel") => {
                step.refuse_unless("add_prefix_space", |value| value == false)?;
                if step.flag("use_regex")?.unwrap_or(true) {
                    expressions.push(pre::GPT2.to_owned());
                }
            }
            Some("Split") => {
                step.refuse_unless("behavior", |value| value == "Isolated")?;
                step.refuse_unless("invert", |value| value == false)?;
                let pattern = step.needed("pattern", step.object("pattern")?)?;
                let expression = pattern.needed("Regex", pattern.text("Regex")?)?;
                expressions.push(expression.to_owned());
            }
            other => {
                return Err(Error::unsupported(format!(
                    "{}: a step of type {other:?} is not supported",
                    step.place
                )));
            }
        }
    }
    pre::family_of(&expressions, composes, whole_words).ok_or_else(|| {
        Error::unsupported(format!(
            "{TOKENIZER}: the pre-tokenizer {expressions:?}{}{} does not match a known model family",
            if composes { ", composed first" } else { "" },
            if whole_words { ", whole words taken" } else { "" }
        ))
    })
}

fn place(tokens: &mut Tokens, text: &str, id: &Value, kind: i32) -> Result<()> {
    let rows = tokens.len();
    let slot = id
        .as_u64()
        .and_then(|id| tokens.get_mut(usize::try_from(id).ok()?));
    let slot = slot.ok_or_else(|| {
        Error::tokenizer(format!(
            "{TOKENIZER}: token {text:?} has id {id}, but the model has only {rows} embedding rows"
        ))
    })?;
    match slot {
        Some((other, _)) if other != text => Err(Error::tokenizer(format!(
            "{TOKENIZER}: tokens {other:?} and {text:?} have the same id {id}"
        ))),
        _ => {
            *slot = Some((text.to_owned(), kind));
            Ok(())
        }
    }
}

/// Adds tokens that are found in a text before it is split.
fn added(tokenizer: &Object, tokens: &mut Tokens) -> Result<()> {
    let Some(Value::Array(added)) = tokenizer.get("added_tokens") else {
        return Ok(());
    };
    for token in added {
        let token = Object::of(format!("{TOKENIZER}: \"added_tokens\""), token.clone())?;
        for field in ["lstrip", "rstrip", "single_word"] {
            token.refuse_unless(field, |value| value == false)?;
        }
        let text = token.needed("content", token.text("content")?)?;
        let id = token.needed("id", token.get("id"))?;
        let kind = match token.flag("special")? {
            Some(true) => CONTROL,
            _ => USER_DEFINED,
        };
        place(tokens, text, id, kind)?;
    }
    Ok(())
}

/// Pairs in the order of their rank, each written as a text with a blank or as two texts.
fn merges(model: &Object) -> Result<Vec<String>> {
    let Some(Value::Array(merges)) = model.get("merges") else {
        return Err(Error::tokenizer(format!(
            "{}: \"merges\" is not a list",
            model.place
        )));
    };
    let pair = |(rank, merge): (usize, &Value)| {
        let text = match merge {
            Value::String(text) => Some(text.clone()),
            Value::Array(pair) => match &pair[..] {
                [Value::String(left), Value::String(right)] => Some(format!("{left} {right}")),
                _ => None,
            },
            _ => None,
        };
        text.ok_or_else(|| Error::tokenizer(format!("{}: merge {rank} is {merge}, not a pair", model.place)))
    };
    merges.iter().enumerate().map(pair).collect()
}

/// Writes tokens that end an answer: the first ends a text, the others end a turn.
fn write_ends(ends: Option<Value>, header: &mut GgufWriter) -> Result<()> {
    let field = ENDS;
    let ids = match ends {
        None => return Ok(()),
        Some(Value::Array(ids)) => ids,
        Some(id) => vec![id],
    };
    const KEYS: [&str; 3] = ["eos", "eot", "eom"];
    if ids.len() > KEYS.len() {
        return Err(Error::unsupported(format!(
            "{} end-of-answer tokens ({field:?}) exceed the supported maximum of {}",
            ids.len(),
            KEYS.len()
        )));
    }
    for (key, id) in KEYS.iter().zip(&ids) {
        let number = id.as_u64().and_then(|id| u32::try_from(id).ok());
        let number =
            number.ok_or_else(|| Error::config(format!("{field:?} is {id}, which is not a token")))?;
        header.u32(&format!("tokenizer.ggml.{key}_token_id"), number);
    }
    Ok(())
}

/// The token that begins a text, and whether texts begin with it.
fn begin(
    folder: &Path,
    config: &Object,
    tokenizer: &Object,
    id_of: &dyn Fn(&str) -> Option<u32>,
    header: &mut GgufWriter,
) -> Result<()> {
    let frame = frame_begin(tokenizer)?;
    let bos = match frame.as_deref().map(id_of) {
        Some(None) => {
            return Err(Error::tokenizer(format!(
                "{TOKENIZER}: texts begin with {frame:?}, which is not a token"
            )));
        }
        Some(found) => found,
        None => config.size("bos_token_id")?,
    };
    let settings = Object::read(folder, SETTINGS)?;
    let stated = match &settings {
        Some(settings) => settings.flag("add_bos_token")?,
        None => None,
    };
    if let Some(bos) = bos {
        header.u32("tokenizer.ggml.bos_token_id", bos);
    }
    // what the tokenizer's own file does comes first
    let adds = frame.is_some() || stated.unwrap_or(false) && bos.is_some();
    header.flag("tokenizer.ggml.add_bos_token", adds);
    Ok(())
}

/// The token before a text, by the template of a single text; a token after the text is not
/// supported.
fn frame_begin(tokenizer: &Object) -> Result<Option<String>> {
    let mut steps = match tokenizer.object("post_processor")? {
        None => return Ok(None),
        Some(step) => vec![step],
    };
    let mut begin = None;
    while let Some(step) = steps.pop() {
        match step.text("type")? {
            Some("ByteLevel") => {}
            Some("Sequence") => {
                let Some(Value::Array(inner)) = step.get("processors") else {
                    continue;
                };
                for value in inner {
                    steps.push(Object::of(step.place.clone(), value.clone())?);
                }
            }
            Some("TemplateProcessing") => {
                let Some(Value::Array(pieces)) = step.get("single") else {
                    continue;
                };
                let special =
                    |piece: &Value| Some(piece.get("SpecialToken")?.get("id")?.as_str()?.to_owned());
                match &pieces[..] {
                    [_] => {}
                    [first, rest] if rest.get("Sequence").is_some() => begin = special(first),
                    _ => {
                        return Err(Error::unsupported(format!(
                            "{}: tokens after a text are not supported",
                            step.place
                        )));
                    }
                }
            }
            other => {
                return Err(Error::unsupported(format!(
                    "{}: a step of type {other:?} is not supported",
                    step.place
                )));
            }
        }
    }
    Ok(begin)
}

/// The chat template: a separate file, a text, or the entry "default" of a list.
fn template(folder: &Path) -> Result<Option<String>> {
    if let Some(text) = read(folder, "chat_template.jinja")? {
        return Ok(Some(text));
    }
    let Some(settings) = Object::read(folder, SETTINGS)? else {
        return Ok(None);
    };
    Ok(match settings.get("chat_template") {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(several)) => several
            .iter()
            .find(|one| one.get("name").is_some_and(|name| name == "default"))
            .and_then(|one| Some(one.get("template")?.as_str()?.to_owned())),
        _ => None,
    })
}
