//! Products with blocks against an `f64` product of weights that are decoded one by one.

use half::f16;
use polychip_cpu_kernels::quantised::*;
use polychip_cpu_kernels::{Isa, ThreadPool};
use proptest::prelude::*;

/// Numbers that look random.
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }

    fn float(&mut self) -> f32 {
        (self.next() % 20_001) as f32 / 10_000.0 - 1.0
    }

    /// Blocks of any codes and scales, with floats of 16 bits in sane places.
    fn blocks(&mut self, layout: BlockLayout, count: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..count * layout.bytes()).map(|_| self.next() as u8).collect();
        let floats: &[usize] = match layout {
            BlockLayout::Q4_0 | BlockLayout::Q8_0 => &[0],
            BlockLayout::Q4_1 | BlockLayout::Q5_1 | BlockLayout::Q4_K | BlockLayout::Q5_K => &[0, 2],
            BlockLayout::Q2_K => &[80, 82],
            BlockLayout::Q6_K => &[208],
            BlockLayout::U4 | BlockLayout::U8 => &[],
        };
        for block in bytes.chunks_exact_mut(layout.bytes()) {
            if matches!(layout, BlockLayout::U4 | BlockLayout::U8) {
                block[..4].copy_from_slice(&(self.float() / 16.0).to_le_bytes());
            }
            if layout == BlockLayout::U4 {
                block[4] &= 15;
            }
            for &at in floats {
                let float = f16::from_f32(self.float() / 16.0);
                block[at..at + 2].copy_from_slice(&float.to_le_bytes());
            }
        }
        bytes
    }
}

/// The weights of a block, one by one and from the layouts' definition.
fn decode(layout: BlockLayout, block: &[u8]) -> Vec<f64> {
    let float = |at: usize| f64::from(f16::from_le_bytes([block[at], block[at + 1]]).to_f32());
    let nibble = |first: usize, value: usize| f64::from(block[first + value % 16] >> (value / 16 * 4) & 15);
    let scale = || f64::from(f32::from_le_bytes([block[0], block[1], block[2], block[3]]));
    // the 6 bits of scale or minimum `i` of the eight each
    let six = |i: usize, minimum: bool| {
        let packed = &block[4..16];
        let second = usize::from(minimum) * 4;
        f64::from(if i < 4 {
            packed[i + second] & 63
        } else {
            (packed[i + 4] >> second & 15) | (packed[i - 4 + second] >> 6) << 4
        })
    };
    let weight = |i: usize| {
        let (group, within) = (i / 32, i % 32);
        match layout {
            BlockLayout::Q4_0 => (nibble(2, i) - 8.0) * float(0),
            BlockLayout::Q4_1 => nibble(4, i) * float(0) + float(2),
            BlockLayout::Q5_1 => {
                let fifth = f64::from(block[4 + i / 8] >> (i % 8) & 1);
                (nibble(8, i) + 16.0 * fifth) * float(0) + float(2)
            }
            BlockLayout::Q2_K => {
                let q = block[16 + i / 128 * 32 + within] >> (group % 4 * 2) & 3;
                let both = block[i / 16];
                f64::from(q) * float(80) * f64::from(both & 15) - float(82) * f64::from(both >> 4)
            }
            BlockLayout::Q8_0 => f64::from(block[2 + i] as i8) * float(0),
            BlockLayout::Q4_K | BlockLayout::Q5_K => {
                let five = layout == BlockLayout::Q5_K;
                let first = if five { 48 } else { 16 };
                let low = block[first + i / 64 * 32 + within] >> (group % 2 * 4) & 15;
                let high = if five { block[16 + within] >> group & 1 } else { 0 };
                let scale = float(0) * six(group, false);
                scale * f64::from(low | high << 4) - float(2) * six(group, true)
            }
            BlockLayout::Q6_K => {
                let (half, rest) = (i / 128, i % 128);
                let low = block[half * 64 + rest % 64] >> (rest / 64 * 4) & 15;
                let high = block[128 + half * 32 + rest % 32] >> (rest / 32 * 2) & 3;
                let scale = f64::from(block[192 + i / 16] as i8) * float(208);
                (f64::from(low | high << 4) - 32.0) * scale
            }
            BlockLayout::U4 => (nibble(5, i) - f64::from(block[4])) * scale(),
            BlockLayout::U8 => (f64::from(block[5 + i]) - f64::from(block[4])) * scale(),
        }
    };
    (0..layout.elements()).map(weight).collect()
}

