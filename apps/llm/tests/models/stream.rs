//! Streamed answers equal those of calls, and end when the receiver is dropped.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::StreamExt as _;
use polychip::Policy;
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;
use polychip_llm::{Architecture, Finish, Generate, Gguf, LanguageModel, TokenId};

use crate::options;

struct Thread(std::thread::Thread);

impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor that knows nothing of the stream.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Thread(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn model() -> LanguageModel {
    let tiny = TinyModel {
        architecture: Architecture::Llama,
        kind: TensorType::Q4_1,
        layers: 1,
        tied: true,
        seed: 5,
    };
    let file = Gguf::read(tiny.writer().finish().into()).unwrap();
    let options = options().policy(Policy::latency().threads(1)).capacity(500);
    LanguageModel::of("tiny", file, options).unwrap()
}

const PROMPT: [TokenId; 3] = [40, 41, 42];

fn wanted(max_tokens: usize) -> Generate {
    Generate {
        ignore_end: true,
        ..Generate::greedy(max_tokens)
    }
}

#[test]
fn stream_pieces_match_the_call() {
    let model = model();
    let mut pieces = Vec::new();
    let mut sequence = model.sequence().unwrap();
    let called = sequence
        .generate(&PROMPT, &wanted(40), &mut |piece| {
            pieces.push(piece.to_owned());
            ControlFlow::Continue(())
        })
        .unwrap();
    let mut stream = model.sequence().unwrap().stream(&PROMPT, &wanted(40)).unwrap();
    let streamed: Vec<String> = wait(async {
        let mut pieces = Vec::new();
        while let Some(piece) = stream.next().await {
            pieces.push(piece.unwrap());
        }
        pieces
    });
    assert_eq!(streamed, pieces);
    let (after, answer) = wait(stream.into_completion());
    assert_eq!((answer.tokens, answer.finish), (called.tokens, Finish::Length));
    assert_eq!(after.tokens(), sequence.tokens());
}

#[test]
fn stream_stops_without_a_listener() {
    let model = model();
    // far more tokens than the test reads
    let mut stream = model.sequence().unwrap().stream(&PROMPT, &wanted(480)).unwrap();
    assert!(wait(stream.next()).is_some());
    let (sequence, answer) = wait(stream.into_completion());
    assert_eq!(answer.finish, Finish::Cancelled);
    assert!(answer.tokens.len() < 480);
    // the sequence remains usable
    let stream = sequence.stream(&PROMPT, &wanted(3)).unwrap();
    let (_, answer) = wait(async {
        let mut stream = stream;
        while stream.next().await.is_some() {}
        stream.into_completion().await
    });
    assert_eq!(answer.tokens.len(), 3);
    assert_eq!(answer.reused_tokens, 2);
}

#[test]
fn stream_start_failure_is_an_error() {
    let error = model().sequence().unwrap().stream(&[], &wanted(1)).unwrap_err();
    assert!(error.to_string().contains("no tokens"), "{error}");
}
