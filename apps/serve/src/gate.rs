//! Fair admission to a step that only a few requests may take at once: visitors alternate, whatever each of them sends.
//!
//! Invariants:
//! 1. Of the requests that wait, those of different visitors are admitted in turn; those of one visitor in their order.
//! 2. A request whose client has gone waits no longer and holds no place.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::problem::Problem;

/// Who sends a request: the key, by its index, and the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visitor {
    pub(crate) key: Option<usize>,
    pub(crate) address: Option<IpAddr>,
}

/// Lets a few requests in at once.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    /// Most requests that wait.
    most: usize,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// By visitor; whose turn is next comes first.
    waiting: VecDeque<(Visitor, VecDeque<oneshot::Sender<Pass>>)>,
}

/// Leave to take the step, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pass(Option<Arc<Gate>>);

impl Gate {
    pub(crate) fn new(at_once: usize, waiting: usize) -> Arc<Gate> {
        Arc::new(Gate {
            state: Mutex::new(State {
                free: at_once,
                waiting: VecDeque::new(),
            }),
            most: waiting,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the visitor's turn.
    ///
    /// # Errors
    /// Too many requests wait.
    pub(crate) async fn enter(self: &Arc<Gate>, visitor: Visitor) -> Result<Pass, Problem> {
        let turn = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Ok(Pass(Some(Arc::clone(self))));
            }
            for (_, requests) in &mut state.waiting {
                requests.retain(|request| !request.is_closed());
            }
            state.waiting.retain(|(_, requests)| !requests.is_empty());
            let waiting = state.waiting.iter().map(|(_, requests)| requests.len()).sum();
            if waiting >= self.most {
                return Err(Problem::full(waiting));
            }
            let (sender, turn) = oneshot::channel();
            match state.waiting.iter_mut().find(|(known, _)| *known == visitor) {
                Some((_, requests)) => requests.push_back(sender),
                None => state.waiting.push_back((visitor, VecDeque::from([sender]))),
            }
            turn
        };
        turn.await
            .map_err(|_| Problem::internal("a request has lost its turn"))
    }
}

impl State {
    /// The request whose turn is next.
    fn next(&mut self) -> Option<oneshot::Sender<Pass>> {
        while let Some((visitor, mut requests)) = self.waiting.pop_front() {
            let next = std::iter::from_fn(|| requests.pop_front()).find(|request| !request.is_closed());
            if !requests.is_empty() {
                self.waiting.push_back((visitor, requests));
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let Some(gate) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = gate.state();
                let next = state.next();
                if next.is_none() {
                    state.free += 1;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(Pass(Some(Arc::clone(&gate)))) {
                Ok(()) => return,
                // its client has gone just now
                Err(mut pass) => pass.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn visitor(key: usize) -> Visitor {
        Visitor {
            key: Some(key),
            address: None,
        }
    }

    #[tokio::test]
    async fn visitors_take_turns_and_those_gone_hold_no_place() {
        let gate = Gate::new(1, 5);
        let order = Arc::new(Mutex::new(Vec::new()));
        let pass = gate.enter(visitor(0)).await.unwrap();
        let wait = |key: usize, name: &'static str| {
            let (gate, order) = (Arc::clone(&gate), Arc::clone(&order));
            async move {
                let _pass = gate.enter(visitor(key)).await.unwrap();
                order.lock().unwrap().push(name);
            }
        };
        let mut gone = Box::pin(wait(1, "gone"));
        // it waits from its first poll on
        assert!((&mut gone).now_or_never().is_none());
        let mut waiting: Vec<_> = [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1")]
            .map(|(key, name)| Box::pin(wait(key, name)))
            .into();
        for one in &mut waiting {
            assert!(one.now_or_never().is_none());
        }
        assert_eq!(gate.enter(visitor(3)).await.unwrap_err().status(), 429);
        drop(gone);
        drop(pass);
        futures_util::future::join_all(waiting).await;
        assert_eq!(*order.lock().unwrap(), ["a1", "b1", "a2", "a3"]);
        assert!(gate.state().waiting.is_empty() && gate.state().free == 1);
    }
}
