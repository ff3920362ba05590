//! Tensors as arrays of the crate ndarray, in place (feature `ndarray`).
//!
//! Invariants:
//! 1. A view has the tensor's true shape and its memory; an array that becomes an input is not
//!    copied.
//! 2. If in-place access is impossible, the error gives the reason and the alternative.
//!
//! Not here: slices (`values`).

use ndarray::{Array, ArrayBase, ArrayViewD, ArrayViewMutD, Data, Dimension, IxDyn};
use polychip_host::Memory;

use super::values::{Values, ValuesMut, check_dtype};
use super::{Element, Input};
use crate::error::{Error, ErrorKind, Result};
use crate::run::OutputView;
use crate::session::Session;

const WHOLE: &str = "invariant: a tensor has as many elements as its shape says";

impl<T: Element> Values<'_, T> {
    /// The elements as an array view.
    #[must_use]
    pub fn array(&self) -> ArrayViewD<'_, T> {
        ArrayViewD::from_shape(IxDyn(self.shape()), self).expect(WHOLE)
    }
}

impl<T: Element> ValuesMut<'_, T> {
    /// The elements as an array view, to be filled in place.
    #[must_use]
    pub fn array_mut(&mut self) -> ArrayViewMutD<'_, T> {
        let shape = IxDyn(self.shape());
        ArrayViewMutD::from_shape(shape, self).expect(WHOLE)
    }
}

impl OutputView<'_> {
    /// The elements as an array view, in place.
    ///
    /// ```no_run
    /// # fn answer(outputs: &polychip::Outputs) -> Result<(), polychip::Error> {
    /// let scores = outputs.get("scores")?;
    /// let scores = scores.array::<f32>()?; // [n, classes]
    /// println!("{}", scores.sum_axis(ndarray::Axis(1)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The output holds another type, or it is a constant of the model whose memory layout Rust
    /// cannot view; [`OutputView::values`] copies it.
    pub fn array<T: Element>(&self) -> Result<ArrayViewD<'_, T>> {
        let name = format!("output {:?}", self.name());
        check_dtype::<T>(&name, self.dtype())?;
        let values = bytemuck::try_cast_slice(self.bytes()).map_err(|wrong| {
            let words = format!(
                "{name}: the constant lies in the model file and is no array of {}: {wrong}; OutputView::values copies it",
                T::DTYPE.name()
            );
            Error::new(ErrorKind::BadInput, words)
        })?;
        Ok(ArrayViewD::from_shape(IxDyn(self.shape()), values).expect(WHOLE))
    }
}

impl Input {
    /// Writes all elements from an array with any strides.
    ///
    /// # Errors
    /// The type or shape differs, or as for [`Input::values_mut`].
    pub fn write_array<T: Element, S: Data<Elem = T>, D: Dimension>(
        &mut self,
        array: &ArrayBase<S, D>,
    ) -> Result<()> {
        check_dtype::<T>(&format!("input {:?}", self.name()), self.dtype())?;
        if array.shape() != self.shape() {
            let words = format!(
                "input {:?} is {:?}, the array is {:?}",
                self.name(),
                self.shape(),
                array.shape()
            );
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        self.values_mut::<T>()?
            .array_mut()
            .assign(&array.view().into_dyn());
        Ok(())
    }
}

impl Session {
    /// Makes an input over the memory of an array, which devices read in place, like
    /// [`Session::input_from`].
    ///
    /// # Errors
    /// The model has no such input, its type or shape differs, or the array is not in row-major
    /// order from the first element of its memory.
    pub fn input_from_array<T: Element + Send + Sync, D: Dimension>(
        &self,
        name: &str,
        array: Array<T, D>,
    ) -> Result<Input> {
        let shape = array.shape().to_vec();
        if let Some(spec) = self.inputs().find(|input| input.name == name) {
            check_dtype::<T>(&format!("input {name:?}"), spec.dtype)?;
        }
        let strides = array.strides().to_vec();
        let is_row_major = array.is_standard_layout();
        let (values, offset) = array.into_raw_vec_and_offset();
        let offset = offset.unwrap_or(0);
        if !is_row_major || offset > 0 {
            let words = format!(
                "input {name:?} takes an array in row-major order from the first element of its memory on, this one of shape \
                 {shape:?} has strides {strides:?} and begins at element {offset}: array.as_standard_layout().into_owned() \
                 copies it into that order, Input::write_array into the input"
            );
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        self.input_from(name, &shape, &Memory::of_vec(values))
    }
}
