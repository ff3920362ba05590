//! Replaces GroupQueryAttention over a cache by rotation and Attention over our KV cache.
//!
//! Invariant: an attribute, input or output that is unknown or not supported is refused by name.
//!
//! Source: the operator's description in ONNX Runtime's documentation (ContribOperators.md).

use polychip_graph::{Node, NodeId, TensorId};
use polychip_ops::{Attr, AttrKey, AttrValue, Attributes, DType, Op};

use super::conversion::GraphConversion;
use super::tensors::{MICROSOFT, is_float, shown};
use crate::build::memory::{self, Heads};
use crate::{Error, Result};

const NAME: &str = "GroupQueryAttention";

/// Supported inputs. Our masks state the lengths of inputs 5 and 6.
const EXPRESSED: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 15];

/// Other inputs, by their names in the operator's description.
const OTHERS: [(usize, &str); 5] = [
    (10, "attention_bias"),
    (11, "head_sink"),
    (12, "k_scale"),
    (13, "v_scale"),
    (16, "query_seqlens"),
];

/// Replaces each layer's attention; returns its new K and V, as ports.
pub(super) fn replace(
    conversion: &mut GraphConversion<'_>,
    pasts: &[[TensorId; 2]],
    placed: Option<TensorId>,
) -> Result<Vec<[TensorId; 2]>> {
    let nodes: Vec<NodeId> = conversion
        .draft
        .graph()
        .nodes()
        .filter(|(_, node)| &*node.domain == MICROSOFT && &*node.op_name == NAME)
        .map(|(id, _)| id)
        .collect();
    let mut kept = vec![None; pasts.len()];
    for id in nodes {
        let node = conversion.draft.graph_mut().remove_node(id);
        let layer = layer_of(&node, pasts)?;
        let slot = &mut kept[layer];
        if slot.is_some() {
            return Err(refused(&node, &format!("layer {layer} has two")));
        }
        *slot = Some(one(conversion, &node, layer as u32, placed)?);
    }
    let missing = kept.iter().position(Option::is_none);
    if let Some(layer) = missing {
        return Err(Error::unsupported(format!(
            "layer {layer} of the graph has no {MICROSOFT}.{NAME}: other forms of attention are not supported"
        )));
    }
    Ok(kept.into_iter().flatten().collect())
}

fn refused(node: &Node, why: &str) -> Error {
    Error::unsupported(format!("node {:?} ({NAME}): {why}", node.name))
}

/// The layer whose cache a node reads.
fn layer_of(node: &Node, pasts: &[[TensorId; 2]]) -> Result<usize> {
    let found = pasts
        .iter()
        .position(|[keys, values]| node.input(3) == Some(*keys) && node.input(4) == Some(*values));
    found.ok_or_else(|| {
        let why = "the past KV cache must belong to one layer, as graph inputs";
        refused(node, why)
    })
}

fn attribute<'a>(node: &'a Node, name: &str) -> Option<&'a AttrValue> {
    node.attributes.get_key(&AttrKey::from_name(name))
}

fn int(node: &Node, name: &str) -> Option<i64> {
    match attribute(node, name)? {
        AttrValue::Int(value) => Some(*value),
        _ => None,
    }
}

fn float(node: &Node, name: &str) -> Option<f32> {
    match attribute(node, name)? {
        AttrValue::Float(value) => Some(*value),
        _ => None,
    }
}

/// Whether an attribute is supported, or has its neutral value.
fn is_expressed(name: &str, value: &AttrValue) -> bool {
    match (name, value) {
        ("num_heads" | "kv_num_heads" | "local_window_size", AttrValue::Int(_)) => true,
        ("do_rotary" | "rotary_interleaved", AttrValue::Int(0 | 1)) => true,
        ("scale" | "qk_norm_epsilon" | "q_norm_epsilon" | "k_norm_epsilon", AttrValue::Float(_)) => true,
        ("smooth_softmax", AttrValue::Int(0 | -1)) | ("causal", AttrValue::Int(1)) => true,
        ("qk_output" | "sliding_window_cache" | "kv_cache_bit_width", AttrValue::Int(0)) => true,
        ("softcap", AttrValue::Float(value)) => *value == 0.0,
        ("k_quant_type" | "v_quant_type", AttrValue::String(kind)) => &**kind == "NONE",
        _ => false,
    }
}

