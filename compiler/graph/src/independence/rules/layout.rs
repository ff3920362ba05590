//! Ops that move elements: what stays at the front along each axis.

use polychip_ops::operator::{Along, ConstantOfShape, Split};
use polychip_ops::{Op, axis};

use crate::independence::pair::{Axis, Proof};
use crate::independence::step::{PREFIX, Step, Verdict, broadcasts};

pub(super) fn rule(step: &Step<'_>) -> Verdict {
    let moved = |step: &Step<'_>| {
        Ok(Proof::Prefix {
            zeros: step.pads_zeros(0),
        })
    };
    match step.node.op {
        Op::Transpose => {
            step.prefix(0)?;
            moved(step)
        }
        Op::Reshape | Op::Flatten | Op::Squeeze | Op::Unsqueeze => {
            let (from, into) = (step.prefix(0)?, step.output(0)?);
            step.must(regroups(&from, &into))?;
            moved(step)
        }
        Op::Expand => {
            let (from, into) = (step.prefix(0)?, step.output(0)?);
            step.must(broadcasts(&from, &into))?;
            // repeating an element along a padded axis puts elements into the padding
            let repeated = from.iter().rev().zip(into.iter().rev()).any(|(a, b)| a != b);
            if repeated || from.len() != into.len() {
                PREFIX
            } else {
                moved(step)
            }
        }
        Op::Tile => {
            let (from, into) = (step.prefix(0)?, step.output(0)?);
            // one copy after the other: the second one begins where the first ends
            step.must(from.len() == into.len())?;
            step.must(
                from.iter()
                    .zip(&into)
                    .all(|(from, into)| !from.is_padded() || from == into),
            )?;
            PREFIX
        }
        Op::Concat => concat(step),
        Op::Split => {
            let along = step.axis(step.typed::<Split>()?.axis, step.prefix(0)?.len())?;
            step.prefix_but(0, &[along])?;
            for output in (0..step.node.outputs.len()).filter(|&output| step.node.output(output).is_some()) {
                step.must(!step.output(output)?[along].is_padded())?;
            }
            moved(step)
        }
        Op::Slice => slice(step),
        Op::Gather => gather(step),
        Op::GatherElements => {
            let along = step.axis(step.typed::<Along>()?.axis, step.prefix(0)?.len())?;
            step.prefix_but(0, &[along])?;
            step.prefix(1)?;
            step.must(step.pads_zeros(1))?;
            PREFIX
        }
        Op::Pad => pad(step),
        Op::Trilu => {
            step.prefix(0)?;
            step.same(1)?;
            moved(step)
        }
        Op::DepthToSpace | Op::SpaceToDepth => {
            step.prefix_along(0, &[0])?;
            moved(step)
        }
        // one value everywhere
        Op::ConstantOfShape => Ok(Proof::Prefix {
            zeros: step.typed::<ConstantOfShape>()?.value.is_none(),
        }),
        Op::Range => {
            step.same(0)?;
            step.same(2)?;
            PREFIX
        }
        Op::OneHot => {
            step.prefix(0)?;
            step.integers(1)?;
            step.same(2)?;
            PREFIX
        }
        _ => step.mixes(),
    }
}

/// Whether the first elements along each axis are the same ones in two shapes of one memory. Axes are taken in the
/// fewest groups of the same number of elements; a group may be padded where its first axis with more than one position
/// is.
fn regroups(from: &[Axis], into: &[Axis]) -> bool {
    let (mut from, mut into) = (from, into);
    while !from.is_empty() || !into.is_empty() {
        let Some((a, b)) = group(from, into) else {
            return false;
        };
        let (Some(first), Some(second)) = (padded_at_front(&from[..a]), padded_at_front(&into[..b])) else {
            return false;
        };
        if first != second {
            return false;
        }
        (from, into) = (&from[a..], &into[b..]);
    }
    true
}

