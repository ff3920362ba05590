//! Ops over numbers: distances, inverses, hashes, transforms, and forms of ONNX ops with other inputs.
//!
//! Source: ContribOperators.md and ONNX Runtime 1.32's answers; what has no kernel for the CPU there by its description.

use polychip_ops::{Attr, Attributes, DType, Literal, Op};

use crate::onnx::convert::foreign::Foreign;
use crate::{Error, TensorId};

/// The largest matrix that is inverted step by step.
const INVERSE_LIMIT: i64 = 64;

impl Foreign<'_, '_> {
    /// Distances of all rows from all rows, by products.
    pub(super) fn distances(&mut self) -> Result<bool, Error> {
        let (Some(a), Some(b)) = (self.input(0), self.input(1)) else {
            return Ok(false);
        };
        let root = match self.text("metric").as_deref() {
            None | Some("sqeuclidean") => false,
            Some("euclidean") => true,
            _ => return Ok(false),
        };
        let a_square = self.reduced(Op::ReduceSumSquare, a, &[1], true, "a.square")?;
        let b_square = self.reduced(Op::ReduceSumSquare, b, &[1], false, "b.square")?;
        let turned = self.permuted(b, &[1, 0], "b.turned")?;
        let product = self.step(Op::MatMul, &[a, turned], "product")?;
        let twice = self.by(Op::Mul, product, 2.0, "twice")?;
        let sum = self.step(Op::Add, &[a_square, b_square], "sum")?;
        let squares = self.step(Op::Sub, &[sum, twice], "difference")?;
        // rounding may leave less than nothing
        let zero = self.number(0.0, squares, "zero")?;
        if !root {
            return self.last(Op::Max, vec![Some(squares), Some(zero)], Attributes::new());
        }
        let squares = self.step(Op::Max, &[squares, zero], "squares")?;
        self.last(Op::Sqrt, vec![Some(squares)], Attributes::new())
    }

    /// Gauss and Jordan's elimination of matrices of a known size, each step at the largest entry of its column.
    pub(super) fn inverse(&mut self) -> Result<bool, Error> {
        let Some(x) = self.input(0) else { return Ok(false) };
        let Some(rank) = self.rank(x).filter(|&rank| rank >= 2) else {
            return Ok(false);
        };
        let Some(n) = self.size(x, rank - 1).filter(|&n| 0 < n && n <= INVERSE_LIMIT) else {
            return Ok(false);
        };
        let dtype = self.dtype(x);
        let wide = match dtype {
            Some(DType::F64) => x,
            _ => self.as_type(x, DType::F32, "wide")?,
        };
        let unit: Vec<f32> = (0..n * n)
            .map(|at| f32::from(u8::from(at / n == at % n)))
            .collect();
        let unit = Literal {
            shape: vec![n as usize, n as usize],
            ..Literal::f32s(&unit)
        };
        let unit = self.0.constant("unit", &unit);
        let unit = self.step(Op::CastLike, &[unit, wide], "unit.like")?;
        let none = self.by(Op::Mul, wide, 0.0, "none")?;
        let unit = self.step(Op::Add, &[none, unit], "units")?;
        let mut both = self.joined(&[wide, unit], -1, "both")?;
        let mut free: Option<TensorId> = None;
        let mut rows = Vec::new();
        let places = self.list(&(0..n).collect::<Vec<_>>(), "places");
        let places = self.unsqueezed(places, &[1], "places.column")?;
        for k in 0..n {
            let role = |part: &str| format!("step.{k}.{part}");
            let column = self.sliced(both, -1, k, k + 1, &role("column"))?;
            let mut size = self.step(Op::Abs, &[column], &role("size"))?;
            if let Some(free) = free {
                let used = self.number(-1.0, size, &role("used"))?;
                size = self.step(Op::Where, &[free, size, used], &role("size.free"))?;
            }
            let along = Attributes::new()
                .with_int(Attr::Axis, -2)
                .with_int(Attr::Keepdims, 1);
            let best = self.with(Op::ArgMax, &[size], along, &role("best"))?;
            let here = self.step(Op::Equal, &[places, best], &role("here"))?;
            let one = self.step(Op::CastLike, &[here, both], &role("one"))?;
            let picked = self.step(Op::Mul, &[both, one], &role("picked"))?;
            let row = self.reduced(Op::ReduceSum, picked, &[-2], true, &role("row"))?;
            let pivot = self.sliced(row, -1, k, k + 1, &role("pivot"))?;
            let row = self.step(Op::Div, &[row, pivot], &role("row.scaled"))?;
            let change = self.step(Op::Mul, &[column, row], &role("change"))?;
            let rest = self.step(Op::Sub, &[both, change], &role("rest"))?;
            both = self.step(Op::Where, &[here, row, rest], &role("both"))?;
            let other = self.step(Op::Not, &[here], &role("other"))?;
            free = Some(match free {
                None => other,
                Some(free) => self.step(Op::And, &[free, other], &role("free"))?,
            });
            rows.push(one);
        }
        // row k of the inverse is where step k was
        let right = self.sliced(both, -1, n, 2 * n, "right")?;
        let order = self.joined(&rows, -1, "order")?;
        let lead = rank as i64 - 2;
        let perm: Vec<i64> = (0..lead).chain([lead + 1, lead]).collect();
        let order = self.permuted(order, &perm, "order.turned")?;
        let y = self.step(Op::MatMul, &[order, right], "inverse")?;
        self.last(Op::CastLike, vec![Some(y), Some(x)], Attributes::new())
    }

