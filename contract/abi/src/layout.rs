//! Size and offset of every field of every struct of the contract.
//!
//! Invariants:
//! 1. Every `repr(C)` struct is listed with all of its fields, in order; the compiler rejects a
//!    list that omits one.
//! 2. [`golden`] is the text of `tests/layout.golden.64`, which only ever grows.
//!
//! Not here: reading a struct of another size, which needs unsafe code (`contract/host`,
//! `contract/sdk`).

use crate::*;

/// One field of a struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name in the header.
    pub name: &'static str,
    /// Offset of the field, in bytes.
    pub offset: usize,
    /// Size of the field, in bytes.
    pub size: usize,
}

/// A struct of the contract, described field by field.
pub trait Fields: Copy {
    /// Name in the header.
    const NAME: &'static str;
    /// Every field, by offset.
    const FIELDS: &'static [Field];
}

/// Returns whether a struct of this size ends between two fields: it comes from a build with fewer
/// fields, the same fields, or more. A size that ends inside a field is torn.
#[must_use]
pub fn is_whole<T: Fields>(struct_size: usize) -> bool {
    struct_size >= size_of::<T>()
        || T::FIELDS.iter().any(|field| {
            let end = field.offset + field.size;
            struct_size == end || struct_size == end.next_multiple_of(align_of::<T>())
        })
}

const fn size_of_field<S, T>(_: fn(&S) -> &T) -> usize {
    size_of::<T>()
}

macro_rules! fields {
    ($($name:ident { $($field:ident),+ $(,)? })+) => {
        $(
            impl Fields for $name {
                const NAME: &'static str = stringify!($name);
                const FIELDS: &'static [Field] = &[$(Field {
                    name: stringify!($field),
                    offset: std::mem::offset_of!($name, $field),
                    size: size_of_field(|of: &$name| &of.$field),
                }),+];
            }
            // fails to compile where a field is missing from the list
            const _: fn($name) = |$name { $($field: _),+ }| ();
        )+

        /// Size and offset of everything, as text with one line for each struct and each field.
        #[must_use]
        pub fn golden() -> String {
            let mut text = String::new();
            $(
                text.push_str(&format!(
                    "{} size {} align {}\n",
                    $name::NAME, size_of::<$name>(), align_of::<$name>(),
                ));
                for field in $name::FIELDS {
                    text.push_str(&format!("  {} {} {}\n", field.offset, field.size, field.name));
                }
            )+
            text
        }
    };
}

fields! {
    polychip_text { data, len }
    polychip_bytes { data, len }
    polychip_error { struct_size, status, vendor_code, node, tensor, message_len, reserved, message }
    polychip_host_services {
        struct_size, flags, user, log, now_ns, sleep_until_ns, store_read, store_write,
        configuration,
    }
    polychip_plugin_info { struct_size, flags, name, version, build_id }
    polychip_device_info {
        struct_size, kind, flags, import_kinds, export_kinds, import_alignment, name, vendor, soc,
        driver, memory_bytes, peak_macs_per_s, peak_bytes_per_s, settings, rates_measured_s,
        link_bytes_per_s, preemption, queue_depth, preemption_bound_ns, switch_ns,
    }
    polychip_operating_point { struct_size, flags, name, frequency_khz, power_mw }
    polychip_encoding {
        struct_size, kind, axis, block_size, scales, scale_count, zero_points, zero_point_count,
        real_dtype, block_layout,
    }
    polychip_tensor { struct_size, dtype, flags, rank, dims, name, encoding, data, data_bytes, fd, fd_offset }
    polychip_attribute { struct_size, code, name, value_type, flags, data, count }
    polychip_capture { outer, inner }
    polychip_body { struct_size, attribute, graph, captures, capture_count }
    polychip_node {
        struct_size, op, domain, op_name, name, inputs, input_count, outputs, output_count,
        attributes, attribute_count, attribute_stride, bodies, body_count, body_stride,
        decomposition,
    }
    polychip_group { struct_size, kind, nodes, node_count }
    polychip_state { input, output }
    polychip_graph {
        struct_size, flags, name, nodes, node_count, node_stride, tensors, tensor_count,
        tensor_stride, inputs, input_count, outputs, output_count, groups, group_count,
        group_stride, states, state_count, structure_fingerprint, content_fingerprint,
    }
    polychip_support { struct_size, reason, detail_len, reserved, detail }
    polychip_cost {
        struct_size, valid, flags, error_permille, time_ns, launch_ns, energy_uj, power_mw,
        memory_bytes,
    }
    polychip_compile_options {
        struct_size, precision, threads, operating_point, ports, port_count, port_stride, flags,
        reserved,
    }
    polychip_load_source { struct_size, threads, blob, bytes, graph }
    polychip_executable_info { struct_size, flags, input_count, output_count, constant_bytes, arena_bytes }
    polychip_port {
        struct_size, flags, dtype, layout, rank, state_port, alignment, memory_kinds, bytes, dims,
        strides, encoding,
    }
    polychip_port_request { struct_size, port, layout, reserved }
    polychip_memory { struct_size, kind, data, fd, handle, offset, bytes, alignment }
    polychip_binding { struct_size, port, buffer, offset, bytes, dims, rank }
    polychip_submit {
        struct_size, priority, bindings, binding_count, binding_stride, waits, wait_count,
        deadline_ns, flags, reserved,
    }
    polychip_timing { struct_size, valid, queued_ns, start_ns, end_ns, energy_uj, copied_bytes }
    polychip_step { struct_size, flags, name, nodes, node_count, time_ns, operations, moved_bytes }
    polychip_telemetry {
        struct_size, valid, time_ns, temperature_mc, power_mw, energy_uj, frequency_khz,
        memory_used_bytes, load_permille, throttle,
    }
    polychip_plugin_table {
        struct_size, abi_major, abi_minor, flags, plugin_info, create, destroy, device_count,
        device_open, device_info, device_close, operating_points, set_operating_point,
        query_support, estimate, compile, blob_bytes, blob_destroy, load, executable_info,
        port_info, executable_destroy, buffer_create, buffer_import, buffer_export,
        buffer_begin_access, buffer_end_access, buffer_destroy, execute, cancel, device_reset,
        fence_wait, fence_on_signal, fence_import_fd, fence_export_fd, fence_timing,
        fence_output_shape, fence_destroy, telemetry, fence_steps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_that_ends_inside_a_field_is_torn() {
        assert!(is_whole::<polychip_text>(8) && is_whole::<polychip_text>(16));
        assert!(is_whole::<polychip_text>(24));
        assert!(!is_whole::<polychip_text>(12) && !is_whole::<polychip_text>(0));
        // a last field of 4 bytes may be followed by padding
        assert!(is_whole::<polychip_attribute>(28) && is_whole::<polychip_attribute>(32));
        assert!(!is_whole::<polychip_attribute>(30));
    }

    #[test]
    fn fields_are_ordered_and_do_not_overlap() {
        fn check<T: Fields>() {
            let mut end = 0;
            for field in T::FIELDS {
                assert!(field.offset >= end, "{} of {}", field.name, T::NAME);
                end = field.offset + field.size;
            }
            assert!(end <= size_of::<T>() && size_of::<T>() - end < 8, "{}", T::NAME);
        }
        check::<polychip_error>();
        check::<polychip_node>();
        check::<polychip_graph>();
        check::<polychip_port>();
        check::<polychip_plugin_table>();
    }
}