/// A row as the product sees it.
fn rounded(row: &[f32]) -> Vec<f64> {
    let group = |x: &[f32]| -> Vec<f64> {
        let most = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let by = if most == 0.0 { 0.0 } else { 127.0 / most };
        x.iter()
            .map(|x| f64::from((x * by).round_ties_even()) * f64::from(most / 127.0))
            .collect()
    };
    row.chunks(32).flat_map(group).collect()
}

/// Every set of instructions, with and without its extensions.
fn sets() -> impl Iterator<Item = Isa> {
    Isa::available()
        .into_iter()
        .flat_map(|isa| [isa, isa.without_extensions()])
}

struct Case {
    layout: BlockLayout,
    columns: usize,
    blocks: Vec<u8>,
}

impl Case {
    fn new(layout: BlockLayout, depth: usize, columns: usize, random: &mut Random) -> Case {
        Case {
            layout,
            columns,
            blocks: random.blocks(layout, columns * depth / layout.elements()),
        }
    }

    fn packed(&self, isa: Isa, depth: usize) -> (BlockPlan, Vec<f32>) {
        let plan = BlockPlan::new(isa, self.layout, depth, self.columns).unwrap();
        let mut packed = vec![f32::NAN; plan.packed_len()];
        plan.pack(&self.blocks, &mut packed);
        (plan, packed)
    }

