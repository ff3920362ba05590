//! Language models in the account of the runtime's memory: what counts, what gives way, and the same answers afterwards.

use std::ops::ControlFlow;

use polychip::{MemoryPressure, Policy, Precision, Runtime};
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;
use polychip_llm::{Architecture, Batch, Generate, Gguf, LanguageModel, Options, Sequence, TokenId};

fn runtime(limit: u64) -> Runtime {
    let builder = Runtime::builder().only_given_folders().memory_limit(limit);
    builder.build().unwrap()
}

fn model(runtime: &Runtime) -> LanguageModel {
    let tiny = TinyModel {
        architecture: Architecture::Llama,
        kind: TensorType::Q8_0,
        layers: 2,
        tied: true,
        seed: 29,
    };
    let file = Gguf::read(tiny.writer().finish().into()).expect("it was written right");
    let policy = Policy::latency().threads(1);
    let options = Options::new()
        .runtime(runtime)
        .policy(policy)
        .precision(Precision::Exact)
        .capacity(512);
    LanguageModel::of("tiny", file, options).expect("it is supported")
}

fn prompt(seed: TokenId, count: TokenId) -> Vec<TokenId> {
    (0..count).map(|at| 40 + (seed + at * 7) % 90).collect()
}

fn answer(sequence: &mut Sequence, prompt: &[TokenId]) -> Vec<TokenId> {
    let wanted = Generate {
        ignore_end: true,
        ..Generate::greedy(6)
    };
    let answer = sequence.generate(prompt, &wanted, &mut |_| ControlFlow::Continue(()));
    answer.unwrap().tokens
}

#[test]
fn kv_caches_and_chunk_graphs_are_counted_once() {
    let runtime = runtime(u64::MAX);
    let model = model(&runtime);
    let mut sequence = model.sequence().unwrap();
    assert_eq!(runtime.memory().caches_bytes, 0, "nothing is read");
    answer(&mut sequence, &prompt(0, 40));
    let memory = runtime.memory();
    assert!(memory.caches_bytes >= model.sequence_bytes(64), "{memory:?}");
    assert_eq!(memory.held_bytes, model.resident_bytes());
    let row = memory
        .sessions
        .iter()
        .find(|one| one.model == "tiny (KV cache)")
        .unwrap();
    assert_eq!(
        (row.bytes, row.caches_bytes),
        (memory.caches_bytes, memory.caches_bytes)
    );
    // weights count once for the graphs of several chunk sizes, until the last of them is freed
    let weights = model.file_bytes() / 2;
    let sessions = model.sessions();
    assert!(sessions.len() > 1 && memory.parts_bytes >= weights, "{memory:?}");
    for (_, session) in &sessions[1..] {
        session.park().unwrap();
        assert!(runtime.memory().parts_bytes >= weights, "{:?}", runtime.memory());
    }
    sessions[0].1.park().unwrap();
    assert_eq!(runtime.memory().parts_bytes, 0);
    // two more caches are in the same row
    let mut others = [model.sequence().unwrap(), model.sequence().unwrap()];
    others.iter_mut().for_each(|one| drop(answer(one, &prompt(3, 8))));
    let rows = runtime.memory().sessions.into_iter();
    assert_eq!(rows.filter(|one| one.model == "tiny (KV cache)").count(), 1);
    drop((sequence, others));
    assert_eq!(runtime.memory().caches_bytes, 0);
}

#[test]
fn resting_conversation_gives_way_and_continues_the_same() {
    let runtime = runtime(u64::MAX);
    let model = model(&runtime);
    let text = prompt(1, 30);
    let expected = answer(&mut model.sequence().unwrap(), &text);
    let (mut resting, mut used) = (model.sequence().unwrap(), model.sequence().unwrap());
    assert_eq!(answer(&mut resting, &text), expected);
    resting.rest();
    // taken back as it was
    assert_eq!(resting.shared(&text), text.len());
    resting.wake().unwrap();
    assert!(!resting.is_released());
    resting.rest();
    used.append(&text).unwrap();
    let held = runtime.memory().caches_bytes;
    runtime.trim_memory(MemoryPressure::Critical);
    let left = runtime.memory().caches_bytes;
    assert!(left > 0 && left < held, "{left} of {held}");
    assert!(resting.is_released() && resting.shared(&text) == 0);
    assert!(!used.is_released());
    let error = resting.save(std::env::temp_dir().join("never.kv")).unwrap_err();
    assert!(error.to_string().contains("wake"), "{error}");
    assert_eq!(answer(&mut resting, &text), expected, "it is read again");
    // tokens that are appended come behind all that was read, also after a release
    let mut fresh = model.sequence().unwrap();
    fresh.append(&text).unwrap();
    let behind = fresh.append(&[77]).unwrap().to_vec();
    used.rest();
    runtime.trim_memory(MemoryPressure::Critical);
    assert!(used.is_released());
    assert_eq!(used.append(&[77]).unwrap(), behind);
    assert_eq!(used.len(), text.len() + 1);
}

