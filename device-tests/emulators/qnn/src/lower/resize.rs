//! Resampling of images.
//!
//! Invariant: the output's shape determines the size.

use polychip_ops::{Attr, Attributes, Op};

use crate::recipe::{Recipe, Value};
use crate::view::{Refusal, View};

const X: Value = Value::Input(0);

pub(super) fn lower(view: &View<'_>) -> Option<Result<Recipe, Refusal>> {
    Some(match view.op {
        "ResizeBilinear" => flags(view, "linear"),
        "ResizeNearestNeighbor" => flags(view, "nearest"),
        "Resize" => resize(view),
        "GridSample" => grid(view),
        _ => return None,
    })
}

fn flags(view: &View<'_>, mode: &str) -> Result<Recipe, Refusal> {
    let (corners, half) = (
        view.flag("align_corners", false)?,
        view.flag("half_pixel_centers", false)?,
    );
    let (transform, nearest) = match (corners, half) {
        (true, true) => {
            return Refusal::rule(format!("{}: corners and half pixels exclude each other", view.op));
        }
        (true, false) => ("align_corners", "round_prefer_ceil"),
        (false, true) => ("half_pixel", "round_prefer_ceil"),
        (false, false) => ("asymmetric", "floor"),
    };
    sized(view, mode, transform, nearest)
}

fn resize(view: &View<'_>) -> Result<Recipe, Refusal> {
    let pick = |name: &str, names: &[&'static str]| -> Result<&'static str, Refusal> {
        let code = view.int(name, 0)?;
        match usize::try_from(code).ok().and_then(|i| names.get(i)) {
            Some(name) => Ok(name),
            None => Refusal::rule(format!("Resize: {name} is {code}")),
        }
    };
    let transform = pick(
        "transformation_mode",
        &["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"],
    )?;
    let nearest = pick(
        "nearest_mode",
        &["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"],
    )?;
    sized(
        view,
        pick("interpolation_mode", &["nearest", "linear"])?,
        transform,
        nearest,
    )
}

fn sized(view: &View<'_>, mode: &str, transform: &str, nearest: &str) -> Result<Recipe, Refusal> {
    view.ranked(0, 4)?;
    let wanted = view.output(0)?.shape();
    let [n, h, w, c] = wanted[..] else {
        return Refusal::rule(format!("{}: an output of shape {wanted:?}", view.op));
    };
    let sizes = [n, c, h, w].map(|size| size as i64);
    let mut attributes = Attributes::new()
        .with_str(Attr::Mode, mode)
        .with_str(Attr::CoordinateTransformationMode, transform);
    if mode == "nearest" {
        attributes = attributes.with_str(Attr::NearestMode, nearest);
    }
    let mut r = Recipe::default();
    let x = r.channels_first(X, 4);
    let sizes = r.ints(&sizes);
    let y = r.many(Op::Resize, attributes, &[Some(x), None, None, Some(sizes)], 1)[0];
    let y = r.channels_last(y, 4);
    Ok(r.gives(&[y]))
}

fn grid(view: &View<'_>) -> Result<Recipe, Refusal> {
    view.ranked(0, 4)?;
    view.ranked(1, 4)?;
    let mode = if view.int("mode", 0)? == 0 {
        "linear"
    } else {
        "nearest"
    };
    let padding = match view.int("padding_mode", 0)? {
        0 => "zeros",
        1 => "border",
        2 => "reflection",
        other => return Refusal::rule(format!("GridSample: padding_mode is {other}")),
    };
    let attributes = Attributes::new()
        .with_str(Attr::Mode, mode)
        .with_str(Attr::PaddingMode, padding)
        .with_int(Attr::AlignCorners, i64::from(view.flag("align_corners", false)?));
    let mut r = Recipe::default();
    let x = r.channels_first(X, 4);
    let y = r.step(Op::GridSample, attributes, &[x, Value::Input(1)]);
    let y = r.channels_last(y, 4);
    Ok(r.gives(&[y]))
}
