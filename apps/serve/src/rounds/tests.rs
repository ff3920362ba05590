//! Rounds step by step, without threads or connections.

use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;
use polychip_llm::{Architecture, Generate, Gguf, Options};

use super::*;
use crate::job::{Event, Events, Task, job};
use crate::pool::need;

fn model() -> LanguageModel {
    let tiny = TinyModel {
        architecture: Architecture::Llama,
        kind: TensorType::Q8_0,
        layers: 1,
        tied: true,
        seed: 5,
    };
    let file = Gguf::read(tiny.writer().finish().into()).unwrap();
    // the CPU alone: plugins that lie beside the test program may offer devices that compute in another order
    let cpu = polychip::Runtime::builder().only_given_folders();
    let cpu = cpu.build().expect("the CPU needs no library");
    let options = Options::new()
        .runtime(&cpu)
        .policy(polychip::Policy::latency().threads(1));
    LanguageModel::of("tiny", file, options).unwrap()
}

struct Desk {
    queue: Arc<Queue>,
    rounds: Rounds,
}

impl Desk {
    /// Rounds for so many answers, with memory for `sequences` of `positions` each.
    fn new(active: usize, (sequences, positions): (u64, usize), patience: Duration) -> Desk {
        let model = model();
        let metrics = Metrics::new();
        let queue = Arc::new(Queue::new(active, 10, metrics.clone()));
        let budget = sequences * need(&model, &CHUNKS, positions);
        let options = crate::Options::new().max_active(active).patience(patience);
        let rounds = Rounds::new(&model, Arc::clone(&queue), metrics, budget, &options);
        Desk { queue, rounds }
    }

    fn ask(&self, prompt: std::ops::Range<u32>, max_tokens: usize) -> Events {
        self.ask_as(Owner::default(), true, prompt, max_tokens)
    }

    fn ask_as(
        &self,
        owner: Owner,
        may_reuse: bool,
        prompt: std::ops::Range<u32>,
        max_tokens: usize,
    ) -> Events {
        let task = Task {
            may_reuse,
            owner,
            holds: None,
            grammar_param: "response_format",
            prompt: prompt.collect(),
            wanted: Generate {
                ignore_end: true,
                ..Generate::greedy(max_tokens)
            },
        };
        let (job, events) = job(task, Instant::now());
        self.queue.push(job).unwrap();
        events
    }

    fn round(&mut self) -> bool {
        self.rounds.admit();
        self.rounds.round()
    }

    /// Tokens of the answers in the making, those that came first before.
    fn tokens(&self) -> Vec<usize> {
        let active = self.rounds.active.iter();
        active.map(|active| active.generation.tokens().len()).collect()
    }
}

/// What there is of an answer.
fn drain(events: &mut Events) -> Vec<Event> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let mut found = Vec::new();
    runtime.block_on(async {
        let now = Duration::from_millis(1);
        while let Ok(event) = tokio::time::timeout(now, events.next()).await {
            let is_last = !matches!(event, Event::Piece(_));
            found.push(event);
            if is_last {
                break;
            }
        }
    });
    found
}

#[test]
fn long_prompt_does_not_block_others() {
    let mut desk = Desk::new(3, (20, 250), Duration::from_secs(60));
    let _first = desk.ask(0..8, 30);
    let _second = desk.ask(8..16, 30);
    desk.round();
    assert_eq!(desk.tokens(), [1, 1]);
    let _long = desk.ask(0..250, 5);
    let mut read = Vec::new();
    for round in 1..=3 {
        desk.round();
        assert_eq!(desk.tokens()[..2], [1 + round; 2]);
        read.push(desk.rounds.active[2].generation.sequence().len());
    }
    // the second chunk is one of 128 rows that are not all needed
    assert_eq!((&read[..], desk.tokens()[2]), (&[128, 250, 251][..], 2));
}

#[test]
fn prompts_are_processed_in_alternation() {
    let mut desk = Desk::new(3, (20, 250), Duration::from_secs(60));
    let asked = [desk.ask(0..250, 2), desk.ask(1..250, 2), desk.ask(2..10, 2)];
    for _ in 0..3 {
        desk.round();
    }
    // the third has its first token after three chunks, though two long prompts came before
    let read = |index: usize| desk.rounds.active[index].generation.sequence().len();
    assert_eq!((read(0), read(1), read(2)), (128, 128, 8));
    assert_eq!(desk.tokens(), [0, 0, 1]);
    drop(asked);
    assert!(desk.round());
    assert!(desk.rounds.active.is_empty());
}

