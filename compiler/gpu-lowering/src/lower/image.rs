//! Images and windows of nodes as the kernels take them: an image of one axis has height 1.

use polychip_gpu_kernels::{Image, Window};
use polychip_lowering::{Outcome, Refusal};
use polychip_ops::geometry;
use polychip_sdk::Reason;

/// A tensor of rank 2 to 4 as an image.
pub(super) fn image(dims: &[usize]) -> Outcome<Image> {
    let small = |size: usize| u32::try_from(size).map_err(|_| Refusal::shape(format!("an extent of {size}")));
    let (n, c, h, w) = match *dims {
        [n, c] => (n, c, 1, 1),
        [n, c, w] => (n, c, 1, w),
        [n, c, h, w] => (n, c, h, w),
        _ => {
            return Err(Refusal::new(
                Reason::Rank,
                format!("images of rank {} are not offered, the limit is 4", dims.len()),
            ));
        }
    };
    Ok(Image {
        batch: small(n)?,
        height: small(h)?,
        width: small(w)?,
        channels: small(c)?,
    })
}

/// A window over the spatial extents of `dims`, which must give those of `out`.
pub(super) fn window(shape: &geometry::Window, dims: &[usize], out: &[usize]) -> Outcome<(Window, bool)> {
    let (Some(spatial), Some(out)) = (dims.get(2..), out.get(2..)) else {
        return Err(Refusal::new(Reason::Rank, format!("a window over {dims:?}")));
    };
    let placement = shape.resolve(spatial)?;
    if placement.output != out {
        return Err(Refusal::shape(format!(
            "a window over {dims:?} gives {:?}, not {out:?}",
            placement.output
        )));
    }
    let pair = |list: &[usize], fill: u32| -> Outcome<[u32; 2]> {
        let small =
            |size: usize| u32::try_from(size).map_err(|_| Refusal::shape(format!("a window with {size}")));
        match *list {
            [x] => Ok([fill, small(x)?]),
            [y, x] => Ok([small(y)?, small(x)?]),
            _ => Err(Refusal::new(
                Reason::Rank,
                format!("windows of {} axes are not offered, the limit is 2", list.len()),
            )),
        }
    };
    let window = Window {
        kernel: pair(&shape.kernel, 1)?,
        strides: pair(&shape.strides, 1)?,
        dilations: pair(&shape.dilations, 1)?,
        begin: pair(&placement.begin, 0)?,
        end: pair(&placement.end, 0)?,
    };
    let size = pair(spatial, 1)?;
    if window.output(size, shape.ceil) != pair(out, 1)? {
        return Err(Refusal::attribute(
            "a window whose places the kernels count otherwise",
        ));
    }
    Ok((window, shape.ceil))
}