    /// MurmurHash3 (x86, 32 bits) of numbers of 4 or 8 bytes.
    pub(super) fn hash(&mut self) -> Result<bool, Error> {
        let Some(x) = self.input(0) else { return Ok(false) };
        let seed = self.int("seed").unwrap_or(0) & 0xffff_ffff;
        let words = match self.dtype(x) {
            Some(DType::U32) => vec![x],
            Some(DType::I32 | DType::F32) => vec![self.bits(x, DType::U32, "word")?],
            Some(DType::U64 | DType::I64 | DType::F64) => {
                let wide = match self.dtype(x) {
                    Some(DType::U64) => x,
                    _ => self.bits(x, DType::U64, "words")?,
                };
                let mask = (DType::U64, 0xffff_ffff);
                let low = self.by_int(Op::BitwiseAnd, wide, mask, Attributes::new(), "low.wide")?;
                let right = Attributes::new().with_str(Attr::Direction, "RIGHT");
                let high = self.by_int(Op::BitShift, wide, (DType::U64, 32), right, "high.wide")?;
                vec![
                    self.as_type(low, DType::U32, "low")?,
                    self.as_type(high, DType::U32, "high")?,
                ]
            }
            _ => return Ok(false),
        };
        let bytes = 4 * words.len() as i64;
        let seed = Literal::from_ints(DType::U32, Vec::new(), &[seed]).expect("invariant: it is masked");
        let mut hash = self.0.constant("seed", &seed);
        for (index, word) in words.into_iter().enumerate() {
            let role = |part: &str| format!("{index}.{part}");
            let mixed = self.u32(Op::Mul, word, 0xcc9e_2d51, &role("first"))?;
            let mixed = self.turned_left(mixed, 15, &role("turned"))?;
            let mixed = self.u32(Op::Mul, mixed, 0x1b87_3593, &role("second"))?;
            let both = self.step(Op::BitwiseXor, &[hash, mixed], &role("both"))?;
            let both = self.turned_left(both, 13, &role("hash"))?;
            let both = self.u32(Op::Mul, both, 5, &role("five"))?;
            hash = self.u32(Op::Add, both, 0xe654_6b64, &role("moved"))?;
        }
        hash = self.u32(Op::BitwiseXor, hash, bytes, "length")?;
        for (shift, factor, role) in [
            (16, Some(0x85eb_ca6b), "end.0"),
            (13, Some(0xc2b2_ae35), "end.1"),
            (16, None, "end.2"),
        ] {
            let right = Attributes::new().with_str(Attr::Direction, "RIGHT");
            let high = self.by_int(
                Op::BitShift,
                hash,
                (DType::U32, shift),
                right,
                &format!("{role}.high"),
            )?;
            hash = self.step(Op::BitwiseXor, &[hash, high], role)?;
            if let Some(factor) = factor {
                hash = self.u32(Op::Mul, hash, factor, &format!("{role}.mixed"))?;
            }
        }
        let to = match self.int("positive").unwrap_or(1) {
            0 => DType::I32,
            _ => DType::U32,
        };
        let to = Attributes::new().with_int(Attr::To, to.code().into());
        self.last(Op::BitCast, vec![Some(hash)], to)
    }

