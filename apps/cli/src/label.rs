//! The labels of the highest values of an output.
//!
//! Invariant: a value is called a probability only if its row sums to one; otherwise it is a score.

use schemars::JsonSchema;
use serde::Serialize;

use crate::array::{Array, numbers};
use crate::exit::bad_input;

/// How far from one a row of probabilities may sum, for rounding to half precision.
const SLACK: f64 = 5e-3;

/// One of the highest values of a row.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Top {
    /// Name of the output.
    pub(crate) output: String,
    /// Row of the output, from 0.
    pub(crate) row: usize,
    /// Place of the value in its row, from 0.
    pub(crate) index: usize,
    /// Its label.
    pub(crate) label: String,
    /// The value.
    pub(crate) value: f64,
    /// What the value is.
    pub(crate) is: Meaning,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Meaning {
    /// The row is in 0 to 1 and sums to one.
    Probability,
    /// Anything else.
    Score,
}

/// The `most` highest values of each row, highest first, of the first output that has as many columns as there are labels; without
/// labels, of the first output of floats, by number.
pub(crate) fn top(
    outputs: &[(String, Array)],
    labels: Option<&[String]>,
    most: usize,
) -> anyhow::Result<Vec<Top>> {
    let columns = |array: &Array| array.shape.last().copied().unwrap_or(0);
    let fits = |array: &Array| {
        array.dtype.is_float() && labels.map_or(columns(array) > 0, |labels| columns(array) == labels.len())
    };
    let Some((name, array)) = outputs.iter().find(|(_, array)| fits(array)) else {
        let shapes: Vec<String> = outputs
            .iter()
            .map(|(name, array)| format!("{name} {} {:?}", array.dtype.name(), array.shape))
            .collect();
        let wanted = labels.map_or("floats".to_owned(), |labels| {
            format!("{} floats, one for each label", labels.len())
        });
        return Err(bad_input(format!(
            "no output has rows of {wanted}; the outputs are: {}",
            shapes.join(", ")
        )));
    };
    let values = numbers(array.dtype, &array.bytes).unwrap_or_default();
    let mut tops = Vec::new();
    for (row, values) in values.chunks_exact(columns(array).max(1)).enumerate() {
        if values.iter().any(|value| value.is_nan()) {
            return Err(bad_input(format!(
                "output {name:?} is NaN in row {row}: no top label"
            )));
        }
        let is_probability = values.iter().all(|value| (0.0..=1.0 + SLACK).contains(value))
            && (values.iter().sum::<f64>() - 1.0).abs() <= SLACK;
        let is = if is_probability {
            Meaning::Probability
        } else {
            Meaning::Score
        };
        let mut order: Vec<usize> = (0..values.len()).collect();
        // stable: of equal values the first is the highest
        order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
        tops.extend(order.into_iter().take(most).map(|index| Top {
            output: name.clone(),
            row,
            index,
            label: labels.map_or(index.to_string(), |labels| labels[index].clone()),
            value: values[index],
            is,
        }));
    }
    Ok(tops)
}

impl std::fmt::Display for Top {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.is {
            Meaning::Probability => write!(f, "{}: probability {:.4}", self.label, self.value),
            Meaning::Score => write!(f, "{}: score {:.4}", self.label, self.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use polychip::DType;

    use super::*;

    fn output(name: &str, shape: &[usize], values: &[f32]) -> (String, Array) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        (
            name.into(),
            Array {
                dtype: DType::F32,
                shape: shape.to_vec(),
                bytes,
            },
        )
    }

    fn labels() -> Vec<String> {
        ["cat", "dog", "eel"].map(String::from).to_vec()
    }

    #[test]
    fn top_label_is_found_per_row() {
        let outputs = [
            output("other", &[2], &[9.0, 9.0]),
            output("p", &[2, 3], &[0.1, 0.7, 0.2, 0.5, 0.25, 0.25]),
        ];
        let tops = top(&outputs, Some(&labels()), 1).unwrap();
        let words: Vec<String> = tops.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["dog: probability 0.7000", "cat: probability 0.5000"]);
        assert_eq!((tops[1].row, tops[1].index, &*tops[1].output), (1, 0, "p"));
    }

    #[test]
    fn more_labels_are_in_order() {
        let outputs = [output("logits", &[2, 3], &[0.5, 2.0, 0.5, -1.0, -3.0, -2.0])];
        let words = |labels: Option<&[String]>, most| -> Vec<String> {
            let tops = top(&outputs, labels, most).unwrap();
            tops.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            words(Some(&labels()), 2),
            [
                "dog: score 2.0000",
                "cat: score 0.5000",
                "cat: score -1.0000",
                "eel: score -2.0000"
            ]
        );
        assert_eq!(words(Some(&labels()), 9).len(), 6);
        assert_eq!(words(None, 1), ["1: score 2.0000", "0: score -1.0000"]);
    }

    #[test]
    fn values_not_summing_to_one_are_scores() {
        let top = top(
            &[output("logits", &[1, 3], &[-1.0, 2.0, 7.5])],
            Some(&labels()),
            1,
        )
        .unwrap();
        assert_eq!(top[0].to_string(), "eel: score 7.5000");
    }

    #[test]
    fn missing_output_and_nan_are_errors() {
        let error = top(&[output("p", &[1, 2], &[0.5, 0.5])], Some(&labels()), 1)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "no output has rows of 3 floats, one for each label; the outputs are: p f32 [1, 2]"
        );
        let nan = [output("p", &[3], &[0.5, f32::NAN, 0.5])];
        assert!(top(&nan, Some(&labels()), 1).is_err());
    }
}