/// Refuses unsupported attributes, inputs and outputs.
fn check(node: &Node, capacity: usize) -> Result<()> {
    for (slot, input) in node.inputs.iter().enumerate() {
        if input.is_none() || EXPRESSED.contains(&slot) {
            continue;
        }
        let name = OTHERS.iter().find(|(known, _)| *known == slot);
        return Err(refused(
            node,
            &match name {
                Some((_, name)) => format!("input {name:?} is not supported"),
                None => format!("input {slot} is unknown and not supported"),
            },
        ));
    }
    match node.outputs.iter().skip(3).position(Option::is_some) {
        Some(0) => return Err(refused(node, "output \"output_qk\" is not supported")),
        Some(at) => {
            let slot = at + 3;
            return Err(refused(
                node,
                &format!("output {slot} is unknown and not supported"),
            ));
        }
        None => {}
    }
    for (key, value) in node.attributes.iter() {
        if !is_expressed(key.name(), value) {
            return Err(refused(
                node,
                &format!(
                    "attribute {:?} is {}, which is not supported",
                    key.name(),
                    shown(value)
                ),
            ));
        }
    }
    match int(node, "local_window_size") {
        Some(window) if window >= 0 && (window as usize) < capacity => Err(refused(
            node,
            &format!(
                "attribute \"local_window_size\" is {window}: an attention window below the context length of {capacity} is not supported"
            ),
        )),
        _ => Ok(()),
    }
}

/// Replaces one node, which was taken out.
fn one(
    conversion: &mut GraphConversion<'_>,
    node: &Node,
    layer: u32,
    placed: Option<TensorId>,
) -> Result<[TensorId; 2]> {
    let capacity = conversion.shape.capacity;
    check(node, capacity)?;
    let sizes = conversion.settings.sizes;
    let heads = Heads {
        heads: conversion.settings.heads as usize,
        kv_heads: sizes.kv_heads as usize,
        size: sizes.head_size as usize,
        scale: float(node, "scale").filter(|scale| *scale != 0.0),
        cap: None,
        is_windowed: false,
        sinks: None,
    };
    let stated = ["num_heads", "kv_num_heads"].map(|name| int(node, name));
    if stated != [Some(heads.heads as i64), Some(heads.kv_heads as i64)] {
        return Err(refused(
            node,
            &format!(
                "it has {stated:?} query and key heads, but genai_config.json states {} and {}",
                heads.heads, heads.kv_heads
            ),
        ));
    }
    if !heads.heads.is_multiple_of(heads.kv_heads) || !heads.size.is_multiple_of(2) {
        return Err(refused(
            node,
            "the number of heads must be a multiple of the key heads, and the head size must be even",
        ));
    }
    let (past, query) = (node.input(3), node.input(0));
    let (Some(past), Some(query)) = (past, query) else {
        return Err(refused(node, "inputs are missing"));
    };
    let dtype = conversion.draft.graph().tensor(past).ty.dtype;
    if !is_float(dtype) {
        return Err(refused(
            node,
            &format!("a KV cache of type {dtype:?} is not supported"),
        ));
    }
    let rows = conversion.shape.rows;
    // products of 32 bits, as settings are read
    let widths = [heads.heads, heads.kv_heads, heads.kv_heads].map(|count| count * heads.size);
    let given = match (node.input(1), node.input(2)) {
        (Some(k), Some(v)) => [query, k, v],
        (None, None) => {
            let all = widths
                .iter()
                .try_fold(0usize, |all, width| all.checked_add(*width));
            let all = all.ok_or_else(|| {
                refused(
                    node,
                    &format!("unsupported query, key and value widths {widths:?}"),
                )
            })?;
            let packed = conversion.draft.reshape(query, dtype, &[1, rows, all]);
            let pieces = conversion.draft.pieces(packed, &widths, dtype, &[1, rows]);
            [pieces[0], pieces[1], pieces[2]]
        }
        _ => return Err(refused(node, "keys without values, or values without keys")),
    };
    let mut qkv = [given[0]; 3];
    for ((to, x), width) in qkv.iter_mut().zip(given).zip(widths) {
        let shape = [1, rows, width];
        let x = conversion.draft.reshape(x, dtype, &shape);
        *to = match dtype {
            DType::F32 => x,
            _ => conversion.draft.cast(x, DType::F32, &shape),
        };
    }
    let [mut q, mut k, v] = qkv;
    for (x, slot, count, own) in [
        (&mut q, 14, heads.heads, "q_norm_epsilon"),
        (&mut k, 15, heads.kv_heads, "k_norm_epsilon"),
    ] {
        if let Some(weights) = node.input(slot) {
            let epsilon = float(node, own).or_else(|| float(node, "qk_norm_epsilon"));
            *x = normalised(
                conversion,
                *x,
                weights,
                [rows, count, heads.size],
                epsilon.unwrap_or(1e-6),
            );
        }
    }
    if int(node, "do_rotary").unwrap_or(0) != 0 {
        let rotation = Rotation::of(conversion, node, &heads, placed)?;
        q = rotation.rotated(conversion, q, [rows, heads.heads, heads.size]);
        k = rotation.rotated(conversion, k, [rows, heads.kv_heads, heads.size]);
    }
    let shape = [1, rows, widths[1]];
    let [(keys, k), (values, v)] = [k, v].map(|x| memory::rounded(&mut conversion.draft, x, &shape));
    let mut y = conversion
        .ports
        .attention(&mut conversion.draft, layer, heads, [q, k, v]);
    if dtype != DType::F32 {
        y = conversion.draft.cast(y, dtype, &[1, rows, widths[0]]);
    }
    let graph = conversion.draft.graph_mut();
    if let Some(output) = node.output(0) {
        graph.replace_uses(output, y);
    }
    // other readers of the present K and V must not use their declared length
    for given in [1, 2].into_iter().filter_map(|slot| node.output(slot)) {
        graph.tensor_mut(given).ty.shape = None;
    }
    for (name, id) in [("key", keys), ("value", values)] {
        graph.tensor_mut(id).name = format!("{name}.{layer}");
    }
    Ok([keys, values])
}

