// The instructions of nap.h that not every assembler knows, as bytes or, with BY_NAME, by their names: both must assemble to
// the same.
#include "loiter/nap.h"

#ifdef BY_NAME
#define INSTRUCTION(bytes, name) __asm__ volatile(name)
#else
#define INSTRUCTION(bytes, name) __asm__ volatile(bytes)
#endif

void encodings(void);
void encodings(void) {
#if defined(__riscv)
    INSTRUCTION(LOITER_ASM_PAUSE, ".option arch, +zihintpause, +zawrs\n\tpause");
    INSTRUCTION(LOITER_ASM_WRS_NTO, "wrs.nto");
    INSTRUCTION(LOITER_ASM_WRS_STO, "wrs.sto");
#elif defined(__x86_64__)
    INSTRUCTION(LOITER_ASM_UMONITOR_RAX, "umonitor %rax");
    INSTRUCTION(LOITER_ASM_UMWAIT_ECX, "umwait %ecx");
    INSTRUCTION(LOITER_ASM_MONITORX, "monitorx %rax, %ecx, %edx");
    INSTRUCTION(LOITER_ASM_MWAITX, "mwaitx %eax, %ecx, %ebx");
#elif defined(__aarch64__)
    INSTRUCTION(LOITER_ASM_WFET_X9, "wfet x9");
#endif
}
