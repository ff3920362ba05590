//! Settings that the app changed while sessions run.
//!
//! Invariant: a change holds for all sessions of a provider's parts, also for those that are made later: for nodes
//! whose inputs get their rank from a run.
//!
//! Not here: names and values (`polychip`'s `Session::set`).

use std::sync::{Mutex, MutexGuard, PoisonError};

use polychip::{Session, settings};

use crate::failure::{Failure, Result};

/// The latest change of each setting.
#[derive(Debug, Default)]
pub(crate) struct Changes(Mutex<Vec<(String, String)>>);

impl Changes {
    fn lock(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a setting of these sessions, and of those that are made later.
    ///
    /// # Errors
    /// A session refuses the change; later sessions are then made without it.
    pub(crate) fn set(&self, name: &str, value: &str, sessions: impl FnOnce() -> Vec<Session>) -> Result<()> {
        let mut changes = self.lock();
        let sessions = sessions();
        if sessions.is_empty() && !settings::of_session().any(|known| known == name) {
            let known: Vec<&str> = settings::of_session().collect();
            return Err(Failure::argument(format!(
                "session setting {name:?} cannot change while it runs; these can: {}",
                known.join(", ")
            )));
        }
        sessions.iter().try_for_each(|session| session.set(name, value))?;
        changes.retain(|(other, _)| other != name);
        changes.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Changes the settings of a new session, and enters it among those that later changes find. Calls `refused` with
    /// the reason for each change that the session does not support.
    pub(crate) fn enter<T>(
        &self,
        session: &Session,
        enter: impl FnOnce() -> T,
        refused: impl Fn(polychip::Error),
    ) -> T {
        let changes = self.lock();
        for (name, value) in &*changes {
            if let Err(error) = session.set(name, value) {
                refused(error);
            }
        }
        enter()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use polychip::{Policy, Runtime};
    use polychip_graph::onnx::messages::{
        Dimension, DimensionValue, Graph, Model, Node, OperatorSetId, Shape, TensorKind, Type, TypeValue,
        ValueInfo,
    };

    use super::*;

    fn session() -> Session {
        let port = |name: &str| ValueInfo {
            name: name.to_owned(),
            r#type: Some(Type {
                value: Some(TypeValue::Tensor(TensorKind {
                    elem_type: 1,
                    shape: Some(Shape {
                        dim: vec![Dimension {
                            value: Some(DimensionValue::Value(3)),
                        }],
                    }),
                })),
            }),
        };
        let model = Model {
            ir_version: Some(8),
            graph: Some(Graph {
                name: "neg".to_owned(),
                node: vec![Node {
                    op_type: "Neg".to_owned(),
                    input: vec!["x".to_owned()],
                    output: vec!["y".to_owned()],
                    ..Node::default()
                }],
                input: vec![port("x")],
                output: vec![port("y")],
                ..Graph::default()
            }),
            opset_import: vec![OperatorSetId {
                version: 17,
                ..OperatorSetId::default()
            }],
            ..Model::default()
        };
        let runtime = Runtime::builder().only_given_folders().build().unwrap();
        let model = runtime.load_bytes("neg.onnx", model.to_bytes()).unwrap();
        runtime.session(&model, Policy::latency().threads(1)).unwrap()
    }

    #[test]
    fn changes_hold_for_sessions_that_are_made_later() {
        let changes = Changes::default();
        let words = |name: &str| changes.set(name, "1", Vec::new).unwrap_err().words;
        assert!(words("threads").contains("these can: "), "{}", words("threads"));
        let refused = RefCell::new(Vec::new());
        let enter = |session: &Session| {
            let refuse = |error: polychip::Error| refused.borrow_mut().push(error.to_string());
            changes.enter(session, || session.report().deadline_ns, refuse)
        };
        let (first, second) = (session(), session());
        assert_eq!(enter(&first), None);
        for value in ["500", "700"] {
            changes.set("deadline", value, || vec![first.clone()]).unwrap();
        }
        assert_eq!(first.report().deadline_ns, Some(700_000_000));
        assert_eq!(enter(&second), Some(700_000_000));
        assert!(refused.borrow().is_empty());
        // no session is there to tell that none is governed
        changes.set("max-power", "5", Vec::new).unwrap();
        enter(&second);
        assert!(refused.borrow()[0].contains("not governed"), "{refused:?}");
        assert!(changes.set("max-power", "6", || vec![first]).is_err());
    }
}