#[test]
fn sequence_that_rests_takes_part_in_copies_and_batches() {
    let runtime = runtime(u64::MAX);
    let model = model(&runtime);
    let text = prompt(2, 24);
    let mut sequences: Vec<Sequence> = (0..3).map(|_| model.sequence().unwrap()).collect();
    sequences[0].append(&text).unwrap();
    sequences[0].rest();
    let (first, rest) = sequences.split_at_mut(1);
    rest[0].copy(&first[0], 20).unwrap();
    assert_eq!(rest[0].tokens(), &text[..20]);
    runtime.trim_memory(MemoryPressure::Critical);
    // nothing is left to copy, so that less is known
    rest[1].copy(&first[0], 20).unwrap();
    assert!(rest[1].is_empty());
    rest[1].append(&text).unwrap();
    rest[0].append(&text[20..]).unwrap();
    let mut batch = Batch::new(&model);
    let mut members: Vec<(&mut Sequence, TokenId)> = sequences.iter_mut().map(|one| (one, 50)).collect();
    batch.step(&mut members).unwrap();
    for sequence in &sequences[1..] {
        assert_eq!(sequence.len(), text.len() + 1);
        let difference = sequence
            .logits()
            .iter()
            .zip(sequences[0].logits())
            .map(|(a, b)| (a - b).abs());
        assert!(difference.fold(0.0, f32::max) < 2e-3);
    }
}

#[test]
fn limit_releases_resting_caches_and_refuses_what_does_not_fit() {
    let unlimited = runtime(u64::MAX);
    let of_one = {
        let model = model(&unlimited);
        let mut sequence = model.sequence().unwrap();
        answer(&mut sequence, &prompt(4, 200));
        model.resident_bytes()
    };
    let runtime = runtime(of_one + (64 << 10));
    let model = model(&runtime);
    let text = prompt(4, 200);
    let mut first = model.sequence().unwrap();
    let expected = answer(&mut first, &text);
    first.rest();
    let mut second = model.sequence().unwrap();
    assert_eq!(answer(&mut second, &text), expected);
    assert!(first.is_released(), "it made room");
    second.rest();
    assert_eq!(answer(&mut first, &text), expected);
    // those in use give nothing away, so that one more does not fit in the end
    let mut used = Vec::new();
    let error = loop {
        let mut sequence = model.sequence().unwrap();
        match sequence.append(&text) {
            Ok(_) => used.push(sequence),
            Err(error) => break error,
        }
        assert!(used.len() < 1000, "nothing limits them");
    };
    assert!(error.to_string().contains("tiny (KV cache)"), "{error}");
    assert!(used.iter().all(|one| !one.is_released()));
    let memory = runtime.memory();
    assert!(memory.peak_bytes <= of_one + (64 << 10), "{memory:?}");
}

#[test]
fn parked_language_model_answers_the_same() {
    let runtime = runtime(u64::MAX);
    let model = model(&runtime);
    assert!(
        model.is_parked() && model.resident_bytes() == 0,
        "nothing is loaded"
    );
    let mut sequence = model.sequence().unwrap();
    let expected = answer(&mut sequence, &prompt(5, 20));
    let before = model.resident_bytes();
    let freed = model.park().unwrap();
    assert!(model.is_parked() && freed > model.file_bytes() / 2);
    assert!(model.resident_bytes() <= before - freed && runtime.memory().caches_bytes > 0);
    model.resume().unwrap();
    assert!(!model.is_parked());
    assert_eq!(model.resident_bytes(), before);
    model.park().unwrap();
    assert_eq!(answer(&mut sequence, &prompt(5, 20)), expected);
    sequence.rest();
    model.park().unwrap();
    assert_eq!(runtime.memory().caches_bytes, 0);
    assert_eq!(answer(&mut sequence, &prompt(5, 20)), expected);
}
