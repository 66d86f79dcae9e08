# The five spin loops of Cakarevic et al., WIOSCA 2008. Each: void loop(lock, operand); returns when it reads the lock free.
#
#     ldub, membar, branch taken, nop      on SPARC, the nop in the delay slot
#     lbu, fence r,r, [delay], nop, bnez   here, where a branch has no delay slot
#
# The delay goes after the barrier and before the branch. Each delay takes its own last result as operand and leaves it
# as it was: the dependence from one iteration to the next is real, and every iteration does the same.
# The probe beside the load tells the simulator of a lock read; it takes no slot and no cycle there.

#include "loiter_probe.h"

    .option norvc
    .option norelax
    .text

# A loop begins a cache line, so that none straddles two in one build and not in another.
.macro SPIN delay:vararg
    .balign 64
1:  lbu     t0, 0(a0)
    slti    x0, a0, LOITER_PROBE_LOCK_READ
    fence   r, r
    \delay
    nop
    bnez    t0, 1b
    ret
.endm

    .globl  spin_default
spin_default:
    SPIN

# Quotient of 63 bits, the longest there is: x / 1 with x = 2^63 - 1.
    .globl  spin_idiv
spin_idiv:
    li      t1, -1
    srli    t1, t1, 1
    li      t2, 1
    SPIN    div t1, t1, t2

# An atomic on a line of the spinner's own (a1 points at a zero). The reference uses CASX; an AMO stands for it, since
# both are one read-modify-write served by the L2, and RV64GC has no compare-and-swap.
    .globl  spin_casx
spin_casx:
    li      t1, 0
    SPIN    amoor.d t1, t1, (a1)

# x = 2 / x: goes back and forth between 1.5 and 1.333.., full-length quotients for ever.
    .globl  spin_fdiv
spin_fdiv:
    li      t1, 2
    fcvt.d.l ft1, t1
    li      t1, 3
    fcvt.d.l ft0, t1
    fdiv.d  ft0, ft0, ft1
    SPIN    fdiv.d ft0, ft1, ft0

# One step along a ring of lines (a1) that do not fit the set they share.
    .globl  spin_l2miss
spin_l2miss:
    SPIN    ld a1, 0(a1)

    .section .note.GNU-stack, "", @progbits
