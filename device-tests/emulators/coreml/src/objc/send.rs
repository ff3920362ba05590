//! `objc_msgSend`: every message goes through it, whatever its types.
//!
//! It saves all registers that may hold arguments, looks up the method, and jumps to it.

#![allow(unsafe_code)]
#![allow(non_snake_case, reason = "the runtime's own name")]

use super::classes::{self, Sel};
use super::object::Object;

/// A function to jump to: a method, or the one for a message to null.
type Method = unsafe extern "C" fn();

/// Finds the method of a message.
unsafe extern "C" fn find(receiver: *const Object, name: Sel) -> Method {
    if receiver.is_null() {
        return nothing;
    }
    // SAFETY: a receiver is an object or a class, both of which start with their class.
    let class = unsafe { *receiver.cast::<&'static classes::Class>() };
    match classes::method(class, name) {
        // SAFETY: what was found is the address of a function, called with the types that its message has.
        Some(method) => unsafe { std::mem::transmute::<*const (), Method>(method) },
        None => {
            // the real runtime raises an exception, which ends the process
            eprintln!("-[{} {}]: unrecognized selector", class.name, name.text());
            std::process::abort()
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn nothing() {
    std::arch::naked_asm!("xor eax, eax", "xor edx, edx", "pxor xmm0, xmm0", "ret")
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn nothing() {
    std::arch::naked_asm!("mov x0, #0", "mov x1, #0", "movi d0, #0", "ret")
}

/// Sends a message.
///
/// # Safety
/// The receiver is null, an object or a class; the arguments are of the message's types.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_msgSend() {
    std::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "sub rsp, 192",
        "movdqu [rsp], xmm0",
        "movdqu [rsp + 16], xmm1",
        "movdqu [rsp + 32], xmm2",
        "movdqu [rsp + 48], xmm3",
        "movdqu [rsp + 64], xmm4",
        "movdqu [rsp + 80], xmm5",
        "movdqu [rsp + 96], xmm6",
        "movdqu [rsp + 112], xmm7",
        "mov [rsp + 128], rdi",
        "mov [rsp + 136], rsi",
        "mov [rsp + 144], rdx",
        "mov [rsp + 152], rcx",
        "mov [rsp + 160], r8",
        "mov [rsp + 168], r9",
        "mov [rsp + 176], rax",
        "call {find}",
        "mov r11, rax",
        "movdqu xmm0, [rsp]",
        "movdqu xmm1, [rsp + 16]",
        "movdqu xmm2, [rsp + 32]",
        "movdqu xmm3, [rsp + 48]",
        "movdqu xmm4, [rsp + 64]",
        "movdqu xmm5, [rsp + 80]",
        "movdqu xmm6, [rsp + 96]",
        "movdqu xmm7, [rsp + 112]",
        "mov rdi, [rsp + 128]",
        "mov rsi, [rsp + 136]",
        "mov rdx, [rsp + 144]",
        "mov rcx, [rsp + 152]",
        "mov r8, [rsp + 160]",
        "mov r9, [rsp + 168]",
        "mov rax, [rsp + 176]",
        "leave",
        "jmp r11",
        find = sym find,
    )
}

/// Sends a message.
///
/// # Safety
/// The receiver is null, an object or a class; the arguments are of the message's types.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_msgSend() {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "mov x29, sp",
        "sub sp, sp, #208",
        "stp q0, q1, [sp]",
        "stp q2, q3, [sp, #32]",
        "stp q4, q5, [sp, #64]",
        "stp q6, q7, [sp, #96]",
        "stp x0, x1, [sp, #128]",
        "stp x2, x3, [sp, #144]",
        "stp x4, x5, [sp, #160]",
        "stp x6, x7, [sp, #176]",
        "str x8, [sp, #192]",
        "bl {find}",
        "mov x16, x0",
        "ldp q0, q1, [sp]",
        "ldp q2, q3, [sp, #32]",
        "ldp q4, q5, [sp, #64]",
        "ldp q6, q7, [sp, #96]",
        "ldp x0, x1, [sp, #128]",
        "ldp x2, x3, [sp, #144]",
        "ldp x4, x5, [sp, #160]",
        "ldp x6, x7, [sp, #176]",
        "ldr x8, [sp, #192]",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        "br x16",
        find = sym find,
    )
}
