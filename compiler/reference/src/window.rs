//! From attributes to resolved windows.
//!
//! Invariant: the arithmetic is that of `polychip_ops::geometry`, which also gives shapes at compile time.

use polychip_cpu_kernels::reference::window::Window;
use polychip_cpu_kernels::reference::{Error, Result};
use polychip_ops::InferError;
use polychip_ops::geometry::{self, Placement};
use polychip_ops::operator::{TransposedSpec, WindowSpec};

use crate::call::{bad, sizes};

fn resolved(window: geometry::Window, place: Placement) -> Window {
    Window {
        kernel: window.kernel,
        strides: window.strides,
        dilations: window.dilations,
        pads: place
            .begin
            .iter()
            .zip(&place.end)
            .map(|(&b, &e)| (b as i64, e as i64))
            .collect(),
        output: place.output,
    }
}

/// The spatial dims of a shape `[n, c, spatial…]`.
pub(crate) fn spatial(shape: &[usize]) -> Result<&[usize]> {
    match shape.get(2..) {
        Some(spatial) if !spatial.is_empty() => Ok(spatial),
        _ => bad(format!("[n, c, spatial…] wanted, shape {shape:?} seen")),
    }
}

fn error(why: InferError) -> Error {
    Error::new(why.to_string())
}

/// The window of a convolution or pool over `shape`; the kernel's sizes come from the weights, if there are
/// any, else from the attribute.
pub(crate) fn sliding(window: &WindowSpec, shape: &[usize], weights: Option<&[usize]>) -> Result<Window> {
    let spatial = spatial(shape)?;
    let window = window.over(&kernel(window, weights)?).map_err(error)?;
    let place = window.resolve(spatial).map_err(error)?;
    Ok(resolved(window, place))
}

/// The window of a transposed convolution over `shape`.
pub(crate) fn transposed(window: &TransposedSpec, shape: &[usize], weights: &[usize]) -> Result<Window> {
    let spatial = spatial(shape)?;
    let kernel = kernel(&window.window, Some(weights))?;
    let window = window.over(&kernel).map_err(error)?;
    let place = window.resolve(spatial).map_err(error)?;
    Ok(resolved(window.window, place))
}

fn kernel(window: &WindowSpec, weights: Option<&[usize]>) -> Result<Vec<usize>> {
    let named = sizes(&window.kernel_shape)?;
    let Some(weights) = weights else {
        return Ok(named);
    };
    let kernel = spatial(weights)?.to_vec();
    if !named.is_empty() && named != kernel {
        return bad(format!("kernel_shape {named:?} of weights {weights:?}"));
    }
    Ok(kernel)
}
