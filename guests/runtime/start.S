# Entry of every hart at once, in M mode: a0 = hart id, a1 = flattened device tree.
#
# mtvec stays as at reset: no handler is installed, so an unexpected trap is the simulator's to report.
# tp holds the hart id for the rest of the run.

#include "layout.h"

    .section .text.start, "ax", @progbits
    .globl  _start
_start:
    .option push
    .option norelax
    la      gp, __global_pointer$
    .option pop

    li      t0, 0x6000                  # mstatus.FS: floating point on
    csrs    mstatus, t0
    csrw    fcsr, zero
    mv      tp, a0

    li      t0, LOITER_MAX_HARTS
    bgeu    a0, t0, park                # no stack for it; a task placed there is refused by hart 0

    la      sp, stacks
    addi    t0, a0, 1
    li      t1, LOITER_STACK_STRIDE
    mul     t0, t0, t1
    add     sp, sp, t0

    bnez    a0, secondary

    la      t0, __bss_start
    la      t1, __bss_end
1:  bgeu    t0, t1, 2f
    sd      zero, 0(t0)
    addi    t0, t0, 8
    j       1b
2:  mv      a0, a1
    call    loiter_boot                 # does not return

secondary:
    call    loiter_secondary            # does not return

park:
    csrw    mie, zero
1:  wfi
    j       1b

    .section .noinit, "aw", @nobits
    .balign 64
stacks:
    .skip   LOITER_STACK_STRIDE * LOITER_MAX_HARTS
