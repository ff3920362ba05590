//! A program that runs `sdot` without checking for it, which no kernel may do.
//!
//! `cargo xtask arm` builds it by itself, and expects that a processor without dot products ends it with SIGILL: so
//! would it end a test of a kernel whose guard is missing. With the argument `features` the program only prints which
//! of the extensions that matter to kernels the processor has.
//!
//! Not here: kernels; those reach `sdot` through a token that has detected it.

#[cfg(not(target_arch = "aarch64"))]
compile_error!("this program is for aarch64");

use std::arch::is_aarch64_feature_detected;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("features") {
        let found = [
            ("dotprod", is_aarch64_feature_detected!("dotprod")),
            ("i8mm", is_aarch64_feature_detected!("i8mm")),
            ("fp16", is_aarch64_feature_detected!("fp16")),
            ("bf16", is_aarch64_feature_detected!("bf16")),
        ];
        let names: Vec<&str> = found
            .iter()
            .filter_map(|(name, there)| there.then_some(*name))
            .collect();
        println!("{}", names.join(" "));
        return;
    }
    let a: [i8; 16] = std::array::from_fn(|lane| lane as i8 - 8);
    let b: [i8; 16] = std::array::from_fn(|lane| 3 - lane as i8);
    let mut sums = [1i32; 4];
    // SAFETY: reads and writes whole vectors of the arrays named. That the instruction exists is not checked, on purpose.
    unsafe {
        std::arch::asm!(
            ".arch_extension dotprod",
            "ld1 {{v0.4s}}, [{sums}]",
            "ld1 {{v1.16b}}, [{a}]",
            "ld1 {{v2.16b}}, [{b}]",
            "sdot v0.4s, v1.16b, v2.16b",
            "st1 {{v0.4s}}, [{sums}]",
            sums = in(reg) sums.as_mut_ptr(),
            a = in(reg) a.as_ptr(),
            b = in(reg) b.as_ptr(),
            out("v0") _, out("v1") _, out("v2") _,
        );
    }
    let wanted: [i32; 4] = std::array::from_fn(|sum| {
        let lanes = 4 * sum..4 * sum + 4;
        1 + lanes.map(|lane| i32::from(a[lane]) * i32::from(b[lane])).sum::<i32>()
    });
    assert_eq!(sums, wanted, "sdot ran, and its sums are wrong");
}
