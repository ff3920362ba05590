//! A small client of the two libraries, through the loader that the plugin uses.
//!
//! Invariant: what a C struct points to is owned by the same value and outlives the call.

#![allow(unsafe_code, dead_code)]

use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use polychip_sys::qnn::{self as sys, Qnn};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// The libraries, built from the sources as they are.
pub(crate) fn qnn() -> &'static Qnn {
    let htp = polychip_device_tests::libraries::library("polychip-emulator-qnn", "QnnHtp").unwrap();
    polychip_device_tests::libraries::library("polychip-emulator-qnn-system", "QnnSystem").unwrap();
    Qnn::load(htp.parent()).unwrap()
}

/// What is global to the process: one test at a time, and no faults of another one.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    faults("");
    guard
}

fn symbol<T: Copy>(name: &str) -> T {
    // SAFETY: the library stays mapped, and `T` is the type of its export.
    unsafe {
        let library = libloading::Library::new(qnn().path()).unwrap();
        let symbol = *library.get::<T>(name).unwrap();
        std::mem::forget(library);
        symbol
    }
}

/// Sets the injected faults.
pub(crate) fn faults(rules: &str) -> i32 {
    let set: unsafe extern "C" fn(*const std::ffi::c_char) -> i32 = symbol("polychip_emulator_qnn_faults");
    let rules = CString::new(rules).unwrap();
    // SAFETY: a terminated text.
    unsafe { set(rules.as_ptr()) }
}

/// How many objects live: backends, devices, contexts, graphs, tensors, profiles.
pub(crate) fn live() -> [u64; 6] {
    let live: extern "C" fn(u32) -> u64 = symbol("polychip_emulator_qnn_live");
    std::array::from_fn(|kind| live(kind as u32))
}

pub(crate) fn table() -> &'static sys::Table {
    qnn().table()
}

/// A call of the table.
#[macro_export]
macro_rules! call {
    ($name:ident, $($arg:expr),*) => {{
        let function = $crate::client::table().$name.expect(stringify!($name));
        // the arguments of these tests are plain values
        #[allow(clippy::macro_metavars_in_unsafe)]
        // SAFETY: the arguments are what the interface asks for.
        let code = unsafe { function($($arg),*) };
        code
    }};
}

/// A tensor and what it points to.
pub(crate) struct T {
    pub(crate) name: CString,
    pub(crate) kind: u32,
    pub(crate) dtype: u32,
    pub(crate) dims: Vec<u32>,
    pub(crate) data: Vec<u8>,
    pub(crate) id: u32,
    pub(crate) version: u32,
    quant: sys::Quant,
    pairs: Vec<sys::ScaleOffset>,
    scales: Vec<f32>,
    offsets: Vec<i32>,
}

// SAFETY: its pointers lead into its own memory, which no other code changes.
unsafe impl Sync for T {}
// SAFETY: as above.
unsafe impl Send for T {}

pub(crate) const IN: u32 = sys::POLYCHIP_QNN_TENSOR_INPUT;
pub(crate) const OUT: u32 = sys::POLYCHIP_QNN_TENSOR_OUTPUT;
pub(crate) const NATIVE: u32 = sys::POLYCHIP_QNN_TENSOR_NATIVE;
pub(crate) const STATIC: u32 = sys::POLYCHIP_QNN_TENSOR_STATIC;
pub(crate) const U8: u32 = sys::POLYCHIP_QNN_TYPE_UFIXED8;
pub(crate) const S8: u32 = sys::POLYCHIP_QNN_TYPE_SFIXED8;
pub(crate) const U16: u32 = sys::POLYCHIP_QNN_TYPE_UFIXED16;
pub(crate) const S16: u32 = sys::POLYCHIP_QNN_TYPE_SFIXED16;
pub(crate) const S32: u32 = sys::POLYCHIP_QNN_TYPE_SFIXED32;
pub(crate) const F32: u32 = sys::POLYCHIP_QNN_TYPE_F32;
pub(crate) const F16: u32 = sys::POLYCHIP_QNN_TYPE_F16;
pub(crate) const I32: u32 = sys::POLYCHIP_QNN_TYPE_I32;

impl T {
    pub(crate) fn new(name: &str, kind: u32, dtype: u32, dims: &[u32]) -> T {
        T {
            name: CString::new(name).unwrap(),
            kind,
            dtype,
            dims: dims.to_vec(),
            data: Vec::new(),
            id: 0,
            version: 1,
            quant: sys::Quant {
                definition: sys::POLYCHIP_QNN_QUANT_NONE,
                encoding: sys::POLYCHIP_QNN_QUANT_NONE,
                values: sys::Encoding {
                    per_tensor: sys::ScaleOffset {
                        scale: 0.0,
                        offset: 0,
                    },
                },
            },
            pairs: Vec::new(),
            scales: Vec::new(),
            offsets: Vec::new(),
        }
    }