/// How many axes of each side hold the same number of elements in both runs.
fn group(from: &[Axis], into: &[Axis]) -> Option<(usize, usize)> {
    if let (Some(a), Some(b)) = (from.first(), into.first())
        && a == b
    {
        return Some((1, 1));
    }
    let (mut a, mut b) = (0, 0);
    let (mut left, mut right) = ([1usize; 2], [1usize; 2]);
    loop {
        let (behind, ahead) = (left[1] < right[1], left[1] > right[1]);
        let (mut grows_left, mut grows_right) = (!ahead, !behind);
        if left == right && (a, b) != (0, 0) {
            return Some((a, b));
        }
        // where only the true sizes differ, both sides have more to give
        grows_left &= a < from.len();
        grows_right &= b < into.len();
        if !grows_left && !grows_right {
            return None;
        }
        let grow = |product: &mut [usize; 2], axis: &Axis| -> Option<()> {
            let Axis::Known { small, large } = *axis else {
                return None;
            };
            // no elements, no order
            (small > 0).then_some(())?;
            *product = [product[0].checked_mul(small)?, product[1].checked_mul(large)?];
            Some(())
        };
        if grows_left {
            grow(&mut left, &from[a])?;
            a += 1;
        }
        if grows_right {
            grow(&mut right, &into[b])?;
            b += 1;
        }
    }
}

/// Whether a group has padding, which then stands behind all of its elements; `None` where it stands between them.
fn padded_at_front(axes: &[Axis]) -> Option<bool> {
    match axes.iter().position(Axis::is_padded) {
        None => Some(false),
        Some(first) => {
            let alone = axes[first + 1..].iter().all(|axis| !axis.is_padded());
            (alone && axes[..first].iter().all(Axis::is_one)).then_some(true)
        }
    }
}

fn concat(step: &Step<'_>) -> Verdict {
    let count = step.node.inputs.len();
    let mut zeros = true;
    for input in 0..count {
        let rank = step.prefix(input)?.len();
        let along = step.axis(step.typed::<Along>()?.axis, rank)?;
        // what stands behind padding is at another place
        if input + 1 < count {
            step.prefix_but(input, &[along])?;
        }
        zeros &= step.pads_zeros(input);
    }
    Ok(Proof::Prefix { zeros })
}

fn slice(step: &Step<'_>) -> Verdict {
    let (from, into) = (step.prefix(0)?, step.output(0)?);
    let starts = step.some(step.integers(1)?)?;
    let axes = match step.integers(3)? {
        Some(axes) => step.some(axis::normalise_all(&axes, from.len()))?,
        None => (0..starts.len()).collect(),
    };
    let steps = step.integers(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    step.must(axes.len() == starts.len() && steps.len() == starts.len() && into.len() == from.len())?;
    for ((&along, &start), &by) in axes.iter().zip(&starts).zip(&steps) {
        // counted from the end, or backwards, places differ where the end does
        step.must(!from[along].is_padded() || start >= 0 && by > 0)?;
    }
    // an end that moves with the size, or axes that only it cuts, leave elements in the padding
    let ends = step.integers(2).ok().flatten();
    let is_fixed = ends.is_some_and(|ends| ends.iter().all(|&end| end >= 0));
    let mut both = from.iter().zip(&into);
    Ok(Proof::Prefix {
        zeros: is_fixed && step.pads_zeros(0) && both.all(|(a, b)| a.is_padded() || !b.is_padded()),
    })
}

fn gather(step: &Step<'_>) -> Verdict {
    let from = step.prefix(0)?;
    let along = step.axis(step.typed::<Along>()?.axis, from.len())?;
    step.prefix(1)?;
    match from[along] {
        Axis::Known { small, .. } if from[along].is_padded() => {
            let indices = step.some(step.integers(1)?)?;
            let small = i64::try_from(small).unwrap_or(i64::MAX);
            step.must(indices.iter().all(|index| (0..small).contains(index)))?;
        }
        _ => step.must(step.pads_zeros(1))?,
    }
    PREFIX
}

fn pad(step: &Step<'_>) -> Verdict {
    let from = step.prefix(0)?;
    let rank = from.len();
    let amounts = step.some(step.integers(1)?)?;
    step.same(2)?;
    let axes = match step.integers(3)? {
        Some(axes) => step.some(axis::normalise_all(&axes, rank))?,
        None => (0..rank).collect(),
    };
    step.must(amounts.len() == 2 * axes.len())?;
    for (place, &along) in axes.iter().enumerate() {
        let (before, after) = (amounts[place], amounts[place + axes.len()]);
        step.must(!from[along].is_padded() || before == 0 && after == 0)?;
    }
    PREFIX
}
