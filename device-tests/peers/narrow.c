/*
 * Holds a program to AVX2 on a processor that has more, so that runtimes without a setting of their own can be compared
 * as on a machine of that kind: `LD_PRELOAD=narrow.so PROGRAM`. `cargo xtask peers --isa avx2` builds and uses it.
 *
 * The CPUID instruction faults (arch_prctl(2), ARCH_SET_CPUID; "cpuid_fault" in /proc/cpuinfo), the handler executes it
 * and clears the bits of AVX-512, AVX-VNNI, AVX10 and AMX. A program that does not ask is not held.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <cpuid.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef ARCH_SET_CPUID
#define ARCH_SET_CPUID 0x1012
#endif

#define BIT(n) (1u << (n))

typedef int (*sigaction_call)(int, const struct sigaction *, struct sigaction *);

/* what the program itself wants done about faults */
static struct sigaction wanted;

static sigaction_call real_sigaction(void) {
    return (sigaction_call)dlsym(RTLD_NEXT, "sigaction");
}

static void cpuid_faults(long yes) {
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, yes ? 0L : 1L);
}

/* Bits as Intel's manual numbers them (volume 2A, CPUID). */
static void narrow(unsigned leaf, unsigned subleaf, unsigned *a, unsigned *b, unsigned *c, unsigned *d) {
    if (leaf == 7 && subleaf == 0) {
        /* AVX512F, DQ, IFMA, PF, ER, CD, BW, VL */
        *b &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31));
        /* VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ */
        *c &= ~(BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14));
        /* 4VNNIW, 4FMAPS, VP2INTERSECT, AMX-BF16, AVX512-FP16, AMX-TILE, AMX-INT8 */
        *d &= ~(BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25));
    } else if (leaf == 7 && subleaf == 1) {
        /* AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA */
        *a &= ~(BIT(4) | BIT(5) | BIT(21) | BIT(23));
        /* AVX-VNNI-INT8, AVX-NE-CONVERT, AMX-COMPLEX, AVX-VNNI-INT16, AVX10 */
        *d &= ~(BIT(4) | BIT(5) | BIT(8) | BIT(10) | BIT(19));
    } else if (leaf == 0x1d || leaf == 0x1e || leaf == 0x24) {
        /* AMX's tiles and products, AVX10 */
        *a = *b = *c = *d = 0;
    }
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)registers[REG_RIP];
    /* a general-protection fault, as CPUID's is, tells no address */
    if (info->si_code == SI_KERNEL && at[0] == 0x0f && at[1] == 0xa2) {
        unsigned a, b, c, d;
        unsigned leaf = (unsigned)registers[REG_RAX], subleaf = (unsigned)registers[REG_RCX];
        cpuid_faults(0);
        __cpuid_count(leaf, subleaf, a, b, c, d);
        cpuid_faults(1);
        narrow(leaf, subleaf, &a, &b, &c, &d);
        registers[REG_RAX] = a;
        registers[REG_RBX] = b;
        registers[REG_RCX] = c;
        registers[REG_RDX] = d;
        registers[REG_RIP] += 2;
        return;
    }
    if (wanted.sa_flags & SA_SIGINFO && wanted.sa_sigaction) {
        wanted.sa_sigaction(signal, info, context);
    } else if (wanted.sa_handler && wanted.sa_handler != SIG_IGN) {
        wanted.sa_handler(signal);
    } else {
        struct sigaction none;
        memset(&none, 0, sizeof none);
        none.sa_handler = SIG_DFL;
        real_sigaction()(SIGSEGV, &none, NULL);
    }
}

/* A runtime that looks after faults itself, as Rust's does for its stacks, comes after us. */
int sigaction(int signal, const struct sigaction *action, struct sigaction *old) {
    if (signal != SIGSEGV) {
        return real_sigaction()(signal, action, old);
    }
    if (old) {
        *old = wanted;
    }
    if (action) {
        wanted = *action;
    }
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction own;
    memset(&own, 0, sizeof own);
    own.sa_sigaction = on_fault;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    if (real_sigaction()(SIGSEGV, &own, NULL) != 0 ||
        syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0L) != 0) {
        fputs("narrow: this processor or kernel cannot make CPUID fault\n", stderr);
        exit(1);
    }
}
