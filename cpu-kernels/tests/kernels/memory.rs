//! Aligned memory.

use polychip_cpu_kernels::memory::*;

#[test]
fn alignment_follows_the_size() {
    for (len, align) in [
        (0, ALIGN),
        (1, ALIGN),
        (HUGE_PAGE / 4, HUGE_PAGE),
        (HUGE_PAGE, HUGE_PAGE),
    ] {
        let mut memory = AlignedVec::zeroed(len);
        assert_eq!(memory.len(), len);
        assert_eq!(memory.as_ptr() as usize % align, 0);
        assert!(memory.iter().all(|&x| x == 0.0));
        memory.fill(1.0);
        assert!(memory.iter().all(|&x| x == 1.0));
    }
}
