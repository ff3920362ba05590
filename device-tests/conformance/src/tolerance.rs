//! Allowed deviations from the reference: one table, `tolerances.toml`.
//!
//! Invariant: the table is read completely; an unknown entry is an error.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use polychip_ops::{DType, Literal};
use polychip_parts::compare::Tolerance;
use serde::Deserialize;

/// The table's text.
pub const TABLE: &str = include_str!("../tolerances.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    float: BTreeMap<String, BTreeMap<String, Bound>>,
    reduced: BTreeMap<String, Bound>,
    quantised: BTreeMap<String, BTreeMap<String, f64>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bound {
    relative: f64,
    of_largest: f64,
}

static READ: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(TABLE).expect("invariant: the table is tested to be readable"));

/// What a family of ops may be off by.
#[derive(Debug, Clone)]
pub struct Tolerances {
    family: String,
    reduced: bool,
}

impl Tolerances {
    /// The tolerances of a family; `reduced` where the device may compute f32 in 16 bits.
    #[must_use]
    pub fn of(family: &str, reduced: bool) -> Tolerances {
        Tolerances {
            family: family.to_owned(),
            reduced,
        }
    }

    /// How far this output may be off.
    #[must_use]
    pub fn allowed(&self, wanted: &Literal) -> Tolerance {
        if !wanted.dtype.is_float() {
            return Tolerance::Elementwise {
                relative: 0.0,
                absolute: 0.0,
            };
        }
        let table = &*READ;
        let pick =
            |rows: &BTreeMap<String, Bound>| rows.get(&self.family).or_else(|| rows.get("default")).copied();
        let bound = if self.reduced && wanted.dtype == DType::F32 {
            pick(&table.reduced)
        } else {
            table.float.get(wanted.dtype.name()).and_then(pick)
        };
        let bound = bound.unwrap_or(Bound {
            relative: 0.0,
            of_largest: 0.0,
        });
        let largest = wanted
            .as_f64s()
            .unwrap_or_default()
            .into_iter()
            .filter(|value| value.is_finite())
            .fold(0.0f64, |most, value| most.max(value.abs()));
        Tolerance::Elementwise {
            relative: bound.relative,
            absolute: bound.of_largest * largest,
        }
    }

    /// How many steps of a quantised output the answer may be off.
    #[must_use]
    pub fn steps(&self, dtype: DType) -> f64 {
        let rows = READ.quantised.get(dtype.name());
        rows.and_then(|rows| rows.get(&self.family).or_else(|| rows.get("default")))
            .copied()
            .unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_and_each_type_has_a_default() {
        let table: Table = toml::from_str(TABLE).unwrap();
        for dtype in ["f32", "f16", "bf16", "f64"] {
            assert!(table.float[dtype].contains_key("default"), "{dtype}");
        }
        for dtype in ["u8", "i8", "u16", "i16"] {
            assert!(table.quantised[dtype].contains_key("default"), "{dtype}");
        }
        assert!(table.reduced.contains_key("default"));
    }

    #[test]
    fn a_family_has_its_own_bound_and_integers_are_exact() {
        let wanted = Literal::f32s(&[2.0, -4.0]);
        let of = |family, reduced| match Tolerances::of(family, reduced).allowed(&wanted) {
            Tolerance::Elementwise { relative, absolute } => (relative, absolute),
            other => panic!("{other:?}"),
        };
        assert_eq!(of("movement", false), (0.0, 0.0));
        assert!(of("matrix", true).1 > of("matrix", false).1);
        let ints = Tolerances::of("matrix", false).allowed(&Literal::i64s(&[1]));
        assert_eq!(
            ints,
            Tolerance::Elementwise {
                relative: 0.0,
                absolute: 0.0
            }
        );
        assert_eq!(Tolerances::of("convolution", false).steps(DType::U8), 1.0);
    }
}
