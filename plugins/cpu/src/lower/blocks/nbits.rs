//! 4- and 8-bit weights with separate arrays of scales and zero points (ONNX Runtime's MatMulNBits, block-wise DequantizeLinear),
//! repacked as the kernel's blocks.
//!
//! If every zero point is the middle code and scales fit 16-bit floats, the most compact equivalent block layout is chosen.
//!
//! Invariant: repacking rounds nothing; each weight keeps its value.

use half::f16;
use polychip_cpu_kernels::quantised::{BlockLayout, BlockPlan};
use polychip_ops::DType;
use polychip_sdk::{Constant, Encoding, EncodingKind};

use crate::part::Tensor;

/// Values of one of the kernel's blocks.
pub(super) const GROUP: usize = 32;

/// The layout of a matrix of codes.
#[derive(Clone, Copy, Debug)]
pub(super) struct NBitsWeights {
    /// Bits of a code.
    bits: usize,
    /// Signed codes are moved to unsigned ones.
    signed: bool,
    depth: usize,
    columns: usize,
    /// It lies as `[columns, depth]`.
    by_column: bool,
    /// Values of a scale.
    block: usize,
}

impl NBitsWeights {
    /// The codes of a tensor, where the kernel's blocks can hold them.
    pub(super) fn of(tensor: &Tensor, by_column: bool) -> Option<NBitsWeights> {
        let encoding = tensor.encoding.as_ref()?;
        let &[first, second] = tensor.dims.as_deref()? else {
            return None;
        };
        let (columns, depth) = if by_column {
            (first, second)
        } else {
            (second, first)
        };
        let (bits, signed) = match tensor.dtype {
            DType::U4 => (4, false),
            DType::I4 => (4, true),
            DType::U8 => (8, false),
            DType::I8 => (8, true),
            _ => return None,
        };
        let EncodingKind::PerBlock { axis, block } = encoding.kind else {
            return None;
        };
        let scales = depth.div_ceil(block.max(1)).checked_mul(columns)?;
        let fits = axis == usize::from(by_column)
            && block > 0
            && block.is_multiple_of(GROUP)
            && depth.is_multiple_of(GROUP)
            && encoding.real_dtype == DType::F32
            && encoding.scales.len() == scales
            && (encoding.zero_points.is_empty() || encoding.zero_points.len() == scales);
        let codes = NBitsWeights {
            bits,
            signed,
            depth,
            columns,
            by_column,
            block,
        };
        let is_byte = |zero: &i32| u8::try_from(zero.saturating_add(codes.moved_by())).is_ok();
        (fits && encoding.zero_points.iter().all(is_byte)).then_some(codes)
    }

    /// Half of what a code can be, which signed ones are moved by.
    fn middle(self) -> i32 {
        1 << (self.bits - 1)
    }

    fn moved_by(self) -> i32 {
        if self.signed { self.middle() } else { 0 }
    }

    /// The blocks that hold them; takes zero points off the tensor that the blocks say by themselves.
    pub(super) fn layout(self, tensor: &mut Tensor) -> BlockLayout {
        let centred = |encoding: &Encoding| {
            let zero = self.middle() - self.moved_by();
            let zeros = &encoding.zero_points;
            let in_middle = zeros.iter().all(|&one| one == zero) && (zero == 0 || !zeros.is_empty());
            let is_half = |scale: &f32| f16::from_f32(*scale).to_f32().to_bits() == scale.to_bits();
            in_middle && encoding.scales.iter().all(is_half)
        };
        let centred = tensor.encoding.as_ref().is_some_and(centred);
        if let Some(encoding) = tensor.encoding.as_mut().filter(|_| centred) {
            encoding.zero_points = Vec::new();
        }
        match (self.bits, centred) {
            (4, true) => BlockLayout::Q4_0,
            (4, false) => BlockLayout::U4,
            (_, true) => BlockLayout::Q8_0,
            (_, false) => BlockLayout::U8,
        }
    }

    /// Packs them, some columns at a time.
    pub(super) fn pack(self, packer: &BlockPlan, tensor: &Tensor, packed: &mut [f32]) {
        let (Some(constant), Some(encoding)) = (&tensor.constant, &tensor.encoding) else {
            return;
        };
        let panel = packer.panel_columns();
        let mut blocks = Vec::new();
        let mut column = vec![0; self.depth];
        if self.by_column {
            let bytes = self.depth * self.bits / 8;
            let panels = (Constant::BLOCK / (panel * packer.column_bytes())).max(1);
            let mut first = 0;
            constant.pieces(panels * panel * bytes, |columns| {
                blocks.clear();
                for (index, codes) in columns.chunks_exact(bytes).enumerate() {
                    self.unpack(codes, &mut column);
                    self.write(first + index, &column, encoding, packer.layout(), &mut blocks);
                }
                packer.pack_columns(first, &blocks, packed);
                first += panels * panel;
            });
            return;
        }
        let codes = constant.bytes();
        for first in (0..self.columns).step_by(panel) {
            blocks.clear();
            for index in first..self.columns.min(first + panel) {
                for (row, code) in column.iter_mut().enumerate() {
                    let at = row * self.columns + index;
                    *code = match self.bits {
                        4 => codes[at / 2] >> (at % 2 * 4) & 15,
                        _ => codes[at],
                    };
                }
                self.write(index, &column, encoding, packer.layout(), &mut blocks);
            }
            packer.pack_columns(first, &blocks, packed);
        }
    }

    /// One code a byte.
    fn unpack(self, codes: &[u8], to: &mut [u8]) {
        if self.bits == 8 {
            to.copy_from_slice(codes);
            return;
        }
        for (pair, code) in to.as_chunks_mut::<2>().0.iter_mut().zip(codes) {
            *pair = [code & 15, code >> 4];
        }
    }

    /// Writes a column's blocks.
    fn write(
        self,
        index: usize,
        codes: &[u8],
        encoding: &Encoding,
        layout: BlockLayout,
        blocks: &mut Vec<u8>,
    ) {
        let per_column = self.depth.div_ceil(self.block);
        // the sign is the highest bit, inverted
        let flip = self.moved_by() as u8;
        for (group, codes) in codes.as_chunks::<GROUP>().0.iter().enumerate() {
            let block = group * GROUP / self.block;
            let at = if self.by_column {
                index * per_column + block
            } else {
                block * self.columns + index
            };
            let scale = encoding.scales[at];
            match layout {
                BlockLayout::Q4_0 | BlockLayout::Q8_0 => {
                    blocks.extend(f16::from_f32(scale).to_le_bytes());
                }
                _ => {
                    let zero = encoding.zero_points.get(at).copied().unwrap_or(0);
                    blocks.extend(scale.to_le_bytes());
                    blocks.push((zero + self.moved_by()) as u8);
                }
            }
            match layout {
                BlockLayout::Q4_0 | BlockLayout::U4 => {
                    let (low, high) = codes.split_at(GROUP / 2);
                    let pairs = low.iter().zip(high);
                    blocks.extend(pairs.map(|(low, high)| (low ^ flip) & 15 | (high ^ flip) << 4));
                }
                // of this layout codes have a sign
                BlockLayout::Q8_0 => blocks.extend(codes.iter().map(|code| code ^ flip ^ 0x80)),
                _ => blocks.extend(codes.iter().map(|code| code ^ flip)),
            }
        }
    }
}
