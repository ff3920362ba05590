//! `polychip chat`: a conversation, a line at a time.
//!
//! Invariant: what was said before is not read again; only the new turn is.

use std::io::{BufRead as _, ErrorKind, IsTerminal as _, Write as _};

use polychip_llm::Message;

use super::{AnswerArguments, LanguageArguments, answer, chat_prompt, prepare, prepare_guesses};
use crate::exit::warn;
use crate::output::Output;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each line of standard input is a turn; `/clear` begins anew, `/bye` or the end of input ends."
)]
pub(crate) struct Arguments {
    /// What the model is told before the conversation
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    model: LanguageArguments,
    #[command(flatten)]
    answer: AnswerArguments,
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
    prepare_guesses(&arguments.answer, &model, 1, &mut wanted)?;
    let mut sequence = model.sequence()?;
    let input = std::io::stdin();
    let ask = || {
        if input.is_terminal() {
            // nobody reads it where standard error is closed
            let _ = write!(std::io::stderr(), "> ");
        }
    };
    ask();
    for line in input.lock().lines() {
        let line = match line {
            Ok(line) => line,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                warn("this turn is no text in UTF-8: it is left out");
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
                messages.push(Message::new("user", said));
                let prompt = chat_prompt(&model, &messages)?;
                if prompt.len() > model.capacity() {
                    messages.pop();
                    warn(format!(
                        "{} tokens of conversation do not fit the room for {}: this turn is left out; `/clear` begins anew, --context makes \
                         more room",
                        prompt.len(),
                        model.capacity()
                    ));
                    ask();
                    continue;
                }
                let answer = answer(&mut sequence, &prompt, &wanted, Some(&mut *out))?;
                messages.push(Message::new("assistant", answer.text));
                // the next answer is drawn anew
                wanted.sampling.seed = wanted.sampling.seed.wrapping_add(1);
            }
        }
        ask();
    }
    Ok(())
}
