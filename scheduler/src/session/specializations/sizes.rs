//! Sizes that the inputs of a run do not give, or give twice.

use smallvec::SmallVec;

use super::{Kind, Open, Shapes};

impl Shapes {
    /// Whether a dimension's name has two sizes.
    pub(crate) fn clashes<'a>(&self, shapes: impl Iterator<Item = (usize, &'a [usize])>) -> bool {
        let Kind::Open(open) = &self.kind else {
            return false;
        };
        let mut sizes: SmallVec<[Option<usize>; 8]> = smallvec::smallvec![None; open.names.len()];
        let mut differs = |(index, shape): (usize, &[usize])| {
            let axes = open.axes.get(index).filter(|_| open.strings[index].is_none());
            axes.into_iter().flatten().any(|&(axis, name)| {
                let size = shape.get(axis).copied();
                size.is_some() && *sizes[name].get_or_insert(size.unwrap_or(0)) != size.unwrap_or(0)
            })
        };
        let mut shapes = shapes;
        shapes.any(&mut differs)
    }

    /// Why a dimension has no size.
    pub(super) fn no_size(&self, open: &Open, name: usize) -> String {
        // an input of that dimension, which is not there
        let missing = open
            .axes
            .iter()
            .position(|axes| axes.iter().any(|(_, other)| *other == name));
        let name = &open.names[name];
        match missing.map(|index| (index, &self.inputs[index].name)) {
            Some((index, input)) if self.states.has_input(index) => format!(
                "no input gives the size of dimension {name:?} of state {input:?}; set the state first (Session::set_state)"
            ),
            Some((_, input)) => {
                format!("input {input:?} is missing; no other input gives its dimension {name:?}")
            }
            None => format!("no input gives the size of dimension {name:?}"),
        }
    }
}
