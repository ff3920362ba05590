//! Look-ups of rows: the embeddings of BERT with what is done to them, and tables of codes.
//!
//! Source: ContribOperators.md and ONNX Runtime 1.32's answers.
//!
//! Invariant: codes are gathered as they lie, and only rows that were asked for become real.

use polychip_ops::{Attr, Attributes, DType, Literal, Op, TensorType};

use crate::onnx::convert::foreign::Foreign;
use crate::{Error, Tensor, TensorId};

/// How codes of less than a byte lie in bytes, low ones first.
#[derive(Clone, Copy)]
struct Codes {
    bits: usize,
    signed: bool,
}

impl Foreign<'_, '_> {
    pub(super) fn embedding(&mut self) -> Result<bool, Error> {
        if !self.has(&[0, 2, 3, 5, 6]) || self.input(1).is_some() != self.input(4).is_some() {
            return Ok(false);
        }
        let tables = [2, 3, 4].map(|slot| self.input(slot));
        let (scale, shift) = (self.0.input(5)?, self.0.input(6)?);
        self.embedded(tables, self.input(8), [scale, shift])
    }

    /// As [`Self::embedding`], of codes.
    pub(super) fn quantised_embedding(&mut self) -> Result<bool, Error> {
        if !self.has(&[0, 2, 3, 5, 6, 8, 9, 11, 12, 13, 14, 16, 17]) {
            return Ok(false);
        }
        if self.input(1).is_some() && !self.has(&[4, 10, 15]) {
            return Ok(false);
        }
        let words = self.dequantised([2, 8, 13], None, "words.table")?;
        let places = self.dequantised([3, 9, 14], None, "places.table")?;
        let segments = match self.input(1) {
            Some(_) => Some(self.dequantised([4, 10, 15], None, "segments.table")?),
            None => None,
        };
        let scale = self.dequantised([5, 11, 16], None, "scale")?;
        let shift = self.dequantised([6, 12, 17], None, "shift")?;
        self.embedded([Some(words), Some(places), segments], None, [scale, shift])
    }

    fn embedded(
        &mut self,
        [words, places, segments]: [Option<TensorId>; 3],
        positions: Option<TensorId>,
        [scale, shift]: [TensorId; 2],
    ) -> Result<bool, Error> {
        let ids = self.0.input(0)?;
        let (Some(words), Some(places)) = (words, places) else {
            return Ok(false);
        };
        let word = self.step(Op::Gather, &[words, ids], "word")?;
        let place = match positions {
            Some(positions) => self.step(Op::Gather, &[places, positions], "place")?,
            None => {
                let length = self.extent(ids, 1, "length")?;
                let zero = self.list(&[0], "zero");
                self.step(Op::Slice, &[places, zero, length], "place")?
            }
        };
        let mut sum = self.step(Op::Add, &[word, place], "sum")?;
        if let (Some(table), Some(ids)) = (segments, self.input(1)) {
            let segment = self.step(Op::Gather, &[table, ids], "segment")?;
            sum = self.step(Op::Add, &[sum, segment], "sum.segment")?;
        }
        self.give_output(2, sum)?;
        if self.gives(1) {
            let counts = self.ones(ids)?;
            self.give_output(1, counts)?;
        }
        let attributes = Attributes::new()
            .with_int(Attr::Axis, -1)
            .with_float(Attr::Epsilon, self.float("epsilon").unwrap_or(1e-12));
        self.last(
            Op::LayerNormalization,
            vec![Some(sum), Some(scale), Some(shift)],
            attributes,
        )
    }

    /// How many words each row has: the ones of its mask; without a mask, none.
    fn ones(&mut self, ids: TensorId) -> Result<TensorId, Error> {
        match self.input(7) {
            Some(mask) => {
                let dtype = self.dtype(mask).unwrap_or(DType::I32);
                let ones = self.by_int(Op::Equal, mask, (dtype, 1), Attributes::new(), "ones")?;
                let ones = self.as_type(ones, DType::I32, "ones.number")?;
                self.reduced(Op::ReduceSum, ones, &[1], false, "counts")
            }
            None => {
                let batch = self.extent(ids, 0, "batch")?;
                let zero = Literal::from_ints(DType::I32, Vec::new(), &[0]).expect("invariant: it fits");
                let zero = self.0.constant("counts.none", &zero);
                self.step(Op::Expand, &[zero, batch], "counts")
            }
        }
    }

