// Pauses, fences and naps: instructions by which a waiter gives way, and which of them this machine has.
//
//     pause      gives way for a moment: RISC-V Zihintpause, x86 PAUSE, AArch64 ISB
//     nap        asleep in the processor until a line is written: RISC-V Zawrs, x86 WAITPKG or MONITORX, AArch64 WFE or WFET
//
// Whether there are naps is asked of the machine, once: cpuid, the kernel's hwcap or hwprobe. A nap where there are none
// is a pause; loiter_fallback in wait.h says so.
#ifndef LOITER_NAP_H
#define LOITER_NAP_H

#include "base.h"

#if LOITER_ON_LINUX
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifndef __cplusplus
// Which -std=c11 leaves out of unistd.h.
long syscall(long number, ...);
#endif
#endif

// Instructions that not every assembler knows.
#if defined(__riscv)
#define LOITER_ASM_PAUSE ".4byte 0x0100000f"
#define LOITER_ASM_WRS_NTO ".4byte 0x00d00073"
#define LOITER_ASM_WRS_STO ".4byte 0x01d00073"
#elif defined(__x86_64__)
#define LOITER_ASM_UMONITOR_RAX ".byte 0xf3, 0x0f, 0xae, 0xf0"
#define LOITER_ASM_UMWAIT_ECX ".byte 0xf2, 0x0f, 0xae, 0xf1"
#define LOITER_ASM_MONITORX ".byte 0x0f, 0x01, 0xfa"
#define LOITER_ASM_MWAITX ".byte 0x0f, 0x01, 0xfb"
#elif defined(__aarch64__)
#define LOITER_ASM_WFET_X9 ".inst 0xd5031009"
#endif

// ---- pauses and fences ----------------------------------------------------------------------------------------------

// Gives way for a moment.
static inline void loiter_pause(void) {
#if defined(__riscv)
    __asm__ volatile(LOITER_ASM_PAUSE : : : "memory");
#elif defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("pause" : : : "memory");
#elif defined(__aarch64__)
    // `yield` does nothing on most implementations; isb waits for the pipeline to drain.
    __asm__ volatile("isb" : : : "memory");
#else
    __asm__ volatile("" : : : "memory");
#endif
}

LOITER_INLINE void loiter_pauses(uint32_t count) {
    for (; count; count--)
        loiter_pause();
}

