//! Answers that are held to a schema or a grammar, of a model whose answers are noise without it; schemas are judged by a validator that
//! is not ours.

use std::ops::ControlFlow;

use polychip::Policy;
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;
use polychip_llm::{
    Architecture, Batch, ErrorKind, Finish, Generate, Generation, Gguf, Grammar, LanguageModel, Sampling,
    Speculation, Step,
};

use crate::options;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn model() -> LanguageModel {
    let tiny = TinyModel {
        architecture: Architecture::Llama,
        kind: TensorType::Q8_0,
        layers: 1,
        tied: true,
        seed: 31,
    };
    let file = Gguf::read(tiny.writer().finish().into()).expect("it was written right");
    let options = options().policy(Policy::latency().threads(1)).capacity(512);
    LanguageModel::of("tiny", file, options).expect("it is supported")
}

/// Draws among all tokens, nearly at random.
fn noise(seed: u64, grammar: Option<Grammar>) -> Generate {
    Generate {
        sampling: Sampling {
            temperature: 3.0,
            seed,
            ..Sampling::greedy()
        },
        grammar,
        ..Generate::greedy(400)
    }
}

fn answer(model: &LanguageModel, wanted: &Generate) -> (String, Finish) {
    let mut sequence = model.sequence().unwrap();
    let answer = sequence
        .generate(&[40, 41, 42], wanted, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    (answer.text, answer.finish)
}

fn schemas() -> Vec<Value> {
    vec![
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 8},
                "age": {"type": "integer", "minimum": 0, "maximum": 150},
                "mood": {"enum": ["glad", "sad", null, 7]},
                "is_tall": {"type": "boolean"},
            },
            "required": ["name", "age", "mood"],
            "additionalProperties": false,
        }),
        json!({"type": "array", "items": {"type": "string", "pattern": "^[a-z]{2,4}-[0-9]{3}$"}, "minItems": 2, "maxItems": 4}),
        json!({
            "$defs": {"point": {
                "type": "object",
                "properties": {"x": {"type": "integer", "minimum": -9, "maximum": 9}, "y": {"const": 0}},
                "required": ["x", "y"],
                "additionalProperties": false,
            }},
            "type": "object",
            "properties": {
                "from": {"$ref": "#/$defs/point"},
                "to": {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]},
            },
            "required": ["from", "to"],
            "additionalProperties": false,
        }),
        json!({"type": "string", "format": "date"}),
        json!({"const": "é漢\n\"quoted\""}),
    ]
}

#[test]
fn noise_becomes_json_of_the_schema() {
    let model = model();
    for schema in schemas() {
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&schema)
            .unwrap();
        let grammar = Grammar::json_schema(&model, &schema).unwrap();
        for seed in 0..12 {
            let (text, finish) = answer(&model, &noise(seed, Some(grammar.clone())));
            assert_eq!(finish, Finish::End, "{schema}: {text}");
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert!(validator.is_valid(&value), "{schema}: {text}");
        }
        let (text, _) = answer(&model, &noise(0, None));
        assert!(serde_json::from_str::<Value>(&text).is_err(), "{text}");
    }
}

#[test]
fn schema_accepts_any_object_and_its_prefixes() {
    let model = model();
    let grammar = Grammar::json_object(&model).unwrap();
    // read as raw JSON: numbers of an object may be larger than any machine's
    let mut whole = 0;
    for seed in 0..20 {
        let (text, finish) = answer(&model, &noise(seed, Some(grammar.clone())));
        match finish {
            Finish::End => {
                let object = serde_json::from_str::<&RawValue>(&text);
                let object = object.unwrap_or_else(|error| panic!("{error}: {text}"));
                assert!(object.get().starts_with('{'), "{text}");
                whole += 1;
            }
            other => {
                assert_eq!(other, Finish::Length);
                let error = serde_json::from_str::<&RawValue>(&text).unwrap_err();
                assert!(
                    error.is_eof() || text.ends_with(char::REPLACEMENT_CHARACTER),
                    "{error}: {text}"
                );
            }
        }
    }
    assert!(whole > 0);
}

