//! An answer as an asynchronous stream, generated on its own thread; any executor may poll it.
//!
//! Invariant: dropping the stream ends the answer before its next run.
//!
//! Not here: interleaved or batched answers, which run on the caller's thread (`generation`).

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_channel::{mpsc, oneshot};
use futures_core::Stream;

use crate::{Completion, Error, Generate, Generation, Result, Sequence, Step, TokenId};

/// Pieces of an answer's text, each as soon as it is complete. An error is the last item.
#[derive(Debug)]
pub struct CompletionStream {
    pieces: mpsc::UnboundedReceiver<Result<String>>,
    ended: oneshot::Receiver<(Sequence, Completion)>,
}

impl Sequence {
    /// Answers a prompt like [`Sequence::generate`], on its own thread.
    /// [`CompletionStream::into_completion`] returns the sequence.
    ///
    /// ```no_run
    /// use futures_util::StreamExt as _;
    /// # use polychip_llm::{Generate, LanguageModel, Options, Specials};
    /// # async fn answer() -> Result<(), polychip_llm::Error> {
    /// let model = LanguageModel::open("model.gguf", Options::new())?;
    /// let prompt = model.tokenizer().encode_prompt("Once upon a time", Specials::AsText)?;
    /// let mut answer = model.sequence()?.stream(&prompt, &Generate::greedy(50))?;
    /// while let Some(piece) = answer.next().await {
    ///     print!("{}", piece?);
    /// }
    /// let (sequence, answer) = answer.into_completion().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The prompt is empty or does not fit the context, a setting is out of range, or the system
    /// cannot start a thread.
    pub fn stream(self, prompt: &[TokenId], wanted: &Generate) -> Result<CompletionStream> {
        let mut generation = Generation::new(self, prompt, wanted)?;
        let (each, pieces) = mpsc::unbounded();
        let (end, ended) = oneshot::channel();
        let make = move || {
            while !each.is_closed() {
                let (piece, is_last) = match generation.step(usize::MAX) {
                    Ok(Step::Read) => (Ok(String::new()), false),
                    Ok(Step::Piece(piece)) => (Ok(piece), false),
                    Ok(Step::Finished(piece)) => (Ok(piece), true),
                    Err(error) => (Err(error), true),
                };
                if piece.as_ref().map_or(true, |piece| !piece.is_empty()) {
                    // an error means that the receiver is gone; the loop then ends
                    let _ = each.unbounded_send(piece);
                }
                if is_last {
                    break;
                }
            }
            drop(each);
            // an error means that the receiver is gone
            let _ = end.send(generation.into_completion());
        };
        let thread = std::thread::Builder::new().name("polychip answer".to_owned());
        thread.spawn(make).map_err(Error::thread)?;
        Ok(CompletionStream { pieces, ended })
    }
}

impl CompletionStream {
    /// Returns the sequence and the answer, marked cancelled if the stream had not ended.
    ///
    /// # Panics
    /// The generating thread panicked.
    pub async fn into_completion(mut self) -> (Sequence, Completion) {
        self.pieces.close();
        self.ended.await.expect("the answer's thread panicked")
    }
}

impl Stream for CompletionStream {
    type Item = Result<String>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<String>>> {
        Pin::new(&mut self.pieces).poll_next(context)
    }
}
