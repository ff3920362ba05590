//! Calls of tools and scores of tokens, of a model whose answers are noise.

use std::ops::ControlFlow;

use polychip::Policy;
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;
use polychip_llm::{
    Architecture, CallPart, CallStyle, ChatTemplate, Finish, Generate, Generation, Gguf, Grammar,
    LanguageModel, Sampling, Step, TokenId, TokenScore, Tool, Trigger,
};
use serde_json::{Value, json};

use crate::options;

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

fn tools() -> Vec<Tool> {
    let parameters = json!({
        "$defs": {"unit": {"enum": ["C", "F"]}},
        "type": "object",
        "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}, "unit": {"$ref": "#/$defs/unit"}},
        "required": ["days", "unit"],
        "additionalProperties": false,
    });
    let tool = |name: &str| Tool {
        name: name.to_owned(),
        description: None,
        parameters: parameters.clone(),
    };
    vec![tool("get"), tool("get_more")]
}

fn noise(seed: u64) -> Generate {
    Generate {
        sampling: Sampling {
            temperature: 3.0,
            seed,
            ..Sampling::greedy()
        },
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

fn styles() -> [CallStyle; 3] {
    [
        "{{ messages[0].content }}",
        "{% if tools %}[TOOL_CALLS]{% endif %}",
        "{% if tools %}python_tag{% endif %}",
    ]
    .map(|source| CallStyle::of(&ChatTemplate::new(source).unwrap()))
}

/// The calls of a text, each with its arguments, and the text beside them.
fn calls(style: CallStyle, text: &str) -> (Vec<(String, String)>, String) {
    let mut parser = style.parser(&tools());
    let mut parts = parser.push(text);
    parts.extend(parser.finish());
    let (mut calls, mut beside) = (Vec::new(), String::new());
    for part in parts {
        match part {
            CallPart::Text(text) => beside.push_str(&text),
            CallPart::Call { name } => calls.push((name, String::new())),
            CallPart::Arguments(more) => calls.last_mut().expect("a call began").1.push_str(&more),
        }
    }
    (calls, beside)
}

fn is_valid(arguments: &str) -> bool {
    let value: Value = serde_json::from_str(arguments).unwrap();
    let days = value["days"].as_u64().unwrap();
    (1..=9).contains(&days) && ["C", "F"].map(Value::from).contains(&value["unit"])
}

#[test]
fn constrained_calls_are_valid_in_each_format() {
    let model = model();
    for style in styles() {
        let one = style.calls(&model, &tools(), false, &mut || true).unwrap();
        let several = style.calls(&model, &tools(), true, &mut || true).unwrap();
        for seed in 0..6 {
            let wanted = Generate {
                grammar: Some(one.clone()),
                ..noise(seed)
            };
            let (text, finish) = answer(&model, &wanted);
            assert_eq!(finish, Finish::End, "{text}");
            let (found, beside) = calls(style, &text);
            assert_eq!((found.len(), &*beside), (1, ""), "{text}");
            assert!(found.iter().all(|(_, arguments)| is_valid(arguments)), "{text}");
            let wanted = Generate {
                grammar: Some(several.clone()),
                ..noise(seed)
            };
            let (text, finish) = answer(&model, &wanted);
            let (found, beside) = calls(style, &text);
            assert!(!found.is_empty(), "{text}");
            if finish == Finish::End {
                assert_eq!(beside, "", "{text}");
                assert!(found.iter().all(|(_, arguments)| is_valid(arguments)), "{text}");
            }
        }
    }
}

#[test]
fn grammar_applies_from_the_trigger_on() {
    let model = model();
    let plain = Generate {
        ignore_end: true,
        ..Generate::greedy(40)
    };
    let (text, _) = answer(&model, &plain);
    // what the model says anyway, up to some character
    let (at, one) = text
        .char_indices()
        .find(|(_, one)| one.is_ascii_graphic())
        .expect("it says something");
    let held = |trigger: &str, at_start: bool| Generate {
        trigger: Some(Trigger {
            text: trigger.to_owned(),
            at_start,
            grammar: Grammar::lark(&model, "start: \"yes\" | \"no\"").unwrap(),
        }),
        ..plain.clone()
    };
    let (found, finish) = answer(&model, &held(&one.to_string(), false));
    let begun = &text[..at + 1];
    assert!(
        found == format!("{begun}yes") || found == format!("{begun}no"),
        "{text:?} {found:?}"
    );
    assert_eq!(finish, Finish::End);
    // in a step that does not wait
    let mut generation = Generation::new(
        model.sequence().unwrap(),
        &[40, 41, 42],
        &held(&one.to_string(), false),
    )
    .unwrap();
    generation.without_waiting();
    let mut stepped = String::new();
    loop {
        while generation.is_waiting() {
            std::thread::yield_now();
        }
        match generation.step(128).unwrap() {
            Step::Read => {}
            Step::Piece(piece) => stepped.push_str(&piece),
            Step::Finished(rest) => {
                stepped.push_str(&rest);
                break;
            }
        }
    }
    assert_eq!(stepped, found);
    // never said, or not at the start
    assert_eq!(answer(&model, &held("<never said>", false)).0, text);
    if at > 0 {
        assert_eq!(answer(&model, &held(&one.to_string(), true)).0, text);
    }
}

#[test]
fn trigger_of_a_style_leads_to_a_call() {
    let model = model();
    for style in styles() {
        let trigger = style.trigger(&model, &tools(), false, &mut || true).unwrap();
        let wanted = Generate {
            grammar: Some(trigger.grammar.clone()),
            ..noise(3)
        };
        let (text, finish) = answer(&model, &wanted);
        let (found, beside) = calls(style, &format!("{}{text}", trigger.text));
        assert_eq!((found.len(), &*beside, finish), (1, "", Finish::End), "{text}");
        assert!(is_valid(&found[0].1));
    }
}

#[test]
fn tokens_are_scored_by_the_logits() {
    let model = model();
    let prompt: Vec<TokenId> = (10..80).collect();
    let wanted = Generate {
        scores: Some(2),
        scores_prompt: true,
        ignore_end: true,
        ..Generate::greedy(3)
    };
    let mut generation = Generation::new(model.sequence().unwrap(), &prompt, &wanted).unwrap();
    let (mut scores, mut of_prompt) = (Vec::new(), Vec::new());
    loop {
        let step = generation.step(32).unwrap();
        scores.extend(generation.take_scores());
        of_prompt.extend(generation.take_prompt_scores());
        if matches!(step, Step::Finished(_)) {
            break;
        }
    }
    let tokens = generation.tokens().to_vec();
    assert_eq!((scores.len(), of_prompt.len()), (3, prompt.len() - 1));
    let mut expected = Vec::new();
    let all: Vec<TokenId> = prompt.iter().chain(&tokens).copied().collect();
    let mut sequence = model.sequence().unwrap();
    let mut row = 0;
    sequence
        .append_all(&all, |logits| {
            row += 1;
            if let Some(next) = all.get(row) {
                expected.push(TokenScore::new(logits, *next, 2));
            }
        })
        .unwrap();
    for (found, expected) in of_prompt.iter().chain(&scores).zip(&expected) {
        assert_eq!(found.token, expected.token);
        assert!(
            (found.logprob - expected.logprob).abs() < 1e-3,
            "{found:?} {expected:?}"
        );
        assert_eq!(found.top.len(), 2);
    }
    // an answer of no tokens is a way to score a prompt
    let none = Generate {
        scores: Some(0),
        scores_prompt: true,
        ..Generate::greedy(0)
    };
    let mut generation = Generation::new(model.sequence().unwrap(), &prompt, &none).unwrap();
    let mut count = 0;
    while generation.finish().is_none() {
        let _ = generation.step(128).unwrap();
        count += generation.take_prompt_scores().len();
    }
    assert_eq!((count, generation.tokens().len()), (prompt.len() - 1, 0));
}

#[test]
fn an_answer_that_is_cut_has_no_part_of_a_character() {
    let model = model();
    let first = model
        .tokenizer()
        .encode("é", polychip_llm::Specials::AsText)
        .unwrap()[0];
    let wanted = Generate {
        sampling: Sampling {
            bias: vec![(first, 1000.0)],
            ..Sampling::greedy()
        },
        ..Generate::greedy(1)
    };
    assert_eq!(answer(&model, &wanted), (String::new(), Finish::Length));
}
