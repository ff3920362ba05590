//! Parameters of operations, and their types.
//!
//! Source: the checks of the runtime's op builders, recorded in `sys/headers/nnrt.h`.

use std::collections::BTreeMap;

use polychip_sys::nnrt::bindings as sys;

use crate::model::{Model, Operation};

/// Types of parameters, as the runtime's codes, and whether they are lists.
const TRUTH: (u32, bool) = (sys::OH_NN_BOOL, false);
const BYTE: (u32, bool) = (sys::OH_NN_INT8, false);
const INT: (u32, bool) = (sys::OH_NN_INT32, false);
const LONG: (u32, bool) = (sys::OH_NN_INT64, false);
const LONGS: (u32, bool) = (sys::OH_NN_INT64, true);
const REAL: (u32, bool) = (sys::OH_NN_FLOAT32, false);

/// Why an operation is refused, as text for debugging.
pub(crate) type Outcome<T> = std::result::Result<T, String>;

/// The roles that an operation's parameters may have, with their types.
fn rules(operation: u32) -> &'static [(u32, (u32, bool))] {
    match operation {
        sys::OH_NN_OPS_ADD => &[(sys::OH_NN_ADD_ACTIVATIONTYPE, BYTE)],
        sys::OH_NN_OPS_SUB => &[(sys::OH_NN_SUB_ACTIVATIONTYPE, BYTE)],
        sys::OH_NN_OPS_MUL => &[(sys::OH_NN_MUL_ACTIVATION_TYPE, BYTE)],
        sys::OH_NN_OPS_DIV => &[(sys::OH_NN_DIV_ACTIVATIONTYPE, BYTE)],
        sys::OH_NN_OPS_AVG_POOL => &[
            (sys::OH_NN_AVG_POOL_KERNEL_SIZE, LONGS),
            (sys::OH_NN_AVG_POOL_STRIDE, LONGS),
            (sys::OH_NN_AVG_POOL_PAD, LONGS),
            (sys::OH_NN_AVG_POOL_ROUND_MODE, INT),
            (sys::OH_NN_AVG_POOL_ACTIVATION_TYPE, BYTE),
        ],
        sys::OH_NN_OPS_MAX_POOL => &[
            (sys::OH_NN_MAX_POOL_KERNEL_SIZE, LONGS),
            (sys::OH_NN_MAX_POOL_STRIDE, LONGS),
            (sys::OH_NN_MAX_POOL_PAD, LONGS),
            (sys::OH_NN_MAX_POOL_ROUND_MODE, INT),
            (sys::OH_NN_MAX_POOL_ACTIVATION_TYPE, BYTE),
        ],
        sys::OH_NN_OPS_BATCH_NORM => &[(sys::OH_NN_BATCH_NORM_EPSILON, REAL)],
        sys::OH_NN_OPS_CONCAT => &[(sys::OH_NN_CONCAT_AXIS, LONG)],
        sys::OH_NN_OPS_CONV2D => &[
            (sys::OH_NN_CONV2D_STRIDES, LONGS),
            (sys::OH_NN_CONV2D_PAD, LONGS),
            (sys::OH_NN_CONV2D_DILATION, LONGS),
            (sys::OH_NN_CONV2D_GROUP, LONG),
            (sys::OH_NN_CONV2D_ACTIVATION_TYPE, BYTE),
        ],
        sys::OH_NN_OPS_DEPTHWISE_CONV2D_NATIVE => &[
            (sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_STRIDES, LONGS),
            (sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD, LONGS),
            (sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_DILATION, LONGS),
            (sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_ACTIVATION_TYPE, BYTE),
        ],
        sys::OH_NN_OPS_FULL_CONNECTION => &[
            (sys::OH_NN_FULL_CONNECTION_HAS_BIAS, TRUTH),
            (sys::OH_NN_FULL_CONNECTION_ACTIVATIONTYPE, BYTE),
        ],
        sys::OH_NN_OPS_MATMUL => &[
            (sys::OH_NN_MATMUL_TRANSPOSE_A, TRUTH),
            (sys::OH_NN_MATMUL_TRANSPOSE_B, TRUTH),
            (sys::OH_NN_MATMUL_ACTIVATION_TYPE, BYTE),
        ],
        sys::OH_NN_OPS_PAD => &[
            (sys::OH_NN_PAD_CONSTANT_VALUE, REAL),
            (sys::OH_NN_PAD_PADDING_MODE, INT),
        ],
        sys::OH_NN_OPS_SOFTMAX => &[(sys::OH_NN_SOFTMAX_AXIS, LONG)],
        sys::OH_NN_OPS_LOG_SOFTMAX => &[(sys::OH_NN_LOG_SOFTMAX_AXIS, LONG)],
        sys::OH_NN_OPS_SPLIT => &[
            (sys::OH_NN_SPLIT_AXIS, LONG),
            (sys::OH_NN_SPLIT_OUTPUT_NUM, LONG),
            (sys::OH_NN_SPLIT_SIZE_SPLITS, LONGS),
        ],
        sys::OH_NN_OPS_STRIDED_SLICE => &[
            (sys::OH_NN_STRIDED_SLICE_BEGIN_MASK, LONG),
            (sys::OH_NN_STRIDED_SLICE_END_MASK, LONG),
            (sys::OH_NN_STRIDED_SLICE_ELLIPSIS_MASK, LONG),
            (sys::OH_NN_STRIDED_SLICE_NEW_AXIS_MASK, LONG),
            (sys::OH_NN_STRIDED_SLICE_SHRINK_AXIS_MASK, LONG),
        ],
        sys::OH_NN_OPS_REDUCE_MEAN => &[(sys::OH_NN_REDUCE_MEAN_KEEP_DIMS, TRUTH)],
        sys::OH_NN_OPS_REDUCE_PROD => &[(sys::OH_NN_REDUCE_PROD_KEEP_DIMS, TRUTH)],
        sys::OH_NN_OPS_REDUCE_MAX => &[(sys::OH_NN_REDUCE_MAX_KEEP_DIMS, TRUTH)],
        sys::OH_NN_OPS_REDUCE_MIN => &[(sys::OH_NN_REDUCE_MIN_KEEP_DIMS, TRUTH)],
        sys::OH_NN_OPS_REDUCE_SUM => &[(sys::OH_NN_REDUCE_SUM_KEEP_DIMS, TRUTH)],
        sys::OH_NN_OPS_QUANT_DTYPE_CAST => &[
            (sys::OH_NN_QUANT_DTYPE_CAST_SRC_T, LONG),
            (sys::OH_NN_QUANT_DTYPE_CAST_DST_T, LONG),
            (sys::OH_NN_QUANT_DTYPE_CAST_AXIS, LONG),
        ],
        sys::OH_NN_OPS_RESIZE_BILINEAR => &[
            (sys::OH_NN_RESIZE_BILINEAR_NEW_HEIGHT, LONG),
            (sys::OH_NN_RESIZE_BILINEAR_NEW_WIDTH, LONG),
            (sys::OH_NN_RESIZE_BILINEAR_PRESERVE_ASPECT_RATIO, TRUTH),
            (sys::OH_NN_RESIZE_BILINEAR_COORDINATE_TRANSFORM_MODE, BYTE),
            (sys::OH_NN_RESIZE_BILINEAR_EXCLUDE_OUTSIDE, LONG),
        ],
        sys::OH_NN_OPS_LAYER_NORM => &[
            (sys::OH_NN_LAYER_NORM_BEGIN_NORM_AXIS, LONG),
            (sys::OH_NN_LAYER_NORM_EPSILON, REAL),
            (sys::OH_NN_LAYER_NORM_BEGIN_PARAM_AXIS, LONG),
        ],
        sys::OH_NN_OPS_DEPTH_TO_SPACE => &[
            (sys::OH_NN_DEPTH_TO_SPACE_BLOCK_SIZE, LONG),
            (sys::OH_NN_DEPTH_TO_SPACE_MODE, INT),
        ],
        sys::OH_NN_OPS_SPACE_TO_DEPTH => &[(sys::OH_NN_SPACE_TO_DEPTH_BLOCK_SIZE, LONG)],
        sys::OH_NN_OPS_LEAKY_RELU => &[(sys::OH_NN_LEAKY_RELU_NEGATIVE_SLOPE, REAL)],
        _ => &[],
    }
}

