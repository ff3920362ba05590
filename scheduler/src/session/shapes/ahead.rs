//! Plans that were compiled ahead for some sizes of a model with open ones.
//!
//! Invariant: they are kept as those that runs asked for, and go as those do. Not here: what is stale (`precompiled`).

use std::time::Instant;

use super::{Kind, Open, PLANS, Shapes};
use crate::error::{Error, ErrorKind, Result};
use crate::precompiled::Precompiled;
use crate::session::buckets::Sizes;
use crate::session::shapes::Special;

impl Shapes {
    /// Adds what was compiled ahead for some sizes.
    pub(crate) fn add(&self, made: &Precompiled) -> Result<()> {
        match &self.kind {
            Kind::Known(_) => Ok(()),
            Kind::Open(open) => open.add(made),
        }
    }
}

impl Open {
    /// Keeps what was compiled ahead for some sizes as what was made for a run of them.
    fn add(&self, made: &Precompiled) -> Result<()> {
        let named: Vec<&String> = made.sizes().keys().collect();
        let mut names: Vec<&String> = self.names.iter().collect();
        names.sort_unstable();
        if named != names {
            let words = format!(
                "{}: what was compiled ahead has sizes of {named:?}, and {names:?} are open",
                self.model.path().display()
            );
            return Err(Error::new(ErrorKind::BadPlan, words));
        }
        let sizes: Sizes = self.names.iter().map(|name| made.sizes()[name]).collect();
        let (number, start) = (self.next_number(), Instant::now());
        let loaded = made.loaded(&self.shared, &self.model, &self.policy)?;
        let policy = self.policy.clone();
        let special = Special::loaded(self.id, &self.shared, loaded, policy, number * PLANS)?;
        let made = self.made(special, start);
        let mut kept = self.lock();
        kept.add(&sizes, made, false);
        let dropped = kept.shrink(self.policy.most_kept_bytes());
        drop(kept);
        // without the lock: what is let go of waits for its last runs
        drop(dropped);
        Ok(())
    }
}