static inline void loiter_fence(void) {
#if defined(__riscv)
    __asm__ volatile("fence rw, rw" : : : "memory");
#elif defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("mfence" : : : "memory");
#elif defined(__aarch64__)
    __asm__ volatile("dmb ish" : : : "memory");
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// ---- what this machine has ------------------------------------------------------------------------------------------

enum loiter_nap_kind {
    LOITER_NAP_UNKNOWN, // not asked yet
    LOITER_NAP_NONE,
    LOITER_NAP_WRS,    // RISC-V Zawrs
    LOITER_NAP_WFE,    // AArch64, without a limit of its own
    LOITER_NAP_WFET,   // AArch64 FEAT_WFxT
    LOITER_NAP_UMWAIT, // x86 WAITPKG (Intel)
    LOITER_NAP_MWAITX, // x86 MONITORX (AMD)
};

// As a processor's manual calls it.
static inline const char *loiter_nap_name(enum loiter_nap_kind kind) {
    switch (kind) {
    case LOITER_NAP_WRS:
        return "wrs.nto (Zawrs)";
    case LOITER_NAP_WFE:
        return "wfe";
    case LOITER_NAP_WFET:
        return "wfet (FEAT_WFxT)";
    case LOITER_NAP_UMWAIT:
        return "umwait (WAITPKG)";
    case LOITER_NAP_MWAITX:
        return "mwaitx (MONITORX)";
    default:
        return "none";
    }
}

#if defined(__x86_64__)
// One register of a leaf of cpuid, 0 if the processor does not know the leaf.
static inline uint32_t loiter_cpuid_ecx(uint32_t leaf) {
    uint32_t a = leaf & UINT32_C(0x80000000), b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    if (a < leaf)
        return 0;
    a = leaf, c = 0;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return c;
}
#endif

// Asks the machine. Bare-metal RISC-V programs cannot: they say it by -DLOITER_HAS_NAPS=1 or an -march with zawrs, or how to
// ask by LOITER_NAP_PROBE(), not 0 if the processor has Zawrs.
static inline enum loiter_nap_kind loiter_probe_nap(void) {
#if defined(__x86_64__)
    if (loiter_cpuid_ecx(7) >> 5 & 1)
        return LOITER_NAP_UMWAIT;
    return loiter_cpuid_ecx(UINT32_C(0x80000001)) >> 29 & 1 ? LOITER_NAP_MWAITX : LOITER_NAP_NONE;
#elif defined(__aarch64__) && LOITER_ON_LINUX
    return getauxval(AT_HWCAP2) >> 31 & 1 ? LOITER_NAP_WFET : LOITER_NAP_WFE; // HWCAP2_WFXT
#elif defined(__aarch64__)
    return LOITER_NAP_WFE;
#elif defined(__riscv_zawrs)
    return LOITER_NAP_WRS;
#elif defined(__riscv) && LOITER_ON_LINUX
    // riscv_hwprobe, from Linux 6.11 on: key 4 holds the extensions, bit 48 Zawrs.
    struct {
        int64_t key;
        uint64_t value;
    } pair = {4, 0};
    int known = syscall(258, &pair, 1L, 0L, (void *)0, 0L) == 0 && pair.key == 4;
    return known && (pair.value >> 48 & 1) ? LOITER_NAP_WRS : LOITER_NAP_NONE;
#elif defined(__riscv) && defined(LOITER_NAP_PROBE)
    return LOITER_NAP_PROBE() ? LOITER_NAP_WRS : LOITER_NAP_NONE;
#else
    return LOITER_NAP_NONE;
#endif
}

// Whoever asks gets the same answer, so a race does no harm, and no order is needed.
LOITER_SHARED uint8_t loiter_nap_known;

static inline enum loiter_nap_kind loiter_nap_kind(void) {
#if defined(LOITER_HAS_NAPS) && !LOITER_HAS_NAPS
    return LOITER_NAP_NONE;
#elif defined(LOITER_HAS_NAPS) && defined(__riscv)
    return LOITER_NAP_WRS;
#elif defined(__riscv_zawrs) || (defined(__aarch64__) && !LOITER_ON_LINUX) ||                                          \
    (defined(__riscv) && !LOITER_ON_LINUX && !defined(LOITER_NAP_PROBE))
    return loiter_probe_nap(); // a constant
#else
    uint8_t known = LOITER_LOAD(&loiter_nap_known, __ATOMIC_RELAXED);
    if (known == LOITER_NAP_UNKNOWN) {
        known = (uint8_t)loiter_probe_nap();
        LOITER_STORE(&loiter_nap_known, known, __ATOMIC_RELAXED);
    }
    return (enum loiter_nap_kind)known;
#endif
}

LOITER_INLINE int loiter_has_naps(void) { return loiter_nap_kind() != LOITER_NAP_NONE; }

// The longest nap that the kernel allows with WAITPKG, in cycles of the time-stamp counter; 0: as long as it takes; -1:
// it does not say, or there is no such limit here.
static inline long loiter_umwait_limit_cycles(void) {
    long limit = -1;
#if LOITER_ON_LINUX
    char text[24];
    int file = open("/sys/devices/system/cpu/umwait_control/max_time", O_RDONLY);
    if (file >= 0) {
        ssize_t length = read(file, text, sizeof text);
        for (ssize_t n = 0; n < length && text[n] >= '0' && text[n] <= '9'; n++)
            limit = 10 * (n ? limit : 0) + (text[n] - '0');
        (void)close(file);
    }
#endif
    return limit;
}

// ---- naps -----------------------------------------------------------------------------------------------------------

// Longest nap, in ticks of the counter that the instruction uses, where it has a limit: a wake-up that was missed, or a
// processor that gives the monitor up, costs no more. About 50 us.
#define LOITER_NAP_X86_TICKS 100000
#define LOITER_NAP_WFET_TICKS 50000

#if defined(__riscv)

// Reads the word, and if it has this value, sleeps until its line is written or an interrupt pends. Returns what it
// read. No write is missed: the line is watched from the read on. Illegal on a machine without Zawrs.
static inline unsigned int loiter_nap_while(const volatile unsigned int *word, unsigned int value) {
    long seen;
    __asm__ volatile("lr.w.aq %0, (%1)\n\t"
                     "bne %0, %2, 1f\n\t" LOITER_ASM_WRS_NTO "\n"
                     "1:"
                     : "=&r"(seen)
                     : "r"(word), "r"((long)(int)value)
                     : "memory");
    return (unsigned int)seen;
}

// The same, for a short time at most.
static inline unsigned int loiter_nap_short_while(const volatile unsigned int *word, unsigned int value) {
    long seen;
    __asm__ volatile("lr.w.aq %0, (%1)\n\t"
                     "bne %0, %2, 1f\n\t" LOITER_ASM_WRS_STO "\n"
                     "1:"
                     : "=&r"(seen)
                     : "r"(word), "r"((long)(int)value)
                     : "memory");
    return (unsigned int)seen;
}

#elif defined(__aarch64__)

// wfe returns when the exclusive monitor that ldaxr set is cleared by a write to the line, or on an interrupt.
static inline unsigned int loiter_wfe_while(const volatile unsigned int *word, unsigned int value) {
    unsigned int seen;
    __asm__ volatile("ldaxr %w0, [%1]\n\t"
                     "cmp %w0, %w2\n\t"
                     "b.ne 1f\n\t"
                     "wfe\n"
                     "1:"
                     : "=&r"(seen)
                     : "r"(word), "r"(value)
                     : "memory", "cc");
    return seen;
}

// The same, until the virtual counter has reached the limit at most.
static inline unsigned int loiter_wfet_while(const volatile unsigned int *word, unsigned int value) {
    unsigned int seen;
    __asm__ volatile("mrs x9, cntvct_el0\n\t"
                     "add x9, x9, %3\n\t"
                     "ldaxr %w0, [%1]\n\t"
                     "cmp %w0, %w2\n\t"
                     "b.ne 1f\n\t" LOITER_ASM_WFET_X9 "\n"
                     "1:"
                     : "=&r"(seen)
                     : "r"(word), "r"(value), "r"((uint64_t)LOITER_NAP_WFET_TICKS)
                     : "memory", "cc", "x9");
    return seen;
}

static inline unsigned int loiter_nap_while(const volatile unsigned int *word, unsigned int value) {
    return loiter_nap_kind() == LOITER_NAP_WFET ? loiter_wfet_while(word, value) : loiter_wfe_while(word, value);
}

#elif defined(__x86_64__)

// Monitors the line; looks again, with acquire order, since a write before the monitor was armed would not end the sleep;
// sleeps in C0.1 until the line is written or the OS's limit (IA32_UMWAIT_CONTROL) or this one have passed.
static inline unsigned int loiter_umwait_while(const volatile unsigned int *word, unsigned int value) {
    __asm__ volatile(LOITER_ASM_UMONITOR_RAX : : "a"(word) : "memory");
    unsigned int seen = LOITER_LOAD(word, __ATOMIC_ACQUIRE);
    if (seen == value) {
        uint64_t deadline = __builtin_ia32_rdtsc() + LOITER_NAP_X86_TICKS;
        __asm__ volatile(LOITER_ASM_UMWAIT_ECX // bit 0 asks for C0.1
                         :
                         : "a"((uint32_t)deadline), "d"((uint32_t)(deadline >> 32)), "c"(1)
                         : "memory", "cc");
    }
    return seen;
}

// The same with AMD's instructions: hint 0 in eax allows C1, bit 1 of ecx a limit in ebx.
static inline unsigned int loiter_mwaitx_while(const volatile unsigned int *word, unsigned int value) {
    __asm__ volatile(LOITER_ASM_MONITORX : : "a"(word), "c"(0), "d"(0) : "memory");
    unsigned int seen = LOITER_LOAD(word, __ATOMIC_ACQUIRE);
    if (seen == value)
        __asm__ volatile(LOITER_ASM_MWAITX : : "a"(0), "b"(LOITER_NAP_X86_TICKS), "c"(2) : "memory");
    return seen;
}

// Illegal on a machine without naps.
static inline unsigned int loiter_nap_while(const volatile unsigned int *word, unsigned int value) {
    return loiter_nap_kind() == LOITER_NAP_UMWAIT ? loiter_umwait_while(word, value) : loiter_mwaitx_while(word, value);
}

#else

static inline unsigned int loiter_nap_while(const volatile unsigned int *word, unsigned int value) {
    (void)value;
    loiter_pause();
    return LOITER_LOAD(word, __ATOMIC_ACQUIRE);
}

#endif

#endif
