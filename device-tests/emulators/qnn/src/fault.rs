//! Faults on demand: `call:when=effect`, several joined by `;`.
//!
//! `call` is `execute`, `finalize`, `validate`, `addNode`, `backendCreate`, `deviceCreate`, `contextCreate`,
//! `createFromBinary`, `getBinary` or `graphCreate`. `when` is a number (the n-th call, from 1), `n..` (from the
//! n-th on), `*` (each) or `op=NAME` (each whose graph or node has that op). `effect` is a code or `error:CODE`;
//! `ssr` (the subsystem restarts: this call fails, and all of its device until device and context are created
//! anew); `hang` (until the rules are replaced) or `hang:200ms`; `slow:50ms`; `wrong-size` (execute writes only
//! half of each output).
//!
//! Invariants:
//! 1. Calls are counted from when the rules were set, each rule for itself.
//! 2. A malformed rule sets nothing.

use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use crate::code::Code;

/// Environment variable with fault rules that apply from the start.
const VARIABLE: &str = "POLYCHIP_QNN_FAULTS";

/// A call at which faults can be injected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Execute,
    Finalize,
    Validate,
    AddNode,
    BackendCreate,
    DeviceCreate,
    ContextCreate,
    CreateFromBinary,
    GetBinary,
    GraphCreate,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum When {
    At(u64),
    From(u64),
    Op(String),
}

/// Effect of a rule on a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// It fails with this code.
    Fail(Code),
    /// The subsystem restarts.
    Restart,
    /// It takes longer.
    Wait(Wait),
    /// It writes half of each output.
    WrongSize,
}

/// Additional time of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// This long.
    For(Duration),
    /// Until the rules of this version are replaced.
    Whole(u64),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Rule {
    call: Call,
    when: When,
    effect: Effect,
    seen: u64,
}

#[derive(Default)]
struct Rules {
    list: Vec<Rule>,
    /// Number of replacements of the rules, which a hanging call compares.
    version: u64,
}

static RULES: LazyLock<Mutex<Rules>> = LazyLock::new(|| {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let list = parse(&text).unwrap_or_else(|rule| {
        eprintln!("{VARIABLE}: {rule:?} is not call:when=effect; no fault is injected");
        Vec::new()
    });
    Mutex::new(Rules { list, version: 0 })
});
static REPLACED: Condvar = Condvar::new();

/// Replaces the rules and returns their number, or the rule that is malformed.
pub(crate) fn set(text: &str) -> Result<usize, String> {
    let list = parse(text)?;
    let count = list.len();
    let mut rules = RULES.lock().unwrap_or_else(PoisonError::into_inner);
    rules.list = list;
    rules.version += 1;
    REPLACED.notify_all();
    Ok(count)
}

/// Counts a call and returns its effect: that of the first rule that applies. `has_op` tells whether its graph or
/// node has an op of a name.
pub(crate) fn at(call: Call, has_op: impl Fn(&str) -> bool) -> Option<Effect> {
    let mut rules = RULES.lock().unwrap_or_else(PoisonError::into_inner);
    let version = rules.version;
    let mut effect = None;
    for rule in rules.list.iter_mut().filter(|rule| rule.call == call) {
        rule.seen += 1;
        let applies = match &rule.when {
            When::At(n) => rule.seen == *n,
            When::From(n) => rule.seen >= *n,
            When::Op(name) => has_op(name),
        };
        if applies && effect.is_none() {
            // rules may be replaced before the call begins to wait
            effect = Some(match rule.effect {
                Effect::Wait(Wait::Whole(_)) => Effect::Wait(Wait::Whole(version)),
                other => other,
            });
        }
    }
    effect
}

/// Spends the time of [`Effect::Wait`].
pub(crate) fn wait(wait: Wait) {
    match wait {
        Wait::For(time) => std::thread::sleep(time),
        Wait::Whole(version) => {
            let mut rules = RULES.lock().unwrap_or_else(PoisonError::into_inner);
            while rules.version == version {
                rules = REPLACED.wait(rules).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

fn parse(text: &str) -> Result<Vec<Rule>, String> {
    text.split(';')
        .map(str::trim)
        .filter(|rule| !rule.is_empty())
        .map(|rule| parse_rule(rule).ok_or_else(|| rule.to_owned()))
        .collect()
}

fn parse_rule(text: &str) -> Option<Rule> {
    let (call, rest) = text.split_once(':')?;
    let call = match call {
        "execute" => Call::Execute,
        "finalize" => Call::Finalize,
        "validate" => Call::Validate,
        "addNode" => Call::AddNode,
        "backendCreate" => Call::BackendCreate,
        "deviceCreate" => Call::DeviceCreate,
        "contextCreate" => Call::ContextCreate,
        "createFromBinary" => Call::CreateFromBinary,
        "getBinary" => Call::GetBinary,
        "graphCreate" => Call::GraphCreate,
        _ => return None,
    };
    let (when, effect) = rest.rsplit_once('=')?;
    let when = match when.strip_prefix("op=") {
        Some(name) => When::Op(name.to_owned()),
        None if when == "*" => When::From(1),
        None => match when.strip_suffix("..") {
            Some(from) => When::From(from.parse().ok()?),
            None => When::At(when.parse().ok()?),
        },
    };
    let (name, value) = match effect.split_once(':') {
        Some((name, value)) => (name, Some(value)),
        None => (effect, None),
    };
    let time = |text: &str| -> Option<Duration> {
        match text.strip_suffix("ms") {
            Some(count) => Some(Duration::from_millis(count.parse().ok()?)),
            None => Some(Duration::from_secs(text.strip_suffix('s')?.parse().ok()?)),
        }
    };
    let effect = match (name, value) {
        ("ssr", None) => Effect::Restart,
        ("wrong-size", None) => Effect::WrongSize,
        ("hang", None) => Effect::Wait(Wait::Whole(0)),
        ("hang" | "slow", Some(value)) => Effect::Wait(Wait::For(time(value)?)),
        ("error", Some(code)) | (code, None) => Effect::Fail(Code(code.parse().ok().filter(|&c| c != 0)?)),
        _ => return None,
    };
    Some(Rule {
        call,
        when,
        effect,
        seen: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        let rules = parse("execute:3=ssr; finalize:op=Gelu=1002;execute:5=hang:200ms;execute:*=error:6031;execute:2..=slow:1s;execute:1=hang;").unwrap();
        let effects: Vec<Effect> = rules.iter().map(|rule| rule.effect).collect();
        let ms = |n| Effect::Wait(Wait::For(Duration::from_millis(n)));
        let fail = |code| Effect::Fail(Code(code));
        assert_eq!(
            effects,
            [
                Effect::Restart,
                fail(1002),
                ms(200),
                fail(6031),
                ms(1000),
                Effect::Wait(Wait::Whole(0))
            ]
        );
        assert_eq!(rules[1].when, When::Op("Gelu".into()));
        assert_eq!(
            (rules[0].when.clone(), rules[3].when.clone()),
            (When::At(3), When::From(1))
        );
        for bad in [
            "execute",
            "execute:1",
            "dance:1=ssr",
            "execute:x=ssr",
            "execute:1=0",
            "execute:1=slow",
        ] {
            assert_eq!(parse(bad), Err(bad.to_owned()));
        }
    }
}