    /// One scale; the zero point is minus the offset.
    pub(crate) fn scale(mut self, scale: f32, zero_point: i32) -> T {
        self.quant = sys::Quant {
            definition: sys::POLYCHIP_QNN_QUANT_DEFINED,
            encoding: sys::POLYCHIP_QNN_ENCODING_PER_TENSOR,
            values: sys::Encoding {
                per_tensor: sys::ScaleOffset {
                    scale,
                    offset: -zero_point,
                },
            },
        };
        self
    }

    /// Symmetric scales along an axis.
    pub(crate) fn per_axis(mut self, axis: i32, scales: &[f32]) -> T {
        self.pairs = scales
            .iter()
            .map(|&scale| sys::ScaleOffset { scale, offset: 0 })
            .collect();
        self.quant = sys::Quant {
            definition: sys::POLYCHIP_QNN_QUANT_DEFINED,
            encoding: sys::POLYCHIP_QNN_ENCODING_PER_AXIS,
            values: sys::Encoding {
                per_axis: sys::polychip_qnn_per_axis {
                    axis,
                    count: scales.len() as u32,
                    pairs: self.pairs.as_mut_ptr(),
                },
            },
        };
        self
    }

    /// Symmetric scales along an axis, of fewer bits.
    pub(crate) fn bits_per_axis(mut self, bits: u32, axis: i32, scales: &[f32]) -> T {
        self.scales = scales.to_vec();
        self.offsets = vec![0; scales.len()];
        self.quant = sys::Quant {
            definition: sys::POLYCHIP_QNN_QUANT_DEFINED,
            encoding: sys::POLYCHIP_QNN_ENCODING_BITS_PER_AXIS,
            values: sys::Encoding {
                bits_per_axis: sys::polychip_qnn_bits_per_axis {
                    bits,
                    axis,
                    count: scales.len() as u32,
                    scales: self.scales.as_mut_ptr(),
                    offsets: self.offsets.as_mut_ptr(),
                },
            },
        };
        self
    }

    pub(crate) fn data(mut self, data: impl Into<Vec<u8>>) -> T {
        self.data = data.into();
        self
    }

    pub(crate) fn v2(mut self) -> T {
        self.version = 2;
        self
    }

    pub(crate) fn elements(&self) -> usize {
        self.dims.iter().product::<u32>() as usize
    }

    /// The C struct; valid as long as `self`.
    pub(crate) fn raw(&self) -> sys::Tensor {
        self.with(self.data.as_ptr().cast_mut().cast(), self.data.len())
    }

    /// The C struct with another buffer.
    pub(crate) fn with(&self, data: *mut c_void, size: usize) -> sys::Tensor {
        sys::Tensor {
            version: self.version,
            tensor: sys::polychip_qnn_tensor_versions {
                v2: sys::TensorV2 {
                    id: self.id,
                    name: self.name.as_ptr(),
                    kind: self.kind,
                    format: 0,
                    data_type: self.dtype,
                    quant: self.quant,
                    rank: self.dims.len() as u32,
                    dimensions: self.dims.as_ptr().cast_mut(),
                    memory_type: sys::POLYCHIP_QNN_MEMORY_RAW,
                    memory: sys::polychip_qnn_tensor_memory {
                        buffer: sys::ClientBuffer {
                            data,
                            size: size as u32,
                        },
                    },
                    dynamic_dimensions: ptr::null_mut(),
                    sparse: sys::polychip_qnn_sparse { words: [0; 3] },
                    produced: 0,
                },
            },
        }
    }
}

/// A parameter.
pub(crate) enum P {
    Scalar(CString, u32, u32),
    Tensor(CString, T),
}

impl P {
    pub(crate) fn u32(name: &str, value: u32) -> P {
        P::Scalar(CString::new(name).unwrap(), sys::POLYCHIP_QNN_TYPE_U32, value)
    }

    pub(crate) fn f32(name: &str, value: f32) -> P {
        P::Scalar(CString::new(name).unwrap(), F32, value.to_bits())
    }

    pub(crate) fn flag(name: &str, value: bool) -> P {
        P::Scalar(
            CString::new(name).unwrap(),
            sys::POLYCHIP_QNN_TYPE_BOOL8,
            value.into(),
        )
    }

    pub(crate) fn u32s(name: &str, dims: &[u32], values: &[u32]) -> P {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let unique = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let tensor = T::new(
            &format!("{name}_{unique}"),
            STATIC,
            sys::POLYCHIP_QNN_TYPE_U32,
            dims,
        );
        P::Tensor(CString::new(name).unwrap(), tensor.data(bytes))
    }

