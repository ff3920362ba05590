//! `polychip chat`: a conversation with one turn per line.
//!
//! Invariant: only the new turn is processed; earlier turns stay in the KV cache.

use std::io::{BufRead as _, ErrorKind, IsTerminal as _, Write as _};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use polychip_llm::{Finish, Message};

use super::{GenerationArguments, LanguageArguments, answer, chat_prompt, prepare, prepare_speculation};
use crate::exit::warn;
use crate::output::Output;
use crate::stop;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each line of standard input is a turn; `/clear` starts a new conversation, `/bye` or the end of input exits. Ctrl-C ends an answer, and twice in a row the program."
)]
pub(crate) struct Arguments {
    /// System prompt of the conversation
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    model: LanguageArguments,
    #[command(flatten)]
    answer: GenerationArguments,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let mut wanted = arguments.answer.wanted()?;
    let model = arguments.model.open()?;
    let system = || {
        arguments
            .system
            .iter()
            .map(|text| Message::new("system", text))
            .collect::<Vec<_>>()
    };
    let mut messages = system();
    // a model without a template is refused before anything is asked
    chat_prompt(&model, &[Message::new("user", "")])?;
    prepare(&model, 1)?;
    prepare_speculation(&arguments.answer, &model, 1, &mut wanted)?;
    let mut sequence = model.sequence()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    stop::on_interrupt(&interrupted)?;
    let input = std::io::stdin();
    let ask = || {
        if input.is_terminal() {
            // ignore a closed standard error
            let _ = write!(std::io::stderr(), "> ");
        }
    };
    ask();
    for line in input.lock().lines() {
        let line = match line {
            Ok(line) => line,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                warn("this turn is not UTF-8 text and is skipped");
                ask();
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match line.trim() {
            "" => {}
            "/bye" => break,
            "/clear" => messages = system(),
            said => {
                interrupted.store(false, Ordering::Relaxed);
                messages.push(Message::new("user", said));
                let prompt = chat_prompt(&model, &messages)?;
                if prompt.len() > model.capacity() {
                    messages.pop();
                    warn(format!(
                        "the conversation's {} tokens exceed the context length of {}: this turn is skipped; start \
                         over with `/clear`, or raise --context",
                        prompt.len(),
                        model.capacity()
                    ));
                    ask();
                    continue;
                }
                let answer = answer(
                    &mut sequence,
                    &prompt,
                    &wanted,
                    Some(&mut *out),
                    Some(&*interrupted),
                )?;
                if answer.finish == Finish::Cancelled && answer.text.is_empty() {
                    // as if it had not been asked
                    messages.pop();
                } else {
                    messages.push(Message::new("assistant", answer.text));
                }
                // until the next turn, memory may go to others
                sequence.rest();
                // the next answer is drawn anew
                wanted.sampling.seed = wanted.sampling.seed.wrapping_add(1);
            }
        }
        ask();
    }
    Ok(())
}