/// `[1, rows, heads * size]`, each head divided by its root mean square.
fn normalised(
    conversion: &mut GraphConversion<'_>,
    x: TensorId,
    weights: TensorId,
    [rows, count, size]: [usize; 3],
    epsilon: f32,
) -> TensorId {
    let by_head = [rows * count, size];
    let x = conversion.draft.reshape(x, DType::F32, &by_head);
    let weights = match conversion.draft.graph().tensor(weights).ty.dtype {
        DType::F32 => weights,
        _ => conversion.draft.cast(weights, DType::F32, &[size]),
    };
    let attributes = Attributes::new()
        .with_int(Attr::Axis, -1)
        .with_float(Attr::Epsilon, epsilon);
    let y = conversion.draft.node(
        Op::RMSNormalization,
        &[x, weights],
        attributes,
        DType::F32,
        &by_head,
    );
    conversion.draft.reshape(y, DType::F32, &[1, rows, count * size])
}

/// How values are rotated by their positions.
struct Rotation {
    cosines: TensorId,
    sines: TensorId,
    interleaved: i64,
    /// Number of rotated values of a head; 0 is all.
    dims: i64,
}

impl Rotation {
    fn of(
        conversion: &mut GraphConversion<'_>,
        node: &Node,
        heads: &Heads,
        placed: Option<TensorId>,
    ) -> Result<Rotation> {
        let positions = node.input(9);
        if positions.is_some() && positions != placed {
            let why = "its positions must come from the graph's position input";
            return Err(refused(node, why));
        }
        let capacity = conversion.shape.capacity;
        let mut tables = [None; 2];
        let mut half = 0;
        for (table, (slot, name)) in tables.iter_mut().zip([(7, "cos_cache"), (8, "sin_cache")]) {
            let id = node
                .input(slot)
                .ok_or_else(|| refused(node, &format!("input {name:?} is missing")))?;
            let tensor = conversion.draft.graph().tensor(id);
            let (dtype, sizes) = (tensor.ty.dtype, tensor.ty.sizes());
            let (Some(&[count, width]), true) = (sizes.as_deref(), tensor.is_constant() && is_float(dtype))
            else {
                return Err(refused(
                    node,
                    &format!("input {name:?} must be a constant table of floats"),
                ));
            };
            if count < capacity {
                return Err(refused(
                    node,
                    &format!(
                        "input {name:?} has angles for {count} positions, fewer than the context length of {capacity}"
                    ),
                ));
            }
            let fits = width > 0 && 2 * width <= heads.size && (half == 0 || half == width);
            if !fits {
                return Err(refused(
                    node,
                    &format!(
                        "input {name:?} with {width} angles does not fit head size {}",
                        heads.size
                    ),
                ));
            }
            half = width;
            *table = Some(match dtype {
                DType::F32 => id,
                _ => conversion.draft.cast(id, DType::F32, &[count, width]),
            });
        }
        let [Some(cosines), Some(sines)] = tables else {
            return Err(refused(node, "angle tables are missing"));
        };
        Ok(Rotation {
            cosines,
            sines,
            interleaved: int(node, "rotary_interleaved").unwrap_or(0),
            dims: if 2 * half == heads.size {
                0
            } else {
                2 * half as i64
            },
        })
    }

    fn rotated(
        &self,
        conversion: &mut GraphConversion<'_>,
        x: TensorId,
        [rows, count, size]: [usize; 3],
    ) -> TensorId {
        let attributes = Attributes::new()
            .with_int(Attr::NumHeads, count as i64)
            .with_int(Attr::Interleaved, self.interleaved)
            .with_int(Attr::RotaryEmbeddingDim, self.dims);
        let inputs = [x, self.cosines, self.sines, conversion.ports.positions];
        let shape = [1, rows, count * size];
        conversion
            .draft
            .node(Op::RotaryEmbedding, &inputs, attributes, DType::F32, &shape)
    }
}