    fn raw(&self) -> sys::Param {
        match self {
            P::Scalar(name, data_type, bits) => sys::Param {
                kind: sys::POLYCHIP_QNN_PARAM_SCALAR,
                name: name.as_ptr(),
                value: sys::polychip_qnn_param_value {
                    scalar: sys::Scalar {
                        data_type: *data_type,
                        value: sys::polychip_qnn_scalar_value {
                            unsigned64: u64::from(*bits),
                        },
                    },
                },
            },
            P::Tensor(name, tensor) => sys::Param {
                kind: sys::POLYCHIP_QNN_PARAM_TENSOR,
                name: name.as_ptr(),
                value: sys::polychip_qnn_param_value { tensor: tensor.raw() },
            },
        }
    }
}

/// Calls `f` with the C struct of a node.
fn with_op<R>(
    kind: &str,
    package: &str,
    params: &[P],
    inputs: &[&T],
    outputs: &[&T],
    f: impl FnOnce(sys::OpConfig) -> R,
) -> R {
    let (kind, package) = (CString::new(kind).unwrap(), CString::new(package).unwrap());
    let mut params: Vec<sys::Param> = params.iter().map(P::raw).collect();
    let mut inputs: Vec<sys::Tensor> = inputs.iter().map(|t| t.raw()).collect();
    let mut outputs: Vec<sys::Tensor> = outputs.iter().map(|t| t.raw()).collect();
    f(sys::OpConfig {
        version: 1,
        op: sys::polychip_qnn_op_config_versions {
            v1: sys::OpConfigV1 {
                name: c"node".as_ptr(),
                package_name: package.as_ptr(),
                type_name: kind.as_ptr(),
                param_count: params.len() as u32,
                params: params.as_mut_ptr(),
                input_count: inputs.len() as u32,
                inputs: inputs.as_mut_ptr(),
                output_count: outputs.len() as u32,
                outputs: outputs.as_mut_ptr(),
            },
        },
    })
}

/// A new backend.
pub(crate) fn backend() -> sys::Backend {
    let mut backend = ptr::null_mut();
    assert_eq!(
        call!(backend_create, ptr::null_mut(), ptr::null(), &raw mut backend),
        0
    );
    backend
}

/// Creates a device with the words of a custom configuration, or without one.
pub(crate) fn device(words: Option<[u32; 8]>) -> Result<sys::Device, u64> {
    let mut device = ptr::null_mut();
    let code = match words {
        None => call!(device_create, ptr::null_mut(), ptr::null(), &raw mut device),
        Some(words) => {
            let entry = sys::Config {
                option: sys::POLYCHIP_QNN_CONFIG_CUSTOM,
                value: sys::polychip_qnn_config_value {
                    custom: words.as_ptr().cast(),
                },
            };
            let list = [&raw const entry, ptr::null()];
            call!(device_create, ptr::null_mut(), list.as_ptr(), &raw mut device)
        }
    };
    if code == 0 { Ok(device) } else { Err(code) }
}

/// A device for a SoC, with the id at both offsets.
pub(crate) fn device_for(soc: u32) -> Result<sys::Device, u64> {
    device(Some([0, soc, soc, 0, 0, 0, 0, 0]))
}

/// What `validateOpConfig` says.
pub(crate) fn validate(backend: sys::Backend, op: &str, params: &[P], inputs: &[&T], outputs: &[&T]) -> u64 {
    with_op(op, "qti.aisw", params, inputs, outputs, |op| {
        call!(validate_op_config, backend, op)
    })
}

/// Backend, device and context.
pub(crate) struct Session {
    pub(crate) backend: sys::Backend,
    pub(crate) device: sys::Device,
    pub(crate) context: sys::Context,
}

// SAFETY: handles are numbers; the library is to be called from any thread.
unsafe impl Sync for Session {}
// SAFETY: as above.
unsafe impl Send for Session {}

impl Session {
    pub(crate) fn new(soc: Option<u32>) -> Session {
        let backend = backend();
        let device = soc.map_or_else(|| device(None), device_for).unwrap();
        let mut context = ptr::null_mut();
        assert_eq!(
            call!(context_create, backend, device, ptr::null(), &raw mut context),
            0
        );
        Session {
            backend,
            device,
            context,
        }
    }

    /// A context of a binary, with some graphs enabled.
    pub(crate) fn from_binary(
        soc: Option<u32>,
        binary: &[u8],
        enabled: Option<&[&CStr]>,
    ) -> Result<Session, u64> {
        let backend = backend();
        let device = soc.map_or_else(|| device(None), device_for).unwrap();
        let mut context = ptr::null_mut();
        let mut names: Vec<*const std::ffi::c_char> = enabled
            .unwrap_or_default()
            .iter()
            .map(|name| name.as_ptr())
            .collect();
        names.push(ptr::null());
        let entry = sys::Config {
            option: sys::POLYCHIP_QNN_CONTEXT_CONFIG_ENABLE_GRAPHS,
            value: sys::polychip_qnn_config_value {
                texts: names.as_ptr(),
            },
        };
        let list = [&raw const entry, ptr::null()];
        let config = if enabled.is_some() {
            list.as_ptr()
        } else {
            ptr::null()
        };
        let code = call!(
            create_from_binary,
            backend,
            device,
            config,
            binary.as_ptr().cast(),
            binary.len() as u64,
            &raw mut context,
            ptr::null_mut()
        );
        let session = Session {
            backend,
            device,
            context,
        };
        if code == 0 { Ok(session) } else { Err(code) }
    }

