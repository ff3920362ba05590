//! What the writer makes of single constructs, and what it refuses. That the whole computes right is `tests/kernels`.

use super::{Half, translate};

/// The text of a kernel over one binding of integers, `data`, and one of 16-bit floats, `small`.
fn text(body: &str, half: Half) -> String {
    let wgsl = format!(
        "enable f16;
@group(0) @binding(0) var<storage, read_write> data: array<i32>;
@group(0) @binding(1) var<storage, read> small: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read_write> sums: array<vec4<f32>>;
var<workgroup> tile: array<f32, 64>;
@compute @workgroup_size(64, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {{
{body}
}}"
    );
    translate(&wgsl, half).unwrap()
}

fn has(text: &str, wanted: &str) {
    assert!(text.contains(wanted), "no {wanted} in\n{text}");
}

#[test]
fn bindings_are_a_buffer_and_a_byte_each() {
    let text = text("data[thread] = 1;", Half::Stored);
    has(
        &text,
        "void polychip_main(__global uchar *b0, ulong o0, __global const uchar *b1, ulong o1",
    );
    has(&text, "reqd_work_group_size(64, 1, 1)");
    has(&text, "__global int *data_g0 = (__global int *)(b0 + o0);");
}

#[test]
fn integers_wrap_and_division_by_zero_is_defined() {
    let text = text(
        "let a = data[0]; data[1] = a + data[2]; data[3] = a / data[2]; data[4] = a % 7;",
        Half::Stored,
    );
    has(&text, "as_int(as_uint(");
    has(&text, "quotient_int(");
    has(&text, "% 7)");
    assert!(!text.contains("remainder_int"), "{text}");
}

#[test]
fn half_loads_follow_the_device() {
    let body = "sums[thread] = vec4<f32>(small[thread] * small[0]);";
    let stored = text(body, Half::Stored);
    has(&stored, "vload_half4(0, (const __global half *)&");
    assert!(!stored.contains("cl_khr_fp16"), "{stored}");
    let element = text(
        "sums[0].x = f32(small[thread][u32(data[0])]); sums[1].x = f32(small[thread].z);",
        Half::Stored,
    );
    assert_eq!(
        element
            .matches("vload_half(0, (const __global half *)&((__global ushort *)&")
            .count(),
        2,
        "{element}"
    );
    let native = text(body, Half::Native);
    has(&native, "cl_khr_fp16 : enable");
    has(&native, "convert_float4(");
    assert!(!native.contains("vload_half"), "{native}");
}

#[test]
fn early_return_before_a_barrier_keeps_the_barrier() {
    let late =
        "if group.x > 3u { return; } tile[thread] = 1.0; workgroupBarrier(); data[thread] = i32(tile[0]);";
    let barriers = |text: &str| text.matches("barrier(").count();
    assert_eq!(barriers(&text(late, Half::Stored)), 2);
    // where single threads leave after it, none may follow
    let left =
        "tile[thread] = 1.0; workgroupBarrier(); if thread > 3u { return; } data[thread] = i32(tile[0]);";
    assert_eq!(barriers(&text(left, Half::Stored)), 1);
}

#[test]
fn unknown_constructs_are_refused_by_name() {
    let subgroups = "@group(0) @binding(0) var<storage, read_write> data: array<f32>;
@compute @workgroup_size(64, 1, 1)
fn main(@builtin(local_invocation_index) thread: u32) { data[thread] = subgroupAdd(data[thread]); }";
    let error = translate(subgroups, Half::Stored).unwrap_err().to_string();
    assert!(error.contains("Subgroup"), "{error}");
    let error = translate("fn main( {", Half::Stored).unwrap_err().to_string();
    assert!(error.contains("no WGSL"), "{error}");
}