    /// The position of each token of `x`; in every row they count up from the one that `first` holds. `None` if `first`
    /// is known to hold more or fewer than one.
    pub(super) fn onwards(&mut self, first: TensorId, x: TensorId) -> Result<Option<TensorId>, Error> {
        let shape = self.0.target.ty(first).and_then(|ty| ty.shape.as_ref());
        let first = match shape.and_then(|shape| shape.first()?.known()) {
            Some(1) => first,
            Some(_) => return Ok(None),
            None => {
                let one = self.list(&[1], "positions.one");
                self.step(Op::Reshape, &[first, one], "positions.first")?
            }
        };
        let axis = if self.rank(x) == Some(3) { 1 } else { 2 };
        let batch = self.extent(x, 0, "positions.batch")?;
        let length = self.extent(x, axis, "positions.length")?;
        let rows = self.counted(length, "positions.rows")?;
        let places = self.step(Op::Add, &[rows, first], "positions.places")?;
        let shape = self.joined(&[batch, length], 0, "positions.shape")?;
        self.step(Op::Expand, &[places, shape], "positions").map(Some)
    }

    /// Rows of a table; what training does with the other inputs changes no row.
    pub(super) fn torch_embedding(&mut self) -> Result<bool, Error> {
        match (self.input(0), self.input(1)) {
            (Some(table), Some(rows)) => {
                self.last(Op::Gather, vec![Some(table), Some(rows)], Attributes::new())
            }
            _ => Ok(false),
        }
    }

    /// Rows of codes of 2, 4 or 8 bits, or of small floats, each block of an axis with a scale.
    pub(super) fn gather_blocks(&mut self) -> Result<bool, Error> {
        let (Some(data), Some(rows), Some(scales)) = (self.input(0), self.input(1), self.input(2)) else {
            return Ok(false);
        };
        let Some(sizes) = self.sizes(data) else {
            return Ok(false);
        };
        let rank = sizes.len() as i64;
        let within = |axis: i64| if axis < 0 { axis + rank } else { axis };
        let gather = within(self.int("gather_axis").unwrap_or(0));
        let quantise = within(self.int("quantize_axis").unwrap_or(1));
        let block = self.int("block_size").unwrap_or(128);
        let bits = usize::try_from(self.int("bits").unwrap_or(4)).unwrap_or(0);
        let dtype = self.dtype(data);
        let (codes, packed) = match dtype {
            Some(DType::U8) if matches!(bits, 2 | 4 | 8) => (Codes { bits, signed: false }, bits < 8),
            Some(DType::U4) => (
                Codes {
                    bits: 4,
                    signed: false,
                },
                true,
            ),
            Some(DType::I4) => (
                Codes {
                    bits: 4,
                    signed: true,
                },
                true,
            ),
            Some(dtype) if dtype.is_float() => (
                Codes {
                    bits: 0,
                    signed: false,
                },
                false,
            ),
            _ => return Ok(false),
        };
        let (Some(rows_rank), true) = (self.rank(rows), (0..rank).contains(&gather.min(quantise))) else {
            return Ok(false);
        };
        // where codes share bytes along the axis that is gathered, rows are no rows of bytes
        if gather == quantise
            || rank < 2
            || (packed && gather == rank - 1)
            || gather >= rank
            || quantise >= rank
        {
            return Ok(false);
        }
        let per_byte = match dtype {
            Some(DType::U8) => (8 / codes.bits) as i64,
            _ => 1,
        };
        let width = sizes[rank as usize - 1] * per_byte;
        let extent = if quantise == rank - 1 {
            width
        } else {
            sizes[quantise as usize]
        };
        let block = if block == 0 { extent } else { block };
        if block <= 0
            || extent > super::MAX_PLACES
            || self.size(scales, quantise as usize) != Some((extent + block - 1) / block)
        {
            return Ok(false);
        }
        // some rows of a scale for all of them
        if gather == 0 && self.size(scales, 0) != Some(sizes[0]) {
            return Ok(false);
        }
        let zeros = self.input(3);
        let data = match dtype {
            Some(DType::U4 | DType::I4) => match self.as_bytes(data, &sizes, "bytes") {
                Some(data) => data,
                None => return Ok(false),
            },
            _ => data,
        };
        let zero_sizes = zeros.and_then(|zeros| self.sizes(zeros));
        let zeros = match (zeros, dtype, zero_sizes) {
            (Some(zeros), Some(DType::U4 | DType::I4), Some(sizes)) => {
                // codes of rows share bytes with the next row's where their number is odd
                match self.as_bytes(zeros, &sizes, "zero.bytes") {
                    Some(zeros) => Some((zeros, sizes[rank as usize - 1])),
                    None => return Ok(false),
                }
            }
            (Some(zeros), _, Some(_)) => {
                let Some(width) = self.size(scales, rank as usize - 1) else {
                    return Ok(false);
                };
                Some((zeros, width))
            }
            (Some(_), _, None) => return Ok(false),
            (None, ..) => None,
        };
        let along = Attributes::new().with_int(Attr::Axis, gather);
        let place = if quantise < gather {
            quantise
        } else {
            quantise + rows_rank as i64 - 1
        };
        let bytes = self.with(Op::Gather, &[data, rows], along.clone(), "rows")?;
        let real = self.unpacked_codes(bytes, codes, packed.then_some(width), "codes")?;
        let scales = self.with(Op::Gather, &[scales, rows], along.clone(), "scales")?;
        let blocks: Vec<i64> = (0..extent).map(|index| index / block).collect();
        let blocks = self.list(&blocks, "blocks");
        let across = Attributes::new().with_int(Attr::Axis, place);
        let wide = self.with(Op::Gather, &[scales, blocks], across.clone(), "scales.wide")?;
        let real = self.step(Op::CastLike, &[real, wide], "codes.real")?;
        let centred = match zeros {
            Some((zeros, width)) => {
                let zeros = self.with(Op::Gather, &[zeros, rows], along, "zeros")?;
                let zeros = self.unpacked_codes(zeros, codes, packed.then_some(width), "zeros.codes")?;
                let zeros = self.with(Op::Gather, &[zeros, blocks], across, "zeros.wide")?;
                let zeros = self.step(Op::CastLike, &[zeros, wide], "zeros.real")?;
                self.step(Op::Sub, &[real, zeros], "centred")?
            }
            None if dtype == Some(DType::U8) => {
                let middle = (1 << (codes.bits - 1)) as f32;
                self.by(Op::Sub, real, middle, "centred")?
            }
            None => real,
        };
        self.last(Op::Mul, vec![Some(centred), Some(wide)], Attributes::new())
    }

