//! The work: answers outside the group, and the mixed load in it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use polychip::{EventKind, Learn, Policy, Runtime, Session};
use polychip_llm::{Generate, LanguageModel, Options, TokenId};

use crate::group;
use crate::models::{PRODUCTS, column, factor, side};
use crate::settings::{SESSIONS, Settings};

/// Conversations of the language model, tokens of their prompts and of each answer.
const CONVERSATIONS: usize = 3;
const PROMPT: usize = 8;
const ANSWER: usize = 4;
/// Rounds of parking and resuming before the load.
const ROUNDS: usize = 7;
/// How long resuming 100 MB may take.
const LONGEST_MS: f64 = 300.0;
const PATIENCE: Duration = Duration::from_secs(600);

fn policy() -> Policy {
    Policy::latency().devices(["cpu"]).learn(Learn::No)
}

fn language_model(settings: &Settings, runtime: &Runtime) -> Result<LanguageModel> {
    let options = Options::new().runtime(runtime).policy(policy()).capacity(64);
    Ok(LanguageModel::open(settings.language_model(), options)?)
}

fn prompt(conversation: usize) -> Vec<TokenId> {
    (0..PROMPT)
        .map(|at| 40 + (conversation * 31 + at * 17) as TokenId % 90)
        .collect()
}

/// The answers of the language model in memory, for the process in the group to compare.
pub(crate) fn expect(settings: &Settings) -> Result<()> {
    if settings.answers().exists() {
        return Ok(());
    }
    let runtime = Runtime::builder().only_given_folders().memory_limit(u64::MAX);
    let model = language_model(settings, &runtime.build()?)?;
    let mut lines = Vec::new();
    for conversation in 0..CONVERSATIONS {
        let answer = model
            .sequence()?
            .generate(&prompt(conversation), &answer(), &mut |_| {
                ControlFlow::Continue(())
            })?;
        let tokens: Vec<String> = answer.tokens.iter().map(TokenId::to_string).collect();
        lines.push(tokens.join(" "));
    }
    std::fs::write(settings.answers(), lines.join("\n"))?;
    Ok(())
}

fn answer() -> Generate {
    Generate {
        ignore_end: true,
        ..Generate::greedy(ANSWER)
    }
}

fn expected(settings: &Settings) -> Result<Vec<Vec<TokenId>>> {
    let text = std::fs::read_to_string(settings.answers())?;
    let line = |line: &str| {
        let tokens = line.split_whitespace().map(str::parse);
        tokens.collect::<Result<Vec<TokenId>, _>>()
    };
    Ok(text.lines().map(line).collect::<Result<_, _>>()?)
}

/// What a session's model makes of a row.
fn product(x: &[f32], model: usize) -> Vec<f32> {
    let side = x.len();
    let mut row = x.to_vec();
    for product in 0..PRODUCTS {
        let mut next = vec![0.0; side];
        for (at, value) in row.iter().enumerate() {
            next[column(at, side, model, product)] += value * factor(model);
        }
        row = next;
    }
    row
}

/// Runs a session on a row that depends on `round`, and checks the output.
fn check(session: &Session, model: usize, side: usize, round: usize) -> Result<()> {
    let x: Vec<f32> = (0..side).map(|at| ((at * 3 + round) % 64) as f32).collect();
    let mut input = session.input("x")?;
    input.write(&x)?;
    let outputs = session.submit_blocking(&[&input])?.wait(PATIENCE)?;
    let view = outputs.at(0)?;
    ensure!(
        view.values::<f32>()?[..] == product(&x, model)[..],
        "session {model}, run {round}: the output is wrong"
    );
    Ok(())
}

