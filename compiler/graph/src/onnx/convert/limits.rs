//! Float attributes that became inputs of the data's own type: limits of Clip, value of Pad.

use polychip_ops::AttrValue;

use super::rewrite::Rewrite;
use crate::Error;

/// Before 11 `min` and `max` were attributes.
pub(super) fn clip(rewrite: &mut Rewrite<'_, '_>) -> Result<(), Error> {
    for (slot, attr) in [(1, "min"), (2, "max")] {
        if let Some(AttrValue::Float(limit)) = rewrite.take(attr) {
            let data = rewrite.input(0)?;
            let limit = rewrite.scalar_like(attr, limit, data)?;
            rewrite.set_input(slot, limit);
        }
    }
    Ok(())
}

/// Before 11 `pads` and `value` were attributes.
pub(super) fn pad(rewrite: &mut Rewrite<'_, '_>) -> Result<(), Error> {
    rewrite.ints_to_input("pads", 1);
    if let Some(AttrValue::Float(value)) = rewrite.take("value")
        && value != 0.0
    {
        let data = rewrite.input(0)?;
        let value = rewrite.scalar_like("value", value, data)?;
        rewrite.set_input(2, value);
    }
    Ok(())
}