    pub(crate) fn graph(&self, name: &CStr) -> G {
        let mut graph = ptr::null_mut();
        let code = call!(
            graph_create,
            self.context,
            name.as_ptr(),
            ptr::null(),
            &raw mut graph
        );
        assert_eq!(code, 0);
        G { graph }
    }

    pub(crate) fn retrieve(&self, name: &CStr) -> Result<G, u64> {
        let mut graph = ptr::null_mut();
        match call!(retrieve, self.context, name.as_ptr(), &raw mut graph) {
            0 => Ok(G { graph }),
            code => Err(code),
        }
    }

    pub(crate) fn binary(&self) -> Vec<u8> {
        let (mut size, mut written) = (0, 0);
        assert_eq!(call!(binary_size, self.context, &raw mut size), 0);
        let mut bytes = vec![0u8; size as usize];
        let code = call!(
            get_binary,
            self.context,
            bytes.as_mut_ptr().cast(),
            size,
            &raw mut written
        );
        assert_eq!((code, written), (0, size));
        bytes
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.context.is_null() {
            call!(context_free, self.context, ptr::null_mut());
        }
        call!(device_free, self.device);
        call!(backend_free, self.backend);
    }
}

/// A graph.
#[derive(Clone, Copy)]
pub(crate) struct G {
    pub(crate) graph: sys::Graph,
}

// SAFETY: a handle is a number.
unsafe impl Sync for G {}
// SAFETY: as above.
unsafe impl Send for G {}

impl G {
    /// Creates a tensor; its id is kept.
    pub(crate) fn tensor(self, tensor: &mut T) -> u64 {
        let mut raw = tensor.raw();
        let code = call!(create_graph_tensor, self.graph, &raw mut raw);
        // SAFETY: both versions begin with the id.
        tensor.id = unsafe { raw.tensor.v1.id };
        code
    }

    /// Adds a node, and its tensor parameters first.
    pub(crate) fn node(self, op: &str, params: &mut [P], inputs: &[&T], outputs: &[&T]) -> u64 {
        for param in params.iter_mut() {
            if let P::Tensor(_, tensor) = param {
                assert_eq!(self.tensor(tensor), 0);
            }
        }
        with_op(op, "qti.aisw", params, inputs, outputs, |op| {
            call!(add_node, self.graph, op)
        })
    }

    pub(crate) fn finalize(self) -> u64 {
        call!(finalize, self.graph, ptr::null_mut(), ptr::null_mut())
    }

    /// Runs the graph over one input and one output.
    pub(crate) fn run(self, input: &T, x: &[u8], output: &T, y: &mut [u8]) -> u64 {
        self.execute(&[(input, x)], &mut [(output, y)])
    }

    pub(crate) fn execute(self, inputs: &[(&T, &[u8])], outputs: &mut [(&T, &mut [u8])]) -> u64 {
        let inputs: Vec<sys::Tensor> = inputs
            .iter()
            .map(|(tensor, data)| tensor.with(data.as_ptr().cast_mut().cast(), data.len()))
            .collect();
        let mut outputs: Vec<sys::Tensor> = outputs
            .iter_mut()
            .map(|(tensor, data)| tensor.with(data.as_mut_ptr().cast(), data.len()))
            .collect();
        call!(
            execute,
            self.graph,
            inputs.as_ptr(),
            inputs.len() as u32,
            outputs.as_mut_ptr(),
            outputs.len() as u32,
            ptr::null_mut(),
            ptr::null_mut()
        )
    }
}

/// A small graph: relu of u8 with the same encoding on both sides, so that 10 becomes 128 and 200 stays.
pub(crate) fn relu(session: &Session, name: &CStr) -> (G, T, T) {
    let graph = session.graph(name);
    let mut x = T::new("x", IN, U8, &[1, 4]).scale(0.5, 128);
    let mut y = T::new("y", OUT, U8, &[1, 4]).scale(0.5, 128);
    assert_eq!(graph.tensor(&mut x), 0);
    assert_eq!(graph.tensor(&mut y), 0);
    assert_eq!(graph.node("Relu", &mut [], &[&x], &[&y]), 0);
    (graph, x, y)
}

/// Random bytes, the same everywhere.
pub(crate) fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
