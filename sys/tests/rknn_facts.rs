//! Sizes and offsets of Rockchip's runtime as noted of release 2.3.2 on 64-bit machines, against our declarations.
//!
//! Invariant: every number here is a noted fact; none was copied from what a compiler made of our header.

#![cfg(all(feature = "rknn", target_pointer_width = "64"))]

use std::mem::{offset_of, size_of};

use polychip_sys::rknn::bindings::*;

#[test]
fn sizes() {
    for (name, found, fact) in [
        ("context", size_of::<rknn_context>(), 8),
        ("attributes of a tensor", size_of::<rknn_tensor_attr>(), 376),
        ("memory", size_of::<rknn_tensor_mem>(), 40),
        ("input", size_of::<rknn_input>(), 32),
        ("output", size_of::<rknn_output>(), 24),
        ("extension of init", size_of::<rknn_init_extend>(), 136),
        ("extension of run", size_of::<rknn_run_extend>(), 24),
        ("extension of outputs", size_of::<rknn_output_extend>(), 8),
        ("counts", size_of::<rknn_counts>(), 8),
        ("times of layers", size_of::<rknn_times>(), 16),
        ("time of a run", size_of::<rknn_run_time>(), 8),
        ("versions", size_of::<rknn_versions>(), 512),
        ("memory sizes", size_of::<rknn_memory_sizes>(), 64),
        ("custom string", size_of::<rknn_custom_string>(), 1024),
    ] {
        assert_eq!(found, fact, "{name}");
    }
}

#[test]
fn offsets() {
    for (name, found, fact) in [
        ("rank", offset_of!(rknn_tensor_attr, n_dims), 4),
        ("extents", offset_of!(rknn_tensor_attr, dims), 8),
        ("name", offset_of!(rknn_tensor_attr, name), 72),
        ("elements", offset_of!(rknn_tensor_attr, n_elems), 328),
        ("size", offset_of!(rknn_tensor_attr, size), 332),
        ("order", offset_of!(rknn_tensor_attr, fmt), 336),
        ("type", offset_of!(rknn_tensor_attr, type_), 340),
        ("quantisation", offset_of!(rknn_tensor_attr, qnt_type), 344),
        ("fraction bits", offset_of!(rknn_tensor_attr, fl), 348),
        ("zero point", offset_of!(rknn_tensor_attr, zp), 352),
        ("scale", offset_of!(rknn_tensor_attr, scale), 356),
        ("width stride", offset_of!(rknn_tensor_attr, w_stride), 360),
        ("padded size", offset_of!(rknn_tensor_attr, size_with_stride), 364),
        ("pass-through", offset_of!(rknn_tensor_attr, pass_through), 368),
        ("height stride", offset_of!(rknn_tensor_attr, h_stride), 372),
        ("physical address", offset_of!(rknn_tensor_mem, phys_addr), 8),
        ("descriptor", offset_of!(rknn_tensor_mem, fd), 16),
        ("offset", offset_of!(rknn_tensor_mem, offset), 20),
        ("memory's size", offset_of!(rknn_tensor_mem, size), 24),
        ("memory's flags", offset_of!(rknn_tensor_mem, flags), 28),
        ("memory's own", offset_of!(rknn_tensor_mem, priv_data), 32),
        ("input's bytes", offset_of!(rknn_input, buf), 8),
        ("input's size", offset_of!(rknn_input, size), 16),
        ("input's pass-through", offset_of!(rknn_input, pass_through), 20),
        ("input's type", offset_of!(rknn_input, type_), 24),
        ("input's order", offset_of!(rknn_input, fmt), 28),
        ("output's own memory", offset_of!(rknn_output, is_prealloc), 1),
        ("output's index", offset_of!(rknn_output, index), 4),
        ("output's bytes", offset_of!(rknn_output, buf), 8),
        ("output's size", offset_of!(rknn_output, size), 16),
        (
            "model's offset",
            offset_of!(rknn_init_extend, real_model_offset),
            8,
        ),
        ("model's size", offset_of!(rknn_init_extend, real_model_size), 12),
        (
            "model's descriptor",
            offset_of!(rknn_init_extend, model_buffer_fd),
            16,
        ),
        (
            "model's flags",
            offset_of!(rknn_init_extend, model_buffer_flags),
            20,
        ),
        ("non-blocking", offset_of!(rknn_run_extend, non_block), 8),
        ("time-out", offset_of!(rknn_run_extend, timeout_ms), 12),
        ("fence", offset_of!(rknn_run_extend, fence_fd), 16),
        ("DMA bytes", offset_of!(rknn_memory_sizes, dma_bytes), 8),
        ("SRAM bytes", offset_of!(rknn_memory_sizes, sram_bytes), 16),
        (
            "free SRAM bytes",
            offset_of!(rknn_memory_sizes, free_sram_bytes),
            20,
        ),
    ] {
        assert_eq!(found, fact, "{name}");
    }
}
