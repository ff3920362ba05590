//! What a file states of experts.

use super::{Experts, Keys, Routing};
use crate::{Error, Result};

/// Most experts of a layer; bounds the work on a file that states too many.
const MAX_EXPERTS: u32 = 1024;

/// Codes in files of the router's functions that are supported.
const SOFTMAX: u32 = 1;
const SOFTMAX_OF_CHOSEN: u32 = 3;

impl Keys<'_> {
    /// The experts of each layer, if the architecture and the file have any.
    pub(super) fn experts(&self) -> Result<Option<Experts>> {
        let count_key = self.key("expert_count");
        let count = self.file.integer(&count_key)?.filter(|&count| count != 0);
        let (Some(routing), Some(count)) = (self.row.experts, count) else {
            return Ok(None);
        };
        if count > MAX_EXPERTS {
            return Err(Error::unsupported(format!(
                "key {count_key:?} is {count}; the supported maximum is {MAX_EXPERTS}"
            )));
        }
        let used = self.needed_size("expert_used_count")?;
        if used > count {
            return Err(Error::config(format!(
                "key {:?} is {used}, more than the {count} experts",
                self.key("expert_used_count")
            )));
        }
        let gating = self.key("expert_gating_func");
        match self.file.integer(&gating)? {
            None | Some(SOFTMAX | SOFTMAX_OF_CHOSEN) => {}
            Some(other) => {
                return Err(Error::unsupported(format!(
                    "key {gating:?} is {other}: only routers with a softmax ({SOFTMAX} and {SOFTMAX_OF_CHOSEN}) are supported"
                )));
            }
        }
        let scale = self.key("expert_weights_scale");
        match self.file.float(&scale)? {
            None | Some(0.0 | 1.0) => {}
            Some(other) => {
                return Err(Error::unsupported(format!(
                    "key {scale:?} is {other}: a factor on the weights of experts is not supported"
                )));
            }
        }
        let norm = self.key("expert_weights_norm");
        match self.file.flag(&norm)? {
            Some(sums_to_one) if sums_to_one != (routing == Routing::OfChosen) => {
                return Err(Error::unsupported(format!(
                    "key {norm:?} is {sums_to_one}, which is not supported for architecture {}",
                    self.architecture
                )));
            }
            _ => {}
        }
        let inner = match self.size("expert_feed_forward_length")? {
            Some(inner) => inner,
            None => self.needed_size("feed_forward_length")?,
        };
        let shared = if self.row.shared_expert {
            Some(self.needed_size("expert_shared_feed_forward_length")?)
        } else {
            None
        };
        Ok(Some(Experts {
            count,
            used,
            feed_forward: inner,
            routing,
            has_bias: self.row.expert_bias,
            shared,
        }))
    }
}
