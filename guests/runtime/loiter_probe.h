// Probes: messages from a program to the simulator, encoded as HINTs (`slti x0, rs1, imm`).
// Hardware and QEMU execute them as no-operations; loiter takes them out at decode, so they cost no slot and no cycle.
#ifndef LOITER_PROBE_H
#define LOITER_PROBE_H

// The numbers are the immediates; the assembler sees them too.
#define LOITER_PROBE_ROI_BEGIN 0x01
#define LOITER_PROBE_ROI_END 0x02
#define LOITER_PROBE_WORK_BEGIN 0x03
#define LOITER_PROBE_WORK_END 0x04
#define LOITER_PROBE_LOCK_ACQUIRE 0x05
#define LOITER_PROBE_LOCK_ACQUIRED 0x06
#define LOITER_PROBE_LOCK_RELEASED 0x07
#define LOITER_PROBE_LOCK_READ 0x08
#define LOITER_PROBE_REPORT_NAME 0x09
#define LOITER_PROBE_REPORT_VALUE 0x0a
#define LOITER_PROBE_PROGRAM_BEGIN 0x0b
#define LOITER_PROBE_PROGRAM_END 0x0c

#ifndef __ASSEMBLER__

#include <stdint.h>

// The memory clobber keeps the work between two probes between them.
#define LOITER_PROBE(number, value)                                                                                    \
    __asm__ volatile("slti x0, %z0, %1" : : "rJ"((uint64_t)(value)), "i"(number) : "memory")

// The region of interest: what a measurement is about. Fast-forwarding ends where it begins.
static inline void loiter_roi_begin(void) { LOITER_PROBE(LOITER_PROBE_ROI_BEGIN, 0); }
static inline void loiter_roi_end(void) { LOITER_PROBE(LOITER_PROBE_ROI_END, 0); }

// One piece of measured work, numbered by the program.
static inline void loiter_work_begin(uint64_t repetition) { LOITER_PROBE(LOITER_PROBE_WORK_BEGIN, repetition); }
static inline void loiter_work_end(uint64_t repetition) { LOITER_PROBE(LOITER_PROBE_WORK_END, repetition); }

// The life of a lock on this hart: acquire -> (lock_read)* -> acquired -> released.
// `released` stands before the store that frees the lock, so that it never comes after the next owner's `acquired`.
static inline void loiter_lock_acquire(const volatile void *lock) {
    LOITER_PROBE(LOITER_PROBE_LOCK_ACQUIRE, (uintptr_t)lock);
}
static inline void loiter_lock_acquired(const volatile void *lock) {
    LOITER_PROBE(LOITER_PROBE_LOCK_ACQUIRED, (uintptr_t)lock);
}
static inline void loiter_lock_released(const volatile void *lock) {
    LOITER_PROBE(LOITER_PROBE_LOCK_RELEASED, (uintptr_t)lock);
}
static inline void loiter_lock_read(const volatile void *lock) {
    LOITER_PROBE(LOITER_PROBE_LOCK_READ, (uintptr_t)lock);
}

// A named number in the run's result. `name` must be in memory, ended by a NUL; a fence goes before if it has just been
// written.
static inline void loiter_report(const char *name, uint64_t value) {
    LOITER_PROBE(LOITER_PROBE_REPORT_NAME, (uintptr_t)name);
    LOITER_PROBE(LOITER_PROBE_REPORT_VALUE, value);
}

// Who starts a program says where it is about to begin in user mode, and that it has ended.
static inline void loiter_program_begin(uint64_t address) { LOITER_PROBE(LOITER_PROBE_PROGRAM_BEGIN, address); }
static inline void loiter_program_end(void) { LOITER_PROBE(LOITER_PROBE_PROGRAM_END, 0); }

#endif
#endif