#[test]
fn grammar_holds_alone_batched_and_with_drafts() {
    let model = model();
    let grammar = "start: greeting (\", \" greeting)~2\ngreeting: (\"hello\" | \"well\") \" \" WORD\nWORD: /[w-z]{2,3}/\n";
    let grammar = Grammar::lark(&model, grammar).unwrap();
    let is_greeting = |text: &str| {
        let parts: Vec<&str> = text.split(", ").collect();
        let of = |part: &&str| {
            let word = part.strip_prefix("hello ").or(part.strip_prefix("well "));
            word.is_some_and(|word| {
                (2..=3).contains(&word.len()) && word.bytes().all(|byte| (b'w'..=b'z').contains(&byte))
            })
        };
        parts.len() == 3 && parts.iter().all(of)
    };
    let mut alone = Vec::new();
    for seed in 0..6 {
        let wanted = noise(seed, Some(grammar.clone()));
        let (text, finish) = answer(&model, &wanted);
        assert!(is_greeting(&text), "{text}");
        assert_eq!(finish, Finish::End);
        let drafting = Generate {
            speculation: Some(Speculation::PromptLookup),
            ..wanted
        };
        assert_eq!(answer(&model, &drafting).0, text);
        alone.push(text);
    }
    let mut batch = Batch::new(&model);
    let mut answers: Vec<Generation> = (0..6)
        .map(|seed| {
            let wanted = noise(seed, Some(grammar.clone()));
            Generation::new(model.sequence().unwrap(), &[40, 41, 42], &wanted).unwrap()
        })
        .collect();
    for answer in &mut answers {
        while answer.step(128).unwrap() == Step::Read {}
    }
    loop {
        let mut going: Vec<&mut Generation> = answers
            .iter_mut()
            .filter(|answer| answer.finish().is_none())
            .collect();
        if going.is_empty() {
            break;
        }
        let size = batch.size(going.len());
        Generation::step_together(&mut batch, &mut going[..size]).unwrap();
    }
    let together: Vec<String> = answers
        .into_iter()
        .map(|answer| answer.into_completion().1.text)
        .collect();
    assert_eq!(together, alone);
}

#[test]
fn unsupported_constraints_are_named() {
    let model = model();
    for (schema, word) in [
        (json!(7), "7"),
        (json!(false), "false"),
        (json!({"type": "array", "uniqueItems": true}), "uniqueItems"),
        (json!({"not": {"type": "string"}}), "not"),
        (json!({"if": {"type": "string"}, "then": {"maxLength": 3}}), "if"),
        (json!({"type": "colour"}), "colour"),
        (json!({"type": "string", "format": "telepathic"}), "telepathic"),
        (json!({"type": "integer", "minimum": 5, "maximum": 1}), "minimum"),
        (json!({"$ref": "https://example.com/schema.json"}), "example.com"),
        (json!({"type": "string", "pattern": "("}), "("),
        (
            json!({"type": "object", "x-guidance": {"lenient": true}}),
            "x-guidance",
        ),
    ] {
        let error = Grammar::json_schema(&model, &schema).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Grammar);
        let words = error.to_string();
        assert!(words.contains(word) && !words.contains('\n'), "{schema}: {words}");
    }
    for (grammar, word) in [
        ("", "empty"),
        ("start: nobody", "nobody"),
        ("begin: \"a\"", "start"),
        ("start: (", "1"),
    ] {
        let error = Grammar::lark(&model, grammar).unwrap_err();
        assert!(error.to_string().contains(word), "{grammar:?}: {error}");
    }
}

#[test]
fn hostile_grammars_are_errors_that_name_the_limit() {
    assert!(
        polychip_llm::sandbox::is_available(),
        "polychip-llm-sandbox is missing: cargo build -p polychip-llm --bins"
    );
    let model = model();
    let chain: serde_json::Map<String, Value> = (0..5000)
        .map(|index| {
            (
                format!("d{index}"),
                json!({"anyOf": [{"$ref": format!("#/$defs/d{}", index + 1)}, {"type": "null"}]}),
            )
        })
        .collect();
    let names: Vec<String> = (0..50_000).map(|index| format!("p{index}")).collect();
    for schema in [
        json!({"$ref": "#/$defs/d0", "$defs": chain}),
        json!({"type": "object", "required": names}),
        json!({"enum": (0..3000).map(|index| json!([index])).collect::<Vec<_>>()}),
    ] {
        // one that is compiled after all is as good
        if let Err(error) = Grammar::json_schema(&model, &schema) {
            let words = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Grammar);
            assert!(!words.contains("panic"), "{words}");
        }
    }
    let mut rules = String::from("start: r0\n");
    for index in 0..20_000 {
        rules.push_str(&format!("r{index}: r{} | \"a\"\n", index + 1));
    }
    rules.push_str("r20000: \"b\"\n");
    if let Err(error) = Grammar::lark(&model, &rules) {
        assert!(error.to_string().contains("limit"), "{error}");
    }
    // a sandbox that ended takes no other grammar with it
    let grammar = Grammar::lark(&model, "start: \"yes\" | \"no\"\n").unwrap();
    let (text, _) = answer(&model, &noise(1, Some(grammar)));
    assert!(text == "yes" || text == "no", "{text}");
}

#[test]
fn compilation_ends_when_nobody_waits_for_it() {
    let model = model();
    let properties: serde_json::Map<String, Value> = (0..4500)
        .map(|index| (format!("p{index}"), json!({"type": "integer"})))
        .collect();
    let schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    let mut asked = 0;
    let error = Grammar::json_schema_while(&model, &schema, &mut || {
        asked += 1;
        asked < 2
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Cancelled);
}
