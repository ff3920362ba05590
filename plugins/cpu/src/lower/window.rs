//! Windows over images, of convolutions and of pools.

use polychip_cpu_kernels::conv::Window;
use polychip_cpu_kernels::pool::PoolParams;
use polychip_ops::operator::WindowSpec;
use polychip_ops::{Operator, geometry};
use polychip_sdk::{Error, Result};

use super::builder::{Lowering, image, shape_error};
use crate::part::{Node, TensorIndex};

/// A window of 1 to 3 spatial dimensions, extended in front.
pub(super) fn window(
    window: &geometry::Window,
    input: &[usize],
    placement: &geometry::Placement,
) -> Result<Window> {
    let extend = |values: &[usize], fill: usize| -> Result<[usize; 3]> {
        let mut all = [fill; 3];
        let first = 3usize
            .checked_sub(values.len())
            .ok_or_else(|| Error::unsupported(format!("{} spatial dimensions", values.len())))?;
        all[first..].copy_from_slice(values);
        Ok(all)
    };
    Ok(Window {
        input: extend(input, 1)?,
        output: extend(&placement.output, 1)?,
        kernel: extend(&window.kernel, 1)?,
        strides: extend(&window.strides, 1)?,
        dilations: extend(&window.dilations, 1)?,
        pads: extend(&placement.begin, 0)?,
    })
}

/// The window that a pool states; none of other ops, global pools among them.
fn stated(node: &Node) -> Option<WindowSpec> {
    match node.operator().ok()? {
        Operator::MaxPool(pool) => Some(pool.window),
        Operator::AveragePool(pool) => Some(pool.window),
        Operator::LpPool(pool) => Some(pool.window),
        _ => None,
    }
}

/// The window of MaxPool, AveragePool or LpPool.
pub(super) fn pool(l: &Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<PoolParams> {
    let dims = l.shape(x)?;
    let [n, c, _] = image(dims)?;
    let stated = stated(node).ok_or_else(|| Error::unsupported("a pool without a window"))?;
    let shape = stated.stated().map_err(shape_error)?;
    let placement = shape.resolve(&dims[2..]).map_err(shape_error)?;
    if placement.output[..] != l.shape(y)?[2..] {
        return Err(Error::bad_argument(format!(
            "pooling {dims:?} does not give {:?}",
            l.shape(y)?
        )));
    }
    let mut pads_end = [0; 3];
    pads_end[3 - placement.end.len()..].copy_from_slice(&placement.end);
    Ok(PoolParams {
        batch: n,
        channels: c,
        window: window(&shape, &dims[2..], &placement)?,
        pads_end,
    })
}

/// Elements that the windows of a pool see.
pub(super) fn taps(input: &[usize], output: &[usize], node: &Node) -> usize {
    match stated(node) {
        Some(window) => {
            let taps: usize = window
                .kernel_shape
                .iter()
                .map(|&size| size.max(1) as usize)
                .product();
            output.iter().product::<usize>().saturating_mul(taps)
        }
        None => input.iter().product(),
    }
}