    fn bits(&mut self, x: TensorId, to: DType, role: &str) -> Result<TensorId, Error> {
        let to = Attributes::new().with_int(Attr::To, to.code().into());
        self.with(Op::BitCast, &[x], to, role)
    }

    fn u32(&mut self, op: Op, x: TensorId, value: i64, role: &str) -> Result<TensorId, Error> {
        self.by_int(op, x, (DType::U32, value), Attributes::new(), role)
    }

    fn turned_left(&mut self, x: TensorId, by: i64, role: &str) -> Result<TensorId, Error> {
        let left = Attributes::new().with_str(Attr::Direction, "LEFT");
        let right = Attributes::new().with_str(Attr::Direction, "RIGHT");
        let high = self.by_int(Op::BitShift, x, (DType::U32, by), left, &format!("{role}.left"))?;
        let low = self.by_int(
            Op::BitShift,
            x,
            (DType::U32, 32 - by),
            right,
            &format!("{role}.right"),
        )?;
        self.step(Op::BitwiseOr, &[high, low], role)
    }

    /// Products of complex numbers `[..., 2]`, with the second conjugated where asked for.
    pub(super) fn complex_product(&mut self, conjugate: bool) -> Result<bool, Error> {
        let (Some(a), Some(b)) = (self.input(0), self.input(1)) else {
            return Ok(false);
        };
        let a = self.split(a, -1, &[1, 1], &["a.real", "a.imaginary"])?;
        let b = self.split(b, -1, &[1, 1], &["b.real", "b.imaginary"])?;
        let real = self.step(Op::Mul, &[a[0], b[0]], "real.real")?;
        let imaginary = self.step(Op::Mul, &[a[1], b[1]], "imaginary.imaginary")?;
        let cross = self.step(Op::Mul, &[a[1], b[0]], "imaginary.real")?;
        let other = self.step(Op::Mul, &[a[0], b[1]], "real.imaginary")?;
        let (first, second) = if conjugate {
            (Op::Add, Op::Sub)
        } else {
            (Op::Sub, Op::Add)
        };
        let real = self.step(first, &[real, imaginary], "real")?;
        let imaginary = self.step(second, &[cross, other], "imaginary")?;
        let last = Attributes::new().with_int(Attr::Axis, -1);
        self.last(Op::Concat, vec![Some(real), Some(imaginary)], last)
    }

    /// The transform of the last axis, up to half the frequency.
    pub(super) fn real_transform(&mut self) -> Result<bool, Error> {
        let odd = self.int("signal_ndim").unwrap_or(1) != 1
            || self.int("onesided").unwrap_or(1) != 1
            || self.int("normalized").unwrap_or(0) != 0;
        let Some(x) = self.input(0).filter(|_| !odd) else {
            return Ok(false);
        };
        let x = self.unsqueezed(x, &[-1], "complex")?;
        let axis = self.0.constant("axis", &Literal::scalar_i64(-2));
        let attributes = Attributes::new().with_int(Attr::Onesided, 1);
        self.last(Op::DFT, vec![Some(x), None, Some(axis)], attributes)
    }

