//! The context binary: its target, its graphs, and their weights.
//!
//! Layout, little-endian: magic number, `u64` total length, `u64` length of the description, `u64`
//! checksum of the description; the description (target and graphs); the values of static tensors,
//! in order.
//!
//! Invariants:
//! 1. [`Binary::read`] returns only what [`Binary::write`] wrote, except for the values of static
//!    tensors.
//! 2. Lengths are checked before anything is allocated for them.

use crate::bytes::{Reader, Writer};
use crate::{Encoding, Graph, Kind, Linear, Node, Param, Scalar, Tensor};

/// Version of the QNN API that the emulator answers with.
pub const CORE_VERSION: [u32; 3] = [2, 40, 0];
/// Version of its HTP library.
pub const HTP_VERSION: [u32; 3] = [5, 51, 0];
/// Version of its System library.
pub const SYSTEM_VERSION: [u32; 3] = [1, 15, 0];

const MAGIC: [u8; 8] = *b"PCQNNEM1";
const HEADER: usize = 8 + 3 * 8;

/// The target of a binary, and the library that wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Id of the SoC.
    pub soc: u32,
    /// Hexagon architecture, such as 68.
    pub arch: u32,
    /// Build id of the library that wrote it.
    pub build: String,
}

/// The parts of a context binary.
#[derive(Clone, PartialEq, Debug)]
pub struct Binary {
    /// Where it was prepared.
    pub target: Target,
    /// Its graphs.
    pub graphs: Vec<Graph>,
}

/// Why bytes are not a context binary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryError {
    /// They do not begin with the magic number: code 30001.
    NotABinary,
    /// They begin with the magic number, but are truncated or inconsistent: code 30010.
    Malformed,
}

impl Binary {
    /// Writes the binary.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut meta = Writer::default();
        meta.u32(self.target.soc);
        meta.u32(self.target.arch);
        meta.text(&self.target.build);
        meta.count(self.graphs.len());
        for graph in &self.graphs {
            write_graph(&mut meta, graph);
        }
        let values = self.graphs.iter().flat_map(statics);
        let values_len: usize = values.clone().map(|tensor| tensor.data.len()).sum();
        let total = HEADER + meta.0.len() + values_len;
        let mut out = Writer(Vec::with_capacity(total));
        out.0.extend_from_slice(&MAGIC);
        out.u64(total as u64);
        out.u64(meta.0.len() as u64);
        out.u64(sum(&meta.0));
        out.0.extend_from_slice(&meta.0);
        for tensor in values {
            out.0.extend_from_slice(&tensor.data);
        }
        out.0
    }

    /// Reads a binary.
    ///
    /// # Errors
    /// The bytes are not a context binary, or not a complete one.
    pub fn read(bytes: &[u8]) -> Result<Binary, BinaryError> {
        if bytes.len() < MAGIC.len() || bytes[..MAGIC.len()] != MAGIC {
            return Err(BinaryError::NotABinary);
        }
        parse(&bytes[MAGIC.len()..], bytes.len()).ok_or(BinaryError::Malformed)
    }
}

fn parse(bytes: &[u8], whole: usize) -> Option<Binary> {
    let mut header = Reader(bytes);
    let total = usize::try_from(header.u64()?).ok()?;
    let meta_len = usize::try_from(header.u64()?).ok()?;
    let expected = header.u64()?;
    if total > whole {
        return None;
    }
    let meta = header.bytes(meta_len)?;
    if sum(meta) != expected {
        return None;
    }
    let mut r = Reader(meta);
    let target = Target {
        soc: r.u32()?,
        arch: r.u32()?,
        build: r.text()?,
    };
    let count = r.count(12)?;
    let mut graphs = Vec::with_capacity(count);
    for _ in 0..count {
        graphs.push(read_graph(&mut r)?);
    }
    let mut values = header;
    for graph in &mut graphs {
        for tensor in statics_mut(graph) {
            let len = tensor.byte_len()?;
            tensor.data = values.bytes(len)?.into();
        }
        for node in &mut graph.nodes {
            for (_, param) in &mut node.params {
                if let Param::Tensor(tensor) = param {
                    let id = tensor.id;
                    let index = graph.tensors.binary_search_by_key(&id, |t| t.id).ok()?;
                    *tensor = graph.tensors[index].clone();
                }
            }
        }
    }
    Some(Binary { target, graphs })
}