    /// The product in `f64` of rows as `seen`, and the sum of its terms' magnitudes.
    fn wanted(&self, depth: usize, x: &[f32], seen: fn(&[f32]) -> Vec<f64>) -> Vec<(f64, f64)> {
        let per_column = depth / self.layout.elements() * self.layout.bytes();
        let weights: Vec<Vec<f64>> = self
            .blocks
            .chunks(per_column)
            .map(|column| {
                let blocks = column.chunks(self.layout.bytes());
                blocks.flat_map(|block| decode(self.layout, block)).collect()
            })
            .collect();
        let mut all = Vec::new();
        for row in x.chunks(depth) {
            let row = seen(row);
            for column in &weights {
                let terms = row.iter().zip(column).map(|(x, w)| x * w);
                // sums of codes are larger than those of weights, of which a minimum may leave little
                let size: f64 = row.iter().map(|x| x.abs()).sum::<f64>()
                    * column.iter().fold(0.0, |most: f64, w| most.max(w.abs()));
                all.push((terms.sum(), size));
            }
        }
        all
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn products_match_decoded_weights_and_rounded_rows(
        rows in 1usize..21, deep in 1usize..4, columns in 1usize..70, threads in 1usize..4, seed in any::<u32>(),
    ) {
        let pool = ThreadPool::new(threads);
        let mut random = Random(seed);
        for layout in BlockLayout::ALL {
            let depth = deep * layout.elements();
            let case = Case::new(layout, depth, columns, &mut random);
            let x: Vec<f32> = (0..rows * depth).map(|_| random.float() * 3.0).collect();
            let wanted = case.wanted(depth, &x, rounded);
            let exact = case.wanted(depth, &x, |row| row.iter().copied().map(f64::from).collect());
            for isa in sets() {
                let (plan, packed) = case.packed(isa, depth);
                let precise = plan.clone().precise();
                let mut scratch = vec![f32::NAN; precise.scratch_len(rows, &pool)];
                let mut y = vec![f32::NAN; rows * columns];
                precise.run(&pool, rows, &x, &packed, &mut y, &mut scratch);
                for (&y, &(want, size)) in y.iter().zip(&exact) {
                    // 2^-16 of the largest of a group, which is at most three times the mean
                    let off = (f64::from(y) - want).abs();
                    prop_assert!(off <= 5e-5 * size + 1e-9, "{layout:?} on {}: {y} is not {want}", isa.bytes_name());
                }
                let mut scratch = vec![f32::NAN; plan.scratch_len(rows, &pool)];
                let mut y = vec![f32::NAN; rows * columns];
                plan.run(&pool, rows, &x, &packed, &mut y, &mut scratch);
                for (&y, &(want, size)) in y.iter().zip(&wanted) {
                    let off = (f64::from(y) - want).abs();
                    prop_assert!(
                        off <= 1e-6 * size + 1e-9,
                        "{layout:?} on {} ({}): {y} is not {want}", isa.name(), isa.bytes_name()
                    );
                }
            }
        }
    }

    #[test]
    fn joint_products_equal_separate_products(
        rows in 1usize..20, columns in prop::array::uniform3(1usize..200), seed in any::<u32>(),
    ) {
        let depth = 512;
        let mut random = Random(seed);
        let layouts = [0; 3].map(|_| BlockLayout::ALL[random.next() as usize % BlockLayout::ALL.len()]);
        let x: Vec<f32> = (0..rows * depth).map(|_| random.float()).collect();
        let cases: Vec<Case> = layouts
            .iter()
            .zip(columns)
            .map(|(&layout, columns)| Case::new(layout, depth, columns, &mut random))
            .collect();
        for isa in sets() {
            let pool = ThreadPool::new(2);
            let plans: Vec<_> = cases.iter().map(|case| case.packed(isa, depth)).collect();
            let mut scratch = vec![f32::NAN; plans[0].0.scratch_len(rows, &pool)];
            let outs = || columns.map(|columns| vec![f32::NAN; rows * columns]);
            let (mut alone, mut together) = (outs(), outs());
            for ((plan, packed), y) in plans.iter().zip(&mut alone) {
                plan.run(&ThreadPool::new(1), rows, &x, packed, y, &mut scratch);
            }
            let mut products: Vec<_> = plans
                .iter()
                .zip(&mut together)
                .map(|((plan, packed), y)| BlockProduct::new(plan, packed, y))
                .collect();
            run_all(&pool, rows, &x, &mut products, &mut scratch);
            drop(products);
            prop_assert_eq!(&alone, &together, "{} {:?}", isa.bytes_name(), layouts);
        }
    }
}

#[test]
fn row_results_do_not_depend_on_other_rows() {
    let (depth, columns, rows) = (512, 37, 31);
    let pool = ThreadPool::new(2);
    let mut random = Random(3);
    for layout in BlockLayout::ALL {
        let case = Case::new(layout, depth, columns, &mut random);
        let x: Vec<f32> = (0..rows * depth).map(|_| random.float()).collect();
        for isa in sets() {
            let (plan, packed) = case.packed(isa, depth);
            let mut scratch = vec![0.0; plan.scratch_len(rows, &pool)];
            let (mut all, mut one) = (vec![0.0; rows * columns], vec![0.0; columns]);
            plan.run(&pool, rows, &x, &packed, &mut all, &mut scratch);
            for (x, all) in x.chunks(depth).zip(all.chunks(columns)) {
                plan.run(&pool, 1, x, &packed, &mut one, &mut scratch);
                assert_eq!(one, all, "{layout:?} on {}", isa.bytes_name());
            }
        }
    }
}

#[test]
fn nan_stays_in_its_row_of_blocks() {
    let (depth, columns, rows) = (256, 19, 6);
    let pool = ThreadPool::new(1);
    let mut random = Random(9);
    for layout in BlockLayout::ALL {
        let case = Case::new(layout, depth, columns, &mut random);
        let mut x: Vec<f32> = (0..rows * depth).map(|_| random.float()).collect();
        x[depth + 77] = f32::NAN;
        x[2 * depth + 255] = f32::INFINITY;
        x[3 * depth] = f32::NEG_INFINITY;
        // too small to be divided by, and as large as can be
        x[4 * depth..5 * depth].fill(1e-40);
        x[5 * depth..].fill(f32::MAX / 1e6);
        for (isa, pieces) in sets().flat_map(|isa| [(isa, 1), (isa, 2)]) {
            let (mut plan, packed) = case.packed(isa, depth);
            if pieces == 2 {
                plan = plan.precise();
            }
            let mut scratch = vec![0.0; plan.scratch_len(rows, &pool)];
            let mut y = vec![0.0; rows * columns];
            plan.run(&pool, rows, &x, &packed, &mut y, &mut scratch);
            for (row, y) in y.chunks(columns).enumerate() {
                let bad = (1..4).contains(&row);
                assert!(
                    y.iter().all(|y| y.is_nan() == bad),
                    "{layout:?} on {}: row {row}",
                    isa.bytes_name()
                );
                assert!(row != 4 || y.iter().all(|y| y.abs() < 1e-30), "{layout:?}");
            }
        }
    }
}

#[test]
fn packed_weights_are_no_larger_than_the_blocks() {
    for layout in BlockLayout::ALL {
        for isa in Isa::available() {
            let (depth, columns) = (layout.elements(), 3 * isa.lanes());
            let plan = BlockPlan::new(isa, layout, depth, columns).unwrap();
            let file = columns * layout.bytes();
            assert!(
                plan.packed_len() * 4 <= file * 103 / 100,
                "{layout:?} on {}",
                isa.name()
            );
        }
    }
}

#[test]
fn depth_must_be_a_multiple_of_the_block() {
    for layout in BlockLayout::ALL {
        let elements = layout.elements();
        assert!(BlockPlan::new(Isa::SCALAR, layout, elements + 16, 1).is_err());
        assert!(BlockPlan::new(Isa::SCALAR, layout, elements, usize::MAX / 2).is_err());
        assert!(BlockPlan::new(Isa::SCALAR, layout, 3 * elements, 1).is_ok());
    }
}

#[test]
fn zero_depth_gives_zero() {
    let pool = ThreadPool::new(2);
    let plan = BlockPlan::new(Isa::detect(), BlockLayout::Q4_K, 0, 5).unwrap();
    let mut packed = vec![0.0; plan.packed_len()];
    plan.pack(&[], &mut packed);
    let (mut y, mut scratch) = (vec![f32::NAN; 10], vec![0.0; plan.scratch_len(2, &pool)]);
    plan.run(&pool, 2, &[], &packed, &mut y, &mut scratch);
    assert_eq!(y, [0.0; 10]);
}

#[test]
fn incremental_packing_matches_packing_at_once() {
    for (isa, layout) in Isa::available()
        .into_iter()
        .flat_map(|isa| BlockLayout::ALL.map(|layout| (isa, layout)))
    {
        // the last panel is not full
        let plan = BlockPlan::new(isa, layout, 512, 37).unwrap();
        let count = 37 * plan.column_bytes();
        let blocks: Vec<u8> = (0..count).map(|i| (i * 7919 % 251) as u8).collect();
        let mut whole = vec![f32::NAN; plan.packed_len()];
        plan.pack(&blocks, &mut whole);
        let mut pieces = vec![0.0; plan.packed_len()];
        let panel = plan.panel_columns();
        for (index, piece) in blocks.chunks(panel * plan.column_bytes()).enumerate() {
            plan.pack_columns(index * panel, piece, &mut pieces);
        }
        let bits = |x: &[f32]| -> Vec<u32> { x.iter().map(|x| x.to_bits()).collect() };
        assert_eq!(bits(&whole), bits(&pieces), "{layout:?} {}", isa.name());
    }
}