    pub(super) fn all_finite(&mut self) -> Result<bool, Error> {
        let inputs: Vec<TensorId> = self.0.node.inputs.iter().copied().flatten().collect();
        if inputs.is_empty() {
            return Ok(false);
        }
        let flag = |name: &str| self.int(name).unwrap_or(0) != 0;
        let tests: &[Op] = match (flag("isinf_only"), flag("isnan_only")) {
            (true, false) => &[Op::IsInf],
            (false, true) => &[Op::IsNaN],
            _ => &[Op::IsInf, Op::IsNaN],
        };
        let mut found = Vec::new();
        for (index, &x) in inputs.iter().enumerate() {
            for (test, &op) in tests.iter().enumerate() {
                let role = format!("found.{index}.{test}");
                let places = self.step(op, &[x], &format!("{role}.places"))?;
                let ones = self.as_type(places, DType::I32, &format!("{role}.ones"))?;
                let flat = self.reshaped(ones, &[-1], &format!("{role}.flat"))?;
                found.push(self.reduced(Op::ReduceSum, flat, &[0], false, &role)?);
            }
        }
        let mut all = found[0];
        for (index, &part) in found.iter().enumerate().skip(1) {
            all = self.step(Op::Add, &[all, part], &format!("found.{index}.sum"))?;
        }
        let any = self.as_type(all, DType::Bool, "any")?;
        self.last(Op::Not, vec![Some(any)], Attributes::new())
    }

    /// All windows of an axis of a known size, as a new last axis.
    pub(super) fn unfolded(&mut self) -> Result<bool, Error> {
        let (Some(x), Some(size)) = (self.input(0), self.int("size").filter(|&size| size > 0)) else {
            return Ok(false);
        };
        let step = self.int("step").unwrap_or(1);
        let Some(rank) = self.rank(x).map(|rank| rank as i64) else {
            return Ok(false);
        };
        let axis = self.int("dim").unwrap_or(-1);
        let axis = if axis < 0 { axis + rank } else { axis };
        let length = usize::try_from(axis).ok().and_then(|axis| self.size(x, axis));
        let Some(length) = length.filter(|&length| length >= size && step > 0) else {
            return Ok(false);
        };
        let count = (length - size) / step + 1;
        if count
            .checked_mul(size)
            .is_none_or(|places| places > super::MAX_PLACES)
        {
            return Ok(false);
        }
        let places: Vec<i64> = (0..count * size).map(|at| at / size * step + at % size).collect();
        let places = Literal {
            shape: vec![count as usize, size as usize],
            ..Literal::i64s(&places)
        };
        let places = self.0.constant("places", &places);
        let along = Attributes::new().with_int(Attr::Axis, axis);
        let windows = self.with(Op::Gather, &[x, places], along, "windows")?;
        let perm: Vec<i64> = (0..=rank)
            .filter(|&at| at != axis + 1)
            .chain([axis + 1])
            .collect();
        self.last(
            Op::Transpose,
            vec![Some(windows)],
            Attributes::new().with_ints(Attr::Perm, &perm),
        )
    }

    pub(super) fn expand_dims(&mut self) -> Result<bool, Error> {
        let (Some(x), Some(axis)) = (self.input(0), self.input(1)) else {
            return Ok(false);
        };
        let axis = self.as_type(axis, DType::I64, "axis.wide")?;
        let axis = self.reshaped(axis, &[1], "axis")?;
        self.last(Op::Unsqueeze, vec![Some(x), Some(axis)], Attributes::new())
    }

    /// Range, whose inputs may be vectors of one, and whose step may be left out.
    pub(super) fn range(&mut self) -> Result<bool, Error> {
        let (Some(start), Some(limit)) = (self.input(0), self.input(1)) else {
            return Ok(false);
        };
        let start = self.scalar(start, "start")?;
        let limit = self.scalar(limit, "limit")?;
        let step = match self.input(2) {
            Some(step) => self.scalar(step, "step")?,
            None => {
                let one = self.0.constant("step.one", &Literal::scalar_i64(1));
                self.step(Op::CastLike, &[one, start], "step")?
            }
        };
        self.last(
            Op::Range,
            vec![Some(start), Some(limit), Some(step)],
            Attributes::new(),
        )
    }

    fn scalar(&mut self, x: TensorId, role: &str) -> Result<TensorId, Error> {
        if self.rank(x) == Some(0) {
            return Ok(x);
        }
        self.reshaped(x, &[], role)
    }

    /// Pad, whose sizes may be a matrix of one row, and whose value a vector of one.
    pub(super) fn pad(&mut self) -> Result<bool, Error> {
        let (Some(x), Some(pads)) = (self.input(0), self.input(1)) else {
            return Ok(false);
        };
        let pads = self.reshaped(pads, &[-1], "pads")?;
        let mut inputs = vec![Some(x), Some(pads)];
        if let Some(value) = self.input(2) {
            inputs.push(Some(self.scalar(value, "value")?));
        }
        let attributes = self.kept(&["mode"]);
        self.last(Op::Pad, inputs, attributes)
    }

