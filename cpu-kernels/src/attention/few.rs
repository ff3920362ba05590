//! Attention of a few queries, which reads each key and value in place: packing would cost more than
//! it saves, since each is used only a few times. An example is a single query, such as a language
//! model's next token or a decoder's token over an encoder's output.
//!
//! Values are summed before the division, so a result is infinite if a value times the number of
//! keys exceeds the range of `f32`.

use super::cached::{MANY, Unit, unit_scratch};
use super::{AttentionParams, AttentionPlan, ONE_THREAD};
use crate::gemm::Elements;
use crate::isa::Load;
use crate::schedule::Scratch;
use crate::threads::{Address, Parts};
use crate::{Isa, ThreadPool};

/// Floats of a query in scratch: whole vectors.
fn wide(isa: Isa, size: usize) -> usize {
    size.next_multiple_of(isa.lanes())
}

/// Floats of a thread's scratch, where the queries are few and lie so that a unit can have all that share keys.
pub(super) fn scratch(elements: Elements, isa: Isa, p: &AttentionParams) -> Option<usize> {
    let group = p.heads.checked_div(p.kv_heads)?;
    let queries = group.checked_mul(p.queries)?;
    let fits = matches!(elements, Elements::F32)
        && (1..MANY).contains(&queries)
        && p.keys > 0
        && p.size > 0
        && p.size == p.value_size
        && p.k.row == p.v.row
        && p.softcap == 0.0
        && p.left.is_none();
    // what one query does not see is left out; several see all, and values need not be finite where none sees them
    let by_rows = p.queries == 1 || p.right.is_none() && p.q.row == p.out.row;
    let by_heads = group == 1 || p.q.head == p.size && p.out.head == p.size;
    (fits && by_rows && by_heads).then(|| unit_scratch(queries, wide(isa, p.size)))
}

impl AttentionPlan {
    /// Runs the attention, a unit for each head of the keys.
    pub(super) fn few(
        &self,
        [q, k, v]: [&[f32]; 3],
        mask: Option<&[f32]>,
        out: &mut [f32],
        pool: &ThreadPool,
        (scratch, own): (&mut [f32], usize),
    ) {
        let p = &self.params;
        let group = p.heads / p.kv_heads;
        let scratch = Scratch::new(scratch, 0, own, pool.threads());
        let [q, k, v] = [q, k, v].map(|operand| Address(operand.as_ptr()));
        let mask = mask.filter(|_| p.mask.is_some());
        let mask = mask.map(|mask| Address(mask.as_ptr()));
        let out = Parts::new(out);
        // of several queries none has an end of its own
        let end = p.seen(0).1;
        let one = |thread: usize, index: usize| {
            let (batch, kv_head) = (index / p.kv_heads, index % p.kv_heads);
            let head = kv_head * group;
            let rows = [k.at(p.k.at(batch, kv_head)), v.at(p.v.at(batch, kv_head))];
            let strides = p.mask.unwrap_or_default();
            let unit = Unit {
                queries: p.queries * group,
                group,
                size: p.size,
                wide: wide(self.isa, p.size),
                scale: p.scale,
                q: q.at(p.q.at(batch, head)),
                row: p.q.row,
                cache: rows,
                new: rows,
                new_row: p.k.row,
                past: 0,
                first: end,
                mask: match mask {
                    Some(mask) => mask.at(strides.at(batch, head)),
                    None => std::ptr::null(),
                },
                mask_strides: [strides.row, strides.head],
                range: 0..end,
                out: out.as_ptr().wrapping_add(p.out.at(batch, head)),
                partial: std::ptr::null_mut(),
                // SAFETY: this thread's own part, asked for once.
                scratch: unsafe { scratch.own(thread) }.as_mut_ptr(),
            };
            <f32 as Load>::enter(self.isa, unit);
        };
        let units = p.batch * p.kv_heads;
        let work = (p.queries * p.keys * 2 * p.size).saturating_mul(p.batch * p.heads);
        if work < ONE_THREAD {
            (0..units).for_each(|unit| one(0, unit));
        } else {
            pool.run_indexed(units, &one);
        }
    }
}
