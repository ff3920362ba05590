//! Matrix products: by constants as fully connected layers, else as products of two tensors.
//!
//! Invariant: weights of a fully connected layer are `[units, in]`; its input and output have two axes.

use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex};
use polychip_ops::Attr;
use polychip_sdk::Encoding;

use super::builder::{Domain, Lower, int};
use crate::program::{Param, Quant, TensorId};

impl Lower<'_> {
    fn own_encoding(&self, tensor: TensorIndex) -> Option<Encoding> {
        self.view(tensor).encoding.clone()
    }

    /// A product of integers by constant ones, whose encodings the node names.
    pub(super) fn integer_matmul(&mut self, node: &Node) -> Outcome<()> {
        let ty = self.named_alike(node)?;
        let (left, right) = (self.input(node, 0)?, self.input(node, 3)?);
        if self.shape(right)?.len() != 2 {
            return Err(Refusal::shape("QLinearMatMul by other than a matrix"));
        }
        let encoding = self.named_weights(node, right, 1)?;
        let input = self.read(left, Layout::RowMajor)?;
        let output = self.output(node, 0)?;
        let weights = (right, Some(encoding));
        self.connected(input, weights, false, None, (1.0, 1.0), output, Domain::Fixed(ty))
    }

    /// `[rows, in] × weights`, with a bias.
    fn connected(
        &mut self,
        input: TensorId,
        (weights, encoding): (TensorIndex, Option<Encoding>),
        transposed: bool,
        bias: Option<TensorIndex>,
        (alpha, beta): (f32, f32),
        output: TensorIndex,
        domain: Domain,
    ) -> Outcome<()> {
        let shape = self.shape(weights)?;
        let (permutation, axis) = if transposed { ([0, 1], 0) } else { ([1, 0], 1) };
        let units = shape[axis];
        let inner = shape[1 - axis];
        let elements: usize = self.dims_of(input).iter().product();
        let rows = elements / inner.max(1);
        let input = self.reshaped(input, &[rows, inner]);
        let input = self.widened_for(input, output)?;
        let domain = self.domain_of(input, domain);
        let weights = self.scaled_weights(weights, &permutation, axis, domain, encoding, alpha)?;
        let mut inputs = vec![input, weights.id];
        if let Some(bias) = bias {
            inputs.push(self.scaled_bias(bias, units, input, &weights, beta)?);
        }
        let info = self.info(output)?;
        let out = self.native("product", info.ty, info.quant, &[rows, units]);
        self.op("FullyConnected", Vec::new(), &inputs, &[out]);
        self.settle(out, output, Layout::RowMajor)
    }

    pub(super) fn gemm(&mut self, node: &Node, domain: Domain) -> Outcome<()> {
        let (alpha, beta) = (
            node.attributes.float(Attr::Alpha).unwrap_or(1.0),
            node.attributes.float(Attr::Beta).unwrap_or(1.0),
        );
        let sum = node.input(2);
        let (left, right) = (self.input(node, 0)?, self.input(node, 1)?);
        let output = self.output(node, 0)?;
        let (trans_a, trans_b) = (int(node, Attr::TransA, 0) != 0, int(node, Attr::TransB, 0) != 0);
        let units = self.shape(output)?[1];
        // a bias has one element per unit
        let is_bias = |lower: &Self, tensor: TensorIndex| {
            let shape = lower.shape(tensor).unwrap_or_default();
            let row = matches!(shape[..], [n] | [1, n] if n == units) || shape.iter().product::<usize>() == 1;
            lower.view(tensor).is_constant() && row
        };
        let bias = sum.filter(|&tensor| is_bias(self, tensor));
        if sum.is_some() && bias.is_none() && !matches!(domain, Domain::Float(_)) {
            return Err(Refusal::encoding(
                "a sum that is no constant row: the product before it has no encoding",
            ));
        }
        let folds = self.view(right).is_constant() && sum == bias && alpha > 0.0;
        if !folds && (alpha != 1.0 || (beta != 1.0 && sum.is_some())) {
            let what = format!("alpha {alpha}, beta {beta} beside operands that are no constants");
            return Err(Refusal::attribute(what));
        }
        if folds {
            let mut input = self.read(left, Layout::RowMajor)?;
            if trans_a {
                input = self.transposed(input, &[1, 0]);
            }
            let weights = (right, self.own_encoding(right));
            return self.connected(input, weights, trans_b, bias, (alpha, beta), output, domain);
        }
        if !matches!(domain, Domain::Float(_)) && sum.is_some() {
            return Err(Refusal::encoding(
                "a sum behind a product of two tensors: the product has no encoding",
            ));
        }
        let (a, b) = (
            self.operand(left, Layout::RowMajor, 2, domain)?,
            self.operand(right, Layout::RowMajor, 2, domain)?,
        );
        let params = vec![
            ("transpose_in0", Param::Bool(trans_a)),
            ("transpose_in1", Param::Bool(trans_b)),
        ];
        let Some(sum) = sum else {
            let out = self.write(output, Layout::RowMajor)?;
            self.op("MatMul", params, &[a, b], &[out]);
            return Ok(());
        };
        let info = self.info(output)?;
        let product = self.native("product", info.ty, Quant::None, &info.shape);
        self.op("MatMul", params, &[a, b], &[product]);
        let sum = self.operand(sum, Layout::RowMajor, 2, domain)?;
        let out = self.write(output, Layout::RowMajor)?;
        self.op("ElementWiseAdd", Vec::new(), &[product, sum], &[out]);
        Ok(())
    }

    pub(super) fn matmul(&mut self, node: &Node, domain: Domain) -> Outcome<()> {
        if domain == Domain::Whole {
            return Err(Refusal::new(
                polychip_sdk::Reason::DType,
                "a product of plain integers",
            ));
        }
        let (left, right) = (self.input(node, 0)?, self.input(node, 1)?);
        let output = self.output(node, 0)?;
        let (a, b) = (self.shape(left)?, self.shape(right)?);
        if self.view(right).is_constant() && b.len() == 2 && !self.view(left).is_constant() {
            let input = self.read(left, Layout::RowMajor)?;
            let weights = (right, self.own_encoding(right));
            return self.connected(input, weights, false, None, (1.0, 1.0), output, domain);
        }
        let mut left = self.operand(left, Layout::RowMajor, a.len(), domain)?;
        let mut right = self.operand(right, Layout::RowMajor, b.len(), domain)?;
        if a.len() == 1 {
            left = self.reshaped(left, &[1, a[0]]);
        }
        if b.len() == 1 {
            right = self.reshaped(right, &[b[0], 1]);
        }
        let mut dims = self.shape(output)?;
        if a.len() == 1 {
            dims.insert(dims.len() - usize::from(b.len() > 1), 1);
        }
        if b.len() == 1 {
            dims.push(1);
        }
        let info = self.info(output)?;
        let out = self.native("product", info.ty, info.quant, &dims);
        let params = vec![
            ("transpose_in0", Param::Bool(false)),
            ("transpose_in1", Param::Bool(false)),
        ];
        self.op("MatMul", params, &[left, right], &[out]);
        self.settle(out, output, Layout::RowMajor)
    }
}
