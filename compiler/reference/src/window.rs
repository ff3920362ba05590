//! From attributes to resolved windows.
//!
//! Invariant: the arithmetic is that of `polychip_ops::geometry`, which also gives shapes at compile time.

use polychip_cpu_kernels::reference::window::Window;
use polychip_cpu_kernels::reference::{Error, Result};
use polychip_ops::Attr;
use polychip_ops::geometry::{self, Placement};

use crate::call::{Call, bad};

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

/// The window of a convolution or pool over `shape`; the kernel's sizes come from the weights, if there are
/// any, else from the attribute.
pub(crate) fn sliding(c: &Call<'_>, shape: &[usize], weights: Option<&[usize]>) -> Result<Window> {
    let spatial = spatial(shape)?;
    let kernel = kernel(c, weights)?;
    let window = geometry::Window::new(c.op, c.attributes, &kernel).map_err(|e| Error::new(e.to_string()))?;
    let place = window.resolve(spatial).map_err(|e| Error::new(e.to_string()))?;
    Ok(resolved(window, place))
}

/// The window of a transposed convolution over `shape`.
pub(crate) fn transposed(c: &Call<'_>, shape: &[usize], weights: &[usize]) -> Result<Window> {
    let spatial = spatial(shape)?;
    let kernel = kernel(c, Some(weights))?;
    let window = geometry::TransposedWindow::new(c.op, c.attributes, &kernel)
        .map_err(|e| Error::new(e.to_string()))?;
    let place = window.resolve(spatial).map_err(|e| Error::new(e.to_string()))?;
    Ok(resolved(window.window, place))
}

fn kernel(c: &Call<'_>, weights: Option<&[usize]>) -> Result<Vec<usize>> {
    let named = c.sizes(Attr::KernelShape)?;
    match (weights, named) {
        (Some(w), named) => {
            let kernel = spatial(w)?.to_vec();
            if named.as_ref().is_some_and(|n| *n != kernel) {
                return bad(format!("kernel_shape {named:?} of weights {w:?}"));
            }
            Ok(kernel)
        }
        (None, Some(named)) => Ok(named),
        (None, None) => bad("attribute kernel_shape is missing"),
    }
}