/// An operation's parameters by their roles.
pub(super) struct Params(BTreeMap<u32, Vec<u8>>);

impl Params {
    /// The parameters of an operation.
    pub(super) fn of(model: &Model, operation: &Operation) -> Outcome<Params> {
        let mut found = BTreeMap::new();
        for &id in &operation.params {
            let tensor = &model.tensors[id as usize];
            let role = tensor.role;
            let rule = rules(operation.code).iter().find(|(own, _)| *own == role);
            let Some((_, (ty, is_list))) = rule else {
                return Err(format!("operation {} has no parameter {role}", operation.code));
            };
            let value = tensor.value.clone().unwrap_or_default();
            if tensor.ty != *ty || (!is_list && tensor.bytes() != crate::model::width(*ty)) {
                let found = (tensor.ty, &tensor.dims);
                return Err(format!("parameter {role} is of {found:?}, not of type {ty}"));
            }
            if found.insert(role, value).is_some() {
                return Err(format!("parameter {role} is given twice"));
            }
        }
        Ok(Params(found))
    }

    fn bytes<const N: usize>(&self, role: u32) -> Option<[u8; N]> {
        self.0.get(&role)?.as_slice().try_into().ok()
    }

    pub(super) fn byte(&self, role: u32) -> Option<u8> {
        self.bytes::<1>(role).map(|[byte]| byte)
    }

    pub(super) fn truth(&self, role: u32) -> bool {
        self.byte(role).is_some_and(|byte| byte != 0)
    }

    pub(super) fn int(&self, role: u32) -> Option<i32> {
        self.bytes(role).map(i32::from_le_bytes)
    }

    pub(super) fn long(&self, role: u32) -> Outcome<i64> {
        let value = self.bytes(role).map(i64::from_le_bytes);
        value.ok_or_else(|| format!("parameter {role} is left out"))
    }

    pub(super) fn real(&self, role: u32) -> Outcome<f32> {
        let value = self.bytes(role).map(f32::from_le_bytes);
        value.ok_or_else(|| format!("parameter {role} is left out"))
    }

    /// A list of `count` integers.
    pub(super) fn longs(&self, role: u32, count: usize) -> Outcome<Vec<i64>> {
        let words = self.0.get(&role).map(|bytes| bytes.as_chunks::<8>().0);
        match words {
            Some(words) if words.len() == count => {
                Ok(words.iter().map(|word| i64::from_le_bytes(*word)).collect())
            }
            found => Err(format!(
                "parameter {role} has {:?} numbers, not {count}",
                found.map(<[_]>::len)
            )),
        }
    }
}