/// The static tensors of a graph. Those of parameters are among them.
fn statics(graph: &Graph) -> impl Iterator<Item = &Tensor> + Clone {
    graph.tensors.iter().filter(|tensor| tensor.kind == Kind::Static)
}

fn statics_mut(graph: &mut Graph) -> impl Iterator<Item = &mut Tensor> {
    graph
        .tensors
        .iter_mut()
        .filter(|tensor| tensor.kind == Kind::Static)
}

/// FNV-1a, a checksum against accidental damage.
#[must_use]
pub fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn write_graph(w: &mut Writer, graph: &Graph) {
    w.text(&graph.name);
    w.u32(graph.half.into());
    w.count(graph.tensors.len());
    for tensor in &graph.tensors {
        write_tensor(w, tensor);
    }
    w.count(graph.nodes.len());
    for node in &graph.nodes {
        w.text(&node.name);
        w.text(&node.package);
        w.text(&node.op);
        w.count(node.params.len());
        for (name, param) in &node.params {
            w.text(name);
            match param {
                Param::Scalar(scalar) => {
                    w.u32(0);
                    w.u32(scalar.dtype);
                    w.u64(scalar.bits);
                }
                Param::Tensor(tensor) => {
                    w.u32(1);
                    w.u32(tensor.id);
                }
            }
        }
        for ids in [&node.inputs, &node.outputs] {
            w.count(ids.len());
            ids.iter().for_each(|&id| w.u32(id));
        }
    }
}

fn read_graph(r: &mut Reader<'_>) -> Option<Graph> {
    let (name, half) = (r.text()?, r.u32()? != 0);
    let count = r.count(24)?;
    let mut tensors = Vec::with_capacity(count);
    for _ in 0..count {
        tensors.push(read_tensor(r)?);
    }
    if !tensors.is_sorted_by(|a: &Tensor, b| a.id < b.id) {
        return None;
    }
    let mut graph = Graph {
        name,
        tensors,
        nodes: Vec::new(),
        half,
    };
    for _ in 0..r.count(24)? {
        let node = read_node(r, &graph)?;
        graph.nodes.push(node);
    }
    Some(graph)
}

fn read_node(r: &mut Reader<'_>, graph: &Graph) -> Option<Node> {
    let (name, package, op) = (r.text()?, r.text()?, r.text()?);
    let mut params = Vec::new();
    for _ in 0..r.count(8)? {
        let name = r.text()?;
        let param = match r.u32()? {
            0 => Param::Scalar(Scalar {
                dtype: r.u32()?,
                bits: r.u64()?,
            }),
            1 => Param::Tensor(graph.tensor(r.u32()?)?.clone()),
            _ => return None,
        };
        params.push((name, param));
    }
    let mut ids = || -> Option<Vec<u32>> {
        let count = r.count(4)?;
        (0..count)
            .map(|_| r.u32().filter(|&id| id == 0 || graph.tensor(id).is_some()))
            .collect()
    };
    Some(Node {
        name,
        package,
        op,
        params,
        inputs: ids()?,
        outputs: ids()?,
    })
}

fn write_tensor(w: &mut Writer, tensor: &Tensor) {
    w.u32(tensor.id);
    w.text(&tensor.name);
    w.u32(tensor.kind as u32);
    w.u32(tensor.format);
    w.u32(tensor.dtype);
    w.count(tensor.dims.len());
    tensor.dims.iter().for_each(|&dim| w.u32(dim));
    w.u32(tensor.encoding.code().unwrap_or(u32::MAX));
    w.u32(tensor.encoding.bits().unwrap_or(0));
    let (axis, steps) = match &tensor.encoding {
        Encoding::PerTensor(step) | Encoding::BitsPerTensor { step, .. } => (0, std::slice::from_ref(step)),
        Encoding::PerAxis { axis, steps } | Encoding::BitsPerAxis { axis, steps, .. } => {
            (*axis, steps.as_slice())
        }
        Encoding::None | Encoding::Other(_) => (0, &[][..]),
    };
    w.u32(axis as u32);
    w.count(steps.len());
    for step in steps {
        w.u32(step.scale.to_bits());
        w.u32(step.offset as u32);
    }
}