/// The load in the group.
pub(crate) fn run(settings: &Settings) -> Result<()> {
    if let Some(group) = &settings.group {
        group::join(group)?;
    }
    let folder = settings.folder.display().to_string();
    let runtime = Runtime::builder()
        .only_given_folders()
        .memory_limit(settings.limit_mib << 20)
        .configure("cpu", "weights-folder", folder)
        // those of the language model, not those of the sessions
        .configure(
            "cpu",
            "weights-file-bytes",
            (settings.session_mib << 21).to_string(),
        )
        .build()?;
    let side = side(settings.session_mib);
    // the language model first: packing its weights takes the longest
    let start = Instant::now();
    let model = language_model(settings, &runtime)?;
    let expected = expected(settings)?;
    for (conversation, expected) in expected.iter().enumerate() {
        converse(&model, &mut model.sequence()?, conversation, expected)?;
    }
    println!(
        "language model of {} MiB: first answers after {:.1} s, {} held",
        model.file_bytes() >> 20,
        start.elapsed().as_secs_f64(),
        runtime.memory()
    );
    let sessions: Vec<Session> = (0..SESSIONS)
        .map(|index| {
            let model = runtime.load(settings.session_model(index))?;
            runtime.session(&model, policy().threads(1))
        })
        .collect::<Result<_, polychip::Error>>()?;
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        for (index, session) in sessions.iter().enumerate() {
            session.park()?;
            let start = Instant::now();
            session.resume()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            check(session, index, side, round)?;
        }
    }
    times.sort_by(f64::total_cmp);
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    println!(
        "resume of {} MiB before the load: median {median:.0} ms, slowest {slowest:.0} ms of {}",
        settings.session_mib,
        times.len()
    );
    let before = runtime.memory().parked;
    let done = mixed(settings, &runtime, &sessions, &model, &expected, side)?;
    let memory = runtime.memory();
    let parked = memory.parked - before;
    println!("{done}; {parked} parkings");
    for (index, session) in sessions.iter().enumerate() {
        let report = session.report();
        let (parked, resumed) = (report.count(EventKind::Parked), report.count(EventKind::Resumed));
        println!("session {index}: {parked} parked, {resumed} resumed");
        let parkings = report
            .events
            .iter()
            .filter(|event| event.kind == EventKind::Parked);
        parkings.for_each(|event| println!("  {event}"));
    }
    println!("account: {memory}");
    for owner in &memory.sessions {
        println!("  {} MiB {}", owner.bytes >> 20, owner.model);
    }
    if let Some(group) = &settings.group {
        match group::peak(group) {
            Some(peak) => println!("the kernel counts a peak of {} MiB for the group", peak >> 20),
            None => println!("the kernel does not report the group's peak"),
        }
    }
    ensure!(
        parked > 0,
        "nothing was parked: the limit is too high for this load"
    );
    let most = LONGEST_MS * (settings.session_mib as f64 / 100.0).max(1.0);
    if median > most && !cfg!(debug_assertions) {
        bail!("resuming takes {median:.0} ms, more than {most:.0} ms");
    }
    Ok(())
}

/// One turn of a conversation.
fn converse(
    model: &LanguageModel,
    sequence: &mut polychip_llm::Sequence,
    conversation: usize,
    expected: &[TokenId],
) -> Result<()> {
    let prompt = prompt(conversation);
    let said = sequence.generate(&prompt, &answer(), &mut |_| ControlFlow::Continue(()))?;
    ensure!(
        said.tokens == expected,
        "{}, conversation {conversation}: {:?} instead of {expected:?}",
        model.path().display(),
        said.tokens
    );
    sequence.rest();
    Ok(())
}

/// Runs all sessions with pauses, and the language model, for the given time.
fn mixed(
    settings: &Settings,
    runtime: &Runtime,
    sessions: &[Session],
    model: &LanguageModel,
    expected: &[Vec<TokenId>],
    side: usize,
) -> Result<String> {
    let until = Instant::now() + Duration::from_secs_f64(settings.minutes * 60.0);
    let (runs, turns, longest_us) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| -> Result<()> {
        let mut threads = Vec::new();
        for (index, session) in sessions.iter().enumerate() {
            let (runs, longest_us) = (&runs, &longest_us);
            threads.push(scope.spawn(move || -> Result<()> {
                let mut round = index * 1000;
                while Instant::now() < until {
                    // a burst, and a pause in which others get the memory
                    for _ in 0..10 {
                        let start = Instant::now();
                        check(session, index, side, round)?;
                        let took = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
                        longest_us.fetch_max(took, Ordering::Relaxed);
                        runs.fetch_add(1, Ordering::Relaxed);
                        round += 1;
                    }
                    std::thread::sleep(Duration::from_millis(150 * (index as u64 + 1)));
                }
                Ok(())
            }));
        }
        let turns = &turns;
        threads.push(scope.spawn(move || -> Result<()> {
            let mut sequences = (0..CONVERSATIONS)
                .map(|_| model.sequence())
                .collect::<Result<Vec<_>, _>>()?;
            while Instant::now() < until {
                for (conversation, sequence) in sequences.iter_mut().enumerate() {
                    converse(model, sequence, conversation, &expected[conversation])?;
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        }));
        for thread in threads {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        Ok(())
    })
    .with_context(|| format!("held: {}", runtime.memory()))?;
    Ok(format!(
        "{} runs of sessions and {} turns of conversations, all right; the slowest run, with its resume, took {} ms",
        runs.into_inner(),
        turns.into_inner(),
        longest_us.into_inner() / 1000
    ))
}