#[test]
fn stalled_client_blocks_only_its_own_answer() {
    let mut desk = Desk::new(2, (20, 250), Duration::from_millis(50));
    let mut slow = desk.ask(0..5, 400);
    let mut quick = desk.ask(10..15, 300);
    let mut read = 0;
    desk.round();
    while desk.rounds.active.len() == 2 && desk.round() {
        read += drain(&mut quick).len();
    }
    // a token is often no whole character: pieces are fewer than tokens
    assert!(read > 64, "{read}");
    let started = Instant::now();
    while !desk.rounds.active.is_empty() {
        desk.round();
        assert!(started.elapsed() < Duration::from_secs(60));
        drain(&mut quick);
    }
    let events = drain(&mut slow);
    assert_eq!(events.len(), 65);
    assert!(
        matches!(&events[64], Event::Failed(problem) if problem.json()["error"]["code"] == "slow_reader"),
        "{:?}",
        events[64]
    );
}

#[test]
fn requests_wait_for_kv_cache_memory() {
    // two answers of 100 positions fit, a third one waits; a single one may need more
    let mut desk = Desk::new(8, (2, 100), Duration::from_secs(60));
    let mut first = desk.ask(0..50, 40);
    let _second = desk.ask(50..100, 50);
    let _third = desk.ask(100..150, 50);
    desk.round();
    assert_eq!(desk.rounds.active.len(), 2);
    while desk.rounds.active.len() == 2 {
        desk.round();
    }
    assert!(matches!(drain(&mut first).last(), Some(Event::Ended(_))));
    desk.round();
    assert_eq!(desk.rounds.active.len(), 2);
    assert!(desk.rounds.pool.bytes() <= 2 * need(&model(), &CHUNKS, 100));

    let mut alone = Desk::new(8, (1, 100), Duration::from_secs(60));
    let _large = alone.ask(0..250, 200);
    alone.round();
    assert_eq!(alone.rounds.active.len(), 1);
}

#[test]
fn common_prefixes_share_the_kv_cache() {
    let mut desk = Desk::new(4, (20, 250), Duration::from_secs(60));
    let mut first = desk.ask(0..100, 300);
    while desk.tokens().first().is_none_or(|tokens| *tokens < 3) {
        desk.round();
    }
    // while the first is answered
    let mut second = desk.ask(0..90, 3);
    desk.round();
    let usage = desk.rounds.active[1].usage();
    assert_eq!((usage.prompt, usage.reused), (90, 89));
    while desk.rounds.active.len() == 2 {
        desk.round();
    }
    // its answer continues its own sequence, which then is the longest prefix for a third prompt
    let mut third = desk.ask(0..90, 1);
    desk.round();
    let Some(Event::Ended(ended)) = drain(&mut third).pop() else {
        panic!("it is one token");
    };
    assert_eq!(ended.usage.reused, 89);
    assert!(matches!(drain(&mut second).last(), Some(Event::Ended(_))));
    while !desk.rounds.active.is_empty() {
        desk.round();
        drain(&mut first);
    }
}

/// A request of another key.
fn other() -> Owner {
    Owner {
        key: Some(1),
        cache_key: None,
    }
}

/// Tokens that an answer of one token found read.
fn reused(desk: &mut Desk, mut events: Events) -> usize {
    while desk.round() {}
    match drain(&mut events).pop() {
        Some(Event::Ended(ended)) => ended.usage.reused,
        other => panic!("it is one token: {other:?}"),
    }
}

#[test]
fn prompts_are_shared_within_a_key_alone() {
    let mut desk = Desk::new(4, (20, 250), Duration::from_secs(60));
    let own = desk.ask(0..100, 1);
    assert_eq!(reused(&mut desk, own), 0);
    for (owner, expected) in [(other(), 0), (other(), 99), (Owner::default(), 99)] {
        let events = desk.ask_as(owner, true, 0..100, 1);
        assert_eq!(reused(&mut desk, events), expected, "{owner:?}");
    }
    // and while another key's answer is being made
    let _long = desk.ask(120..220, 300);
    desk.round();
    let foreign = desk.ask_as(other(), true, 120..220, 300);
    desk.round();
    assert_eq!(desk.rounds.active[1].usage().reused, 0);
    drop(foreign);
}