fn read_tensor(r: &mut Reader<'_>) -> Option<Tensor> {
    let (id, name) = (r.u32()?, r.text()?);
    let kind = Kind::from_code(r.u32()?)?;
    let (format, dtype) = (r.u32()?, r.u32()?);
    let rank = r.count(4)?;
    let dims = (0..rank).map(|_| r.u32()).collect::<Option<Vec<u32>>>()?;
    let (code, bits, axis) = (r.u32()?, r.u32()?, r.i32()?);
    let count = r.count(8)?;
    let mut steps = Vec::with_capacity(count);
    for _ in 0..count {
        steps.push(Linear {
            scale: r.f32()?,
            offset: r.i32()?,
        });
    }
    let one = steps.first().copied();
    let encoding = match code {
        u32::MAX => Encoding::None,
        0 => Encoding::PerTensor(one?),
        1 => Encoding::PerAxis { axis, steps },
        2 => Encoding::BitsPerTensor { bits, step: one? },
        3 => Encoding::BitsPerAxis { bits, axis, steps },
        other => Encoding::Other(other),
    };
    Some(Tensor {
        id,
        name,
        kind,
        format,
        dtype,
        encoding,
        dims,
        data: Vec::new().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dtype;

    fn tensor(id: u32, kind: Kind, data: &[u8]) -> Tensor {
        Tensor {
            id,
            name: format!("t{id}"),
            kind,
            format: 0,
            dtype: Dtype::Ufixed8.code(),
            encoding: Encoding::PerTensor(Linear {
                scale: 0.5,
                offset: -3,
            }),
            dims: vec![1, 4],
            data: data.into(),
        }
    }

    fn binary() -> Binary {
        let axes = tensor(2, Kind::Static, &[1, 2, 3, 4]);
        Binary {
            target: Target {
                soc: 57,
                arch: 75,
                build: "b".into(),
            },
            graphs: vec![Graph {
                name: "g".into(),
                tensors: vec![
                    tensor(1, Kind::AppWrite, &[]),
                    axes.clone(),
                    Tensor {
                        encoding: Encoding::BitsPerAxis {
                            bits: 4,
                            axis: 1,
                            steps: vec![
                                Linear {
                                    scale: 1.0,
                                    offset: 0
                                };
                                4
                            ],
                        },
                        ..tensor(3, Kind::Static, &[9, 8, 7, 6])
                    },
                ],
                nodes: vec![Node {
                    name: "n".into(),
                    package: "qti.aisw".into(),
                    op: "Relu".into(),
                    params: vec![
                        ("axes".into(), Param::Tensor(axes)),
                        (
                            "k".into(),
                            Param::Scalar(Scalar {
                                dtype: Dtype::Uint32.code(),
                                bits: 7,
                            }),
                        ),
                    ],
                    inputs: vec![1, 0],
                    outputs: vec![3],
                }],
                half: true,
            }],
        }
    }

    #[test]
    fn saved_data_is_read_back() {
        assert_eq!(Binary::read(&binary().write()), Ok(binary()));
    }

    #[test]
    fn damage_is_told_apart() {
        let bytes = binary().write();
        assert_eq!(Binary::read(&vec![0; bytes.len()]), Err(BinaryError::NotABinary));
        assert_eq!(Binary::read(&[]), Err(BinaryError::NotABinary));
        for len in MAGIC.len()..bytes.len() {
            assert_eq!(Binary::read(&bytes[..len]), Err(BinaryError::Malformed), "{len}");
        }
        let mut flipped = bytes.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let read = Binary::read(&flipped).unwrap();
        assert_eq!(read.graphs[0].tensors[2].data[..], [9, 8, 7, 7]);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x55;
            let _ = Binary::read(&flipped);
        }
    }
}
