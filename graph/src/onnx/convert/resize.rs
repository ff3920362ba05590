//! Resampling: Upsample became Resize, and the rules that older versions implied are now attributes.

use polychip_ops::{Attr, AttrValue, Literal, Op};

use super::rewrite::Rewrite;
use crate::Error;

/// Upsample is Resize by scales, with coordinates that start at the corner.
pub(super) fn upsample(rewrite: &mut Rewrite<'_, '_>) -> Result<(), Error> {
    let scales = match rewrite.take("scales") {
        Some(AttrValue::Floats(scales)) => rewrite.constant("scales", &Literal::f32s(&scales)),
        _ => rewrite.input(1)?,
    };
    if rewrite.node.attributes.str(Attr::Mode) == Some("bilinear") {
        rewrite
            .node
            .attributes
            .set(Attr::Mode, AttrValue::String("linear".into()));
    }
    rewrite.rename(Op::Resize);
    corner_rules(rewrite);
    rewrite.node.inputs.truncate(1);
    rewrite.set_input(2, scales);
    Ok(())
}

/// Before 11 Resize had scales as its second input.
pub(super) fn resize(rewrite: &mut Rewrite<'_, '_>) {
    let scales = rewrite.node.input(1);
    rewrite.node.inputs.truncate(1);
    if let Some(scales) = scales {
        rewrite.set_input(2, scales);
    }
    corner_rules(rewrite);
}

/// Empty `roi` and `scales`, which 11 required where they were not used, are left out. The mode that
/// 11 had for TensorFlow's nearest neighbours, (i + 0.5) / scale, is half a pixel more than `half_pixel`.
pub(super) fn tidy(rewrite: &mut Rewrite<'_, '_>) {
    for slot in [1, 2] {
        if rewrite.is_empty(slot) {
            rewrite.node.inputs[slot] = None;
        }
    }
    while rewrite.node.inputs.last() == Some(&None) {
        rewrite.node.inputs.pop();
    }
    let attributes = &mut rewrite.node.attributes;
    if attributes.str(Attr::CoordinateTransformationMode) == Some("tf_half_pixel_for_nn") {
        let nearest = match attributes.str(Attr::NearestMode) {
            Some("floor") => "round_prefer_ceil",
            Some("round_prefer_floor") | None => "ceil",
            Some(_) => return,
        };
        attributes.set(Attr::NearestMode, AttrValue::String(nearest.into()));
        attributes.set(
            Attr::CoordinateTransformationMode,
            AttrValue::String("half_pixel".into()),
        );
    }
}

fn corner_rules(rewrite: &mut Rewrite<'_, '_>) {
    let attributes = &mut rewrite.node.attributes;
    attributes.set(
        Attr::CoordinateTransformationMode,
        AttrValue::String("asymmetric".into()),
    );
    attributes.set(Attr::NearestMode, AttrValue::String("floor".into()));
}

/// Before 16 the boxes were not moved by half a pixel.
pub(super) fn roi_align(rewrite: &mut Rewrite<'_, '_>) {
    let mode = AttrValue::String("output_half_pixel".into());
    rewrite
        .node
        .attributes
        .set(Attr::CoordinateTransformationMode, mode);
}

/// Before 20 the modes had the names of two dimensions.
pub(super) fn grid_sample(rewrite: &mut Rewrite<'_, '_>) {
    let mode = match rewrite.node.attributes.str(Attr::Mode) {
        Some("bilinear") | None => "linear",
        Some("bicubic") => "cubic",
        Some(_) => return,
    };
    rewrite
        .node
        .attributes
        .set(Attr::Mode, AttrValue::String(mode.into()));
}