    /// A constant of codes of 4 bits as bytes of two; `None` where a row ends within one.
    fn as_bytes(&mut self, codes: TensorId, sizes: &[i64], role: &str) -> Option<TensorId> {
        let dtype = self.dtype(codes)?;
        let (&last, lead) = sizes.split_last()?;
        let data = self.stored(codes, dtype).filter(|_| last % 2 == 0)?;
        let mut dims: Vec<usize> = lead.iter().map(|&size| size as usize).collect();
        dims.push((last / 2) as usize);
        let name = self.0.name(role);
        let ty = TensorType::known(DType::U8, &dims);
        Some(self.0.target.graph.add_tensor(Tensor::constant(name, ty, data)))
    }

    /// Codes of one byte each, or small signed ones; `width` of them in the last axis where they share bytes.
    fn unpacked_codes(
        &mut self,
        bytes: TensorId,
        codes: Codes,
        width: Option<i64>,
        role: &str,
    ) -> Result<TensorId, Error> {
        let Some(width) = width else { return Ok(bytes) };
        let mask = (1i64 << codes.bits) - 1;
        let mut parts = Vec::new();
        for index in 0..8 / codes.bits {
            let part = format!("{role}.{index}");
            let mut x = bytes;
            if index > 0 {
                let right = Attributes::new().with_str(Attr::Direction, "RIGHT");
                let by = (DType::U8, (index * codes.bits) as i64);
                x = self.by_int(Op::BitShift, x, by, right, &format!("{part}.shifted"))?;
            }
            x = self.by_int(Op::BitwiseAnd, x, (DType::U8, mask), Attributes::new(), &part)?;
            parts.push(self.unsqueezed(x, &[-1], &format!("{part}.column"))?);
        }
        let side = self.joined(&parts, -1, &format!("{role}.columns"))?;
        // the two last axes become one
        let rank = self.rank(bytes).unwrap_or(2);
        let mut shape = vec![0; rank];
        shape[rank - 1] = -1;
        let flat = self.reshaped(side, &shape, &format!("{role}.flat"))?;
        let mut x = self.sliced(flat, -1, 0, width, role)?;
        if codes.signed {
            x = self.by_int(
                Op::BitwiseXor,
                x,
                (DType::U8, 8),
                Attributes::new(),
                &format!("{role}.moved"),
            )?;
            x = self.as_type(x, DType::I8, &format!("{role}.wide"))?;
            x = self.by_int(
                Op::Sub,
                x,
                (DType::I8, 8),
                Attributes::new(),
                &format!("{role}.signed"),
            )?;
        }
        Ok(x)
    }