    /// Unique of a vector, in the order of first places.
    pub(super) fn unique(&mut self) -> Result<bool, Error> {
        let Some(x) = self.input(0) else { return Ok(false) };
        let attributes = Attributes::new().with_int(Attr::Sorted, 0);
        let roles = ["values", "firsts", "places", "counts"];
        let outputs = self.several(Op::Unique, vec![Some(x)], attributes, &roles)?;
        self.give_output(1, outputs[2])?;
        self.give_output(2, outputs[3])?;
        self.last(Op::Identity, vec![Some(outputs[0])], Attributes::new())
    }

    /// GatherND, whose places may be of 32 bits.
    pub(super) fn gather_nd(&mut self) -> Result<bool, Error> {
        let (Some(x), Some(places)) = (self.input(0), self.input(1)) else {
            return Ok(false);
        };
        let places = self.as_type(places, DType::I64, "places")?;
        self.last(Op::GatherND, vec![Some(x), Some(places)], Attributes::new())
    }

    /// Softmax of a sum, over all dimensions from an axis on.
    pub(super) fn bias_softmax(&mut self) -> Result<bool, Error> {
        let (Some(x), Some(bias)) = (self.input(0), self.input(1)) else {
            return Ok(false);
        };
        let Some(rank) = self.rank(x).map(|rank| rank as i64) else {
            return Ok(false);
        };
        let axis = self.int("axis").unwrap_or(1);
        let sum = self.step(Op::Add, &[x, bias], "sum")?;
        let last = Attributes::new().with_int(Attr::Axis, -1);
        if axis == -1 || axis == rank - 1 {
            return self.last(Op::Softmax, vec![Some(sum)], last);
        }
        let shape = self.with(Op::Shape, &[x], Attributes::new(), "shape")?;
        let along = Attributes::new().with_int(Attr::Axis, axis);
        let matrix = self.with(Op::Flatten, &[sum], along, "matrix")?;
        let rows = self.with(Op::Softmax, &[matrix], last, "rows")?;
        self.last(Op::Reshape, vec![Some(rows), Some(shape)], Attributes::new())
    }

    /// `z * sigmoid(z)` of `z = scale * x`.
    pub(super) fn scaled_silu(&mut self) -> Result<bool, Error> {
        let Some(x) = self.input(0) else { return Ok(false) };
        let z = match self.input(1) {
            Some(scale) => {
                let scale = self.step(Op::CastLike, &[scale, x], "scale")?;
                self.step(Op::Mul, &[x, scale], "scaled")?
            }
            None => self.scaled(x, self.float("alpha").unwrap_or(1.0), "scaled")?,
        };
        let gate = self.step(Op::Sigmoid, &[z], "gate")?;
        self.last(Op::Mul, vec![Some(z), Some(gate)], Attributes::new())
    }