#[test]
fn evicted_memory_of_another_key_reveals_nothing() {
    // room for one sequence: the second answer takes the first one's memory
    let mut desk = Desk::new(1, (1, 110), Duration::from_secs(60));
    let own = desk.ask(0..100, 1);
    assert_eq!(reused(&mut desk, own), 0);
    // fewer common tokens than are worth a copy
    let foreign = desk.ask_as(other(), true, 0..10, 1);
    assert_eq!(reused(&mut desk, foreign), 0);
}

#[test]
fn prompt_that_must_not_be_cached_is_not() {
    let mut desk = Desk::new(4, (20, 250), Duration::from_secs(60));
    let secret = desk.ask_as(Owner::default(), false, 0..100, 1);
    assert_eq!(reused(&mut desk, secret), 0);
    assert_eq!(desk.rounds.pool.bytes(), 0);
    let guess = desk.ask(0..100, 1);
    assert_eq!(reused(&mut desk, guess), 0);
    // nor while it is being answered
    let _secret = desk.ask_as(Owner::default(), false, 120..220, 300);
    desk.round();
    let _guess = desk.ask(120..220, 300);
    desk.rounds.admit();
    desk.rounds.read();
    assert_eq!(desk.rounds.active[1].usage().reused, 0);
}

#[test]
fn concurrent_common_prefix_is_processed_once() {
    let mut desk = Desk::new(4, (20, 250), Duration::from_secs(60));
    let _asked: Vec<Events> = (0..4).map(|index| desk.ask(0..100 + index, 9)).collect();
    desk.round();
    desk.round();
    // the first one's chunk, then copies and what is left
    let active = &desk.rounds.active;
    let reused: Vec<usize> = active.iter().map(|active| active.usage().reused).collect();
    assert_eq!(
        (reused, desk.tokens()),
        (vec![0, 100, 101, 102], vec![2, 2, 2, 1])
    );
}

#[test]
fn thread_exits_when_the_queue_is_closed_and_empty() {
    let desk = Desk::new(2, (20, 250), Duration::from_secs(60));
    let mut events = desk.ask(0..5, 5);
    desk.queue.enter(Phase::Closing);
    let (sender, receiver) = oneshot::channel();
    desk.rounds.run(sender);
    receiver.blocking_recv().unwrap();
    assert!(matches!(drain(&mut events).last(), Some(Event::Ended(_))));
    assert_eq!(desk.queue.phase(), Phase::Ended);

    let desk = Desk::new(2, (20, 250), Duration::from_secs(60));
    let mut events = desk.ask(0..5, 5);
    desk.queue.enter(Phase::GivenUp);
    desk.rounds.run(oneshot::channel().0);
    assert!(matches!(&drain(&mut events)[..], [Event::Failed(_)]));
}

/// The text of an answer, and its end.
fn text(events: Vec<Event>) -> (String, Ended) {
    let mut text = String::new();
    for event in events {
        match event {
            Event::Piece(piece) => text.push_str(&piece.text),
            Event::Ended(ended) => {
                text.push_str(&ended.rest.text);
                return (text, ended);
            }
            Event::Failed(problem) => panic!("{problem:?}"),
        }
    }
    panic!("it has not ended");
}

#[test]
fn concurrent_answers_match_single_answers() {
    let prompts: Vec<std::ops::Range<u32>> = (0..7).map(|index| index..20 + 9 * index).collect();
    let alone: Vec<(String, Ended)> = prompts
        .iter()
        .map(|prompt| {
            let mut desk = Desk::new(1, (20, 250), Duration::from_secs(60));
            let mut events = desk.ask(prompt.clone(), 12 + prompt.start as usize * 5);
            while desk.round() {}
            text(drain(&mut events))
        })
        .collect();
    // they come one after the other, end at different times, and one hangs up in the middle
    let mut desk = Desk::new(8, (80, 250), Duration::from_secs(60));
    let mut asked = Vec::new();
    let gone = desk.ask(300..340, 400);
    for prompt in &prompts {
        asked.push(desk.ask(prompt.clone(), 12 + prompt.start as usize * 5));
        desk.round();
    }
    drop(gone);
    while desk.round() {}
    for (mut events, alone) in asked.into_iter().zip(alone) {
        assert_eq!(text(drain(&mut events)), alone);
    }
    let metrics = desk.rounds.metrics.text();
    let of = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse::<f64>().unwrap()
    };
    let (answers, steps) = (
        of("polychip_batch_answers_sum"),
        of("polychip_batch_answers_count"),
    );
    assert!(answers > 3.0 * steps, "{answers} tokens by {steps} steps");
}