    /// A product with weights of 4 bits that index a table of values (`bitsandbytes`): normal floats, or floats of 4 bits.
    pub(super) fn table_weights(&mut self) -> Result<bool, Error> {
        let sizes = ["K", "N", "block_size"].map(|name| self.int(name).filter(|&size| size > 0));
        let (Some(x), Some(codes), Some(scales), [Some(k), Some(n), Some(block)]) =
            (self.input(0), self.input(1), self.input(2), sizes)
        else {
            return Ok(false);
        };
        let table = match self.int("quant_type") {
            Some(0) => FLOATS_4,
            Some(1) => NORMAL_FLOATS_4,
            _ => return Ok(false),
        };
        if self.dtype(codes) != Some(DType::U8) {
            return Ok(false);
        }
        let right = Attributes::new().with_str(Attr::Direction, "RIGHT");
        let codes = self.reshaped(codes, &[-1, 1], "bytes")?;
        let high = self.by_int(Op::BitShift, codes, (DType::U8, 4), right, "high")?;
        let low = self.by_int(Op::BitwiseAnd, codes, (DType::U8, 15), Attributes::new(), "low")?;
        let both = self.joined(&[high, low], 1, "codes")?;
        let flat = self.reshaped(both, &[-1], "codes.flat")?;
        let places = self.as_type(flat, DType::I32, "codes.places")?;
        let table = self.0.constant("table", &Literal::f32s(&table));
        let table = self.step(Op::CastLike, &[table, x], "table.like")?;
        let values = self.step(Op::Gather, &[table, places], "values")?;
        let all = k * n;
        let whole = (all + block - 1) / block * block;
        let have = all + all % 2;
        let values = match whole - have {
            0 => values,
            more if more > 0 => {
                let pads = self.list(&[0, more], "values.pads");
                self.step(Op::Pad, &[values, pads], "values.padded")?
            }
            _ => self.sliced(values, 0, 0, whole, "values.cut")?,
        };
        let blocks = self.reshaped(values, &[-1, block], "blocks")?;
        let scales = self.reshaped(scales, &[-1, 1], "scales")?;
        let scaled = self.step(Op::Mul, &[blocks, scales], "scaled")?;
        let flat = self.reshaped(scaled, &[-1], "weights.flat")?;
        let flat = if whole == all {
            flat
        } else {
            self.sliced(flat, 0, 0, all, "weights.cut")?
        };
        let mut weights = self.reshaped(flat, &[n, k], "weights")?;
        if self.int("transB").unwrap_or(1) != 0 {
            weights = self.permuted(weights, &[1, 0], "turned")?;
        }
        self.last(Op::MatMul, vec![Some(x), Some(weights)], Attributes::new())
    }
}

/// Values of floats of 4 bits with 1 bit for the sign, 2 for the exponent and 1 for the fraction, the largest being 1:
/// `bitsandbytes`, `create_fp8_map(signed, 2, 1, 4)`.
const FLOATS_4: [f32; 16] = [
    0.0,
    0.005_208_333_5,
    0.666_666_7,
    1.0,
    0.333_333_34,
    0.5,
    0.166_666_67,
    0.25,
    -0.0,
    -0.005_208_333_5,
    -0.666_666_7,
    -1.0,
    -0.333_333_34,
    -0.5,
    -0.166_666_67,
    -0.25,
];

/// Quantiles of the normal distribution (QLoRA, arXiv 2305.14314, appendix E).
const NORMAL_FLOATS_4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];
