//! What a file states of the scaling of position angles.

use super::{Keys, RopeScaling, Yarn};
use crate::{Error, Result};

const LONG: &str = "rope_factors_long.weight";
const BASE: &str = "rope_freqs.weight";

impl Keys<'_> {
    pub(super) fn rope_scaling(&self, context: u32) -> Result<RopeScaling> {
        let key = self.key("rope.scaling.type");
        let factor = match self.positive("rope.scaling.factor")? {
            None => self.positive("rope.scale_linear")?,
            found => found,
        };
        let kind = self.file.text(&key)?;
        if self.file.tensor(LONG).is_some() {
            return match kind {
                None | Some("none" | "longrope") => Ok(RopeScaling::LongShort {
                    original: self
                        .size("rope.scaling.original_context_length")?
                        .unwrap_or(context),
                    magnitude: self.positive("rope.scaling.attn_factor")?.unwrap_or(1.0),
                }),
                Some(other) => Err(Error::unsupported(format!(
                    "position scaling {other:?} (key {key:?}) and tensor {LONG:?} together are not supported"
                ))),
            };
        }
        let factors = self.file.tensor(BASE).is_some();
        match (kind, factor, factors) {
            // a file of the time before the type had a key
            (None, Some(factor), false) if factor != 1.0 => Ok(RopeScaling::Linear(factor)),
            (None | Some("none"), _, false) => Ok(RopeScaling::None),
            (None | Some("none"), None | Some(1.0), true) => Ok(RopeScaling::Factors),
            (Some("linear"), Some(factor), false) => Ok(RopeScaling::Linear(factor)),
            (Some("yarn"), Some(factor), false) => self.yarn(factor),
            (Some(kind @ ("linear" | "yarn")), None, false) => Err(Error::config(format!(
                "key {key:?} is {kind:?}, and key {:?} is missing",
                self.key("rope.scaling.factor")
            ))),
            (Some(other), ..) if !matches!(other, "none" | "linear" | "yarn") => {
                Err(Error::unsupported(format!(
                    "position scaling {other:?} (key {key:?}) is not supported; expected none, linear, yarn, or one of the tensors {BASE} and {LONG}"
                )))
            }
            _ => Err(Error::unsupported(format!(
                "position scaling by both a factor and the tensor {BASE} is not supported"
            ))),
        }
    }

    fn yarn(&self, factor: f32) -> Result<RopeScaling> {
        let original = self.needed_size("rope.scaling.original_context_length")?;
        let fast = self.positive("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0);
        let slow = self.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0);
        if factor < 1.0 || fast <= slow {
            return Err(Error::config(format!(
                "YaRN with factor {factor}, fast from {fast} turns and slow below {slow}: the factor must be at least 1, and fast above slow"
            )));
        }
        let magnitude = 0.1 * factor.ln() + 1.0;
        Ok(RopeScaling::Yarn(Yarn {
            factor,
            original,
            fast,
            slow,
            is_whole: self.row.whole_ramp,
            magnitude: magnitude * self.positive("rope.scaling.attn_factor")?.unwrap_or(1.0),
        }))
    }
}
