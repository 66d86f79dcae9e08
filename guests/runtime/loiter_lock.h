#ifndef LOITER_LOCK_H
#define LOITER_LOCK_H
#include <stdint.h>
static inline void loiter_hardware_acquire(uint32_t *word) {
    __asm__ volatile("1: .insn b 0x0b, 0, %0, x0, 1b" : : "r"(word) : "memory");
}
#endif
