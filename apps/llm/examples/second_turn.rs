//! How much sooner the first token of a second turn comes because the sequence keeps what it has read.
//!
//! `cargo run --release -p polychip-llm --example second_turn -- MODEL.gguf [SHARED] [NEW]`: a conversation whose turns share
//! SHARED tokens (1500) and then bring NEW ones (32), answered by the sequence that read the first turn and by one that did
//! not, in turns; medians of five.
#![allow(clippy::print_stdout)] // an example's output

use std::ops::ControlFlow;
use std::time::Duration;

use polychip_llm::{Completion, Generate, LanguageModel, Options, Sequence, TokenId};

/// Tokens that are the same each time they are asked for.
fn tokens(seed: u32, count: usize, vocabulary: u32) -> Vec<TokenId> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        100 + (state >> 8) % (vocabulary - 100)
    };
    (0..count).map(|_| next()).collect()
}

fn ask(sequence: &mut Sequence, prompt: &[TokenId]) -> anyhow::Result<Completion> {
    let answer = sequence.generate(prompt, &Generate::greedy(1), &mut |_| ControlFlow::Continue(()))?;
    Ok(answer)
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default| words.get(index).map_or(Ok(default), |word| word.parse());
    let path = words
        .first()
        .ok_or_else(|| anyhow::anyhow!("which model? a GGUF file"))?;
    let (shared, new) = (number(1, 1500)?, number(2, 32)?);
    let model = LanguageModel::open(path, Options::new())?;
    model.prepare(shared + new)?;
    model.prepare(new)?;
    let vocabulary = model.sizes().vocabulary;
    let first = tokens(1, shared, vocabulary);
    let mut sequence = model.sequence()?;
    ask(&mut sequence, &first)?;
    let (mut kept, mut anew) = (Vec::new(), Vec::new());
    for round in 0..5 {
        let mut prompt = first.clone();
        prompt.extend(tokens(100 + round, new, vocabulary));
        let answer = ask(&mut sequence, &prompt)?;
        anyhow::ensure!(
            answer.reused_tokens >= shared,
            "only {} were kept",
            answer.reused_tokens
        );
        kept.push(answer.prefill);
        let answer = ask(&mut model.sequence()?, &prompt)?;
        anyhow::ensure!(answer.reused_tokens == 0, "a new sequence has read nothing");
        anew.push(answer.prefill);
    }
    let median =
        |mut times: Vec<Duration>| polychip_profile::median(&mut times, Duration::cmp).unwrap_or_default();
    let (kept, anew) = (median(kept), median(anew));
    println!(
        "first token behind {shared} shared tokens and {new} new ones: {kept:.1?} kept, {anew:.1?} anew"
    );
    println!("{:.1} times as soon", anew.as_secs_f64() / kept.as_secs_f64());
    Ok(())
}
