//! Inputs and outputs as arrays of the crate ndarray.

use ndarray::{Array2, Axis, array, s};
use polychip::ErrorKind;

use crate::{PATIENCE, on_cpu};

#[test]
fn arrays_view_the_memory_of_runs() {
    let session = on_cpu();
    let x = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let address = x.as_ptr();
    let mut input = session.input_from_array("x", x.clone()).unwrap();
    let other = session.input_from_array("x", x).unwrap();
    assert_eq!(other.shape(), [2, 3]);
    {
        let mut values = input.values_mut::<f32>().unwrap();
        let pointer = values.as_ptr();
        let mut view = values.array_mut();
        assert_eq!(view.as_ptr(), pointer);
        view[[1, 2]] = -6.0;
    }
    let a = session.output("a").unwrap();
    let outputs = session
        .submit_into(&[&input], &[&a])
        .unwrap()
        .wait(PATIENCE)
        .unwrap();
    let wanted = array![[-1.0f32, -2.0, -3.0], [-4.0, -5.0, 6.0]].into_dyn();
    let values = a.values::<f32>().unwrap();
    assert_eq!(values.array(), wanted);
    assert_eq!(values.array().as_ptr(), values.as_ptr());
    let b = outputs.get("b").unwrap();
    let view = b.array::<f32>().unwrap();
    assert_eq!(view, wanted.mapv(f32::abs));
    assert_eq!(view.as_ptr().cast(), b.bytes().as_ptr());
    assert_eq!(session.report().copies, 0);
    // the device read the array where the app had it
    let mut other = other;
    assert_eq!(other.values_mut::<f32>().unwrap().as_ptr(), address);
}

#[test]
fn unviewable_array_error_names_the_alternative() {
    let session = on_cpu();
    let transposed = Array2::<f32>::zeros((3, 2)).reversed_axes();
    assert_eq!(transposed.shape(), [2, 3]);
    let error = session.input_from_array("x", transposed.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput);
    let words = error.to_string();
    assert!(
        words.contains("\"x\"") && words.contains("strides [1, 2]"),
        "{words}"
    );
    assert!(words.contains("as_standard_layout().into_owned()"), "{words}");
    let tail = Array2::<f32>::zeros((4, 3)).slice_move(s![2.., ..]);
    let words = session.input_from_array("x", tail).unwrap_err().to_string();
    assert!(words.contains("begins at element 6"), "{words}");
    let words = session
        .input_from_array("x", Array2::<i64>::zeros((2, 3)))
        .unwrap_err()
        .to_string();
    assert_eq!(words, "input \"x\" holds f32, not i64");
    let words = session
        .input_from_array("x", Array2::<f32>::zeros((2, 4)))
        .unwrap_err()
        .to_string();
    assert!(words.contains("[2, 4]"), "{words}");

    let mut input = session
        .input_from_array("x", transposed.as_standard_layout().into_owned())
        .unwrap();
    input.write_array(&(transposed + 1.0)).unwrap();
    let words = input
        .write_array(&Array2::<f32>::zeros((3, 2)))
        .unwrap_err()
        .to_string();
    assert_eq!(words, "input \"x\" is [2, 3], the array is [3, 2]");
    let outputs = session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap();
    let b = outputs.get("b").unwrap();
    assert_eq!(
        b.array::<f32>().unwrap().sum_axis(Axis(1)),
        array![3.0, 3.0].into_dyn()
    );
    let words = b.array::<f64>().unwrap_err().to_string();
    assert_eq!(words, "output \"b\" holds f32, not f64");
}
