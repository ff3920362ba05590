//! Resampling: Upsample became Resize, and the rules that older versions implied are now attributes.

use polychip_ops::{Attr, AttrValue, Literal, Op};

use super::rewrite::Rewrite;
use crate::Error;
use crate::infer::value_of;

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

/// Before 11 Resize had scales as its second input, and no words for how nearest neighbours are chosen: ONNX's own cases
/// of opset 10 take the one before where an axis grows, the one behind where it shrinks.
pub(super) fn resize(rewrite: &mut Rewrite<'_, '_>) -> Result<(), Error> {
    let scales = rewrite.input(1)?;
    rewrite.node.inputs.truncate(1);
    rewrite.set_input(2, scales);
    corner_rules(rewrite);
    let nearest = rewrite
        .node
        .attributes
        .str(Attr::Mode)
        .is_none_or(|mode| mode == "nearest");
    let values = value_of(rewrite.target.graph, rewrite.target.values, scales).and_then(|v| v.as_f64s());
    let Some(values) = values.filter(|values| nearest && values.iter().any(|&scale| scale < 1.0)) else {
        return Ok(());
    };
    let part =
        |keep: fn(f32) -> f32| -> Vec<f32> { values.iter().map(|&scale| keep(scale as f32)).collect() };
    let ceil = AttrValue::String("ceil".into());
    if values.iter().any(|&scale| scale > 1.0) {
        // first what shrinks, then what grows: axes do not depend on each other
        let shrinking = rewrite.constant("shrinking", &Literal::f32s(&part(|scale| scale.min(1.0))));
        let growing = rewrite.constant("growing", &Literal::f32s(&part(|scale| scale.max(1.0))));
        let name = rewrite.name("shrunk");
        let shrunk = rewrite.target.fresh(name.clone());
        let mut first = rewrite.node.clone();
        first.name = name;
        first.inputs[2] = Some(shrinking);
        first.outputs = vec![Some(shrunk)];
        first.attributes.set(Attr::NearestMode, ceil);
        rewrite.target.add(first)?;
        rewrite.node.inputs[0] = Some(shrunk);
        rewrite.node.inputs[2] = Some(growing);
    } else {
        rewrite.node.attributes.set(Attr::NearestMode, ceil);
    }
    Ok(())
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
    let nearest = attributes.str(Attr::Mode).is_none_or(|mode| mode == "nearest");
    if nearest && attributes.str(Attr::CoordinateTransformationMode) == Some("tf_half_pixel_for_nn") {
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