    /// Buckets of distances that grow, as T5 counts them, and a bias of each for every head.
    pub(super) fn distance_bias(&mut self) -> Result<bool, Error> {
        let (Some(table), Some(queries), Some(keys)) = (self.input(0), self.input(1), self.input(2)) else {
            return Ok(false);
        };
        let (Some(buckets), Some(heads), Some(farthest)) =
            (self.size(table, 0), self.size(table, 1), self.int("max_distance"))
        else {
            return Ok(false);
        };
        let both_ways = self.int("is_bidirectional").unwrap_or(0) != 0;
        let side = if both_ways { buckets / 2 } else { buckets };
        let exact = side / 2;
        if exact < 1 || farthest <= exact {
            return Ok(false);
        }
        let queries = self.reshaped(queries, &[1], "queries")?;
        let keys = self.reshaped(keys, &[1], "keys")?;
        let queries = self.as_type(queries, DType::I64, "queries.wide")?;
        let keys = self.as_type(keys, DType::I64, "keys.wide")?;
        let query = self.counted(queries, "query")?;
        let query = self.unsqueezed(query, &[1], "query.column")?;
        let key = self.counted(keys, "key")?;
        let ahead = self.step(Op::Sub, &[key, query], "ahead")?;
        let whole = |value: i64| (DType::I64, value);
        let far = if both_ways {
            self.step(Op::Abs, &[ahead], "far")?
        } else {
            let behind = self.step(Op::Neg, &[ahead], "behind")?;
            let zero = self.0.constant("far.zero", &Literal::scalar_i64(0));
            self.step(Op::Max, &[behind, zero], "far")?
        };
        let real = self.as_type(far, DType::F32, "far.real")?;
        let real = self.by(Op::Max, real, 1.0, "far.some")?;
        let share = self.by(Op::Div, real, exact as f32, "far.share")?;
        let log = self.step(Op::Log, &[share], "far.log")?;
        let span = (farthest as f32 / exact as f32).ln();
        let log = self.by(Op::Div, log, span, "far.part")?;
        let large = self.by(Op::Mul, log, (side - exact) as f32, "far.steps")?;
        let large = self.as_type(large, DType::I64, "large.steps")?;
        let large = self.by_int(Op::Add, large, whole(exact), Attributes::new(), "large.bucket")?;
        let most = self.0.constant("large.most", &Literal::scalar_i64(side - 1));
        let large = self.step(Op::Min, &[large, most], "large")?;
        let near = self.by_int(Op::Less, far, whole(exact), Attributes::new(), "near")?;
        let mut bucket = self.step(Op::Where, &[near, far, large], "bucket")?;
        if both_ways {
            let ahead = self.by_int(Op::Greater, ahead, whole(0), Attributes::new(), "forward")?;
            let ahead = self.as_type(ahead, DType::I64, "forward.one")?;
            let ahead = self.by_int(Op::Mul, ahead, whole(side), Attributes::new(), "forward.buckets")?;
            bucket = self.step(Op::Add, &[bucket, ahead], "bucket.side")?;
        }
        // stated as rows of buckets, stored as rows of heads
        let table = self.reshaped(table, &[heads, buckets], "table")?;
        let along = Attributes::new().with_int(Attr::Axis, 1);
        let bias = self.with(Op::Gather, &[table, bucket], along, "bias")?;
        let axes = self.list(&[0], "outer");
        self.last(Op::Unsqueeze, vec![Some(bias), Some(axes)], Attributes::new())
    }

    /// The gates of WavLM over a bias of distances.
    pub(super) fn gated_distance_bias(&mut self) -> Result<bool, Error> {
        if !self.has(&[0, 1, 2, 3, 4, 5]) || self.input(6).is_some() {
            return Ok(false);
        }
        let (x, heads) = (self.0.input(0)?, self.int("num_heads"));
        let width = self.size(self.0.input(3)?, 1);
        let (Some(heads), Some(width), Some(3)) = (heads, width, self.rank(x)) else {
            return Ok(false);
        };
        let query = self.step(Op::Add, &[x, self.0.input(1)?], "query")?;
        let query = self.reshaped(query, &[0, 0, heads, -1], "query.split")?;
        let query = self.permuted(query, &[0, 2, 1, 3], "query.heads")?;
        let gates = self.step(Op::MatMul, &[query, self.0.input(3)?], "gates.product")?;
        let gates = self.step(Op::Add, &[gates, self.0.input(4)?], "gates")?;
        let halves = self.split(gates, -1, &[width / 2, width / 2], &["u.parts", "r.parts"])?;
        let mut gate = Vec::new();
        for (half, role) in halves.into_iter().zip(["u", "r"]) {
            let sum = self.reduced(Op::ReduceSum, half, &[-1], true, &format!("{role}.sum"))?;
            gate.push(self.step(Op::Sigmoid, &[sum], role)?);
        }
        let scaled = self.step(Op::Mul, &[gate[1], self.0.input(5)?], "r.scaled")?;
        let less = self.by(Op::Sub, scaled, 1.0, "r.less")?;
        let share = self.step(Op::Mul, &[gate[0], less], "share")?;
        let share = self.by(Op::Add, share, 2.0, "share.two")?;
        self.last(Op::Mul, vec![Some(share), self.input(2)], Attributes::new())
    }
}
