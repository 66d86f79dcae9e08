# The waiting methods of a lock. Each: void loop(lock, operand); returns when it reads the lock free.
#
# The five spin loops of Cakarevic et al., WIOSCA 2008:
#
#     ldub, membar, [delay], branch taken, nop    on SPARC, the nop in the delay slot
#     nop, lbu, fence r,r, [delay], bnez          here: the nop follows the branch back, as the delay slot does
#
# The delay goes after the barrier and before the branch. Each delay takes its own last result as operand and leaves it
# as it was: the dependence from one iteration to the next is real, and every iteration does the same.
# The probe beside the load tells the simulator of a lock read; it takes no slot and no cycle there.

#include "loiter_probe.h"

# For assemblers that do not know them. Where a hart has none of them, pause does nothing and the others are illegal.
#define PAUSE   0x0100000f
#define WRS_NTO 0x00d00073
#define WRS_STO 0x01d00073

    .option norvc
    .option norelax
    .text

# A loop begins a cache line, so that none straddles two in one build and not in another.
.macro SPIN delay:vararg
    .balign 64
1:  nop
    lbu     t0, 0(a0)
    slti    x0, a0, LOITER_PROBE_LOCK_READ
    fence   r, r
    \delay
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

# Redstone (2002), chapter 4: load, subtract from the retry counter, branch when free, branch back while the counter lasts.
# Load and counter do not depend on each other. When the counter is used up, the caller looks and comes again.
    .globl  spin_retry
spin_retry:
    li      t1, 1 << 20
    .balign 64
1:  lbu     t0, 0(a0)
    slti    x0, a0, LOITER_PROBE_LOCK_READ
    addi    t1, t1, -1
    beqz    t0, 2f
    bnez    t1, 1b
2:  ret

# A pause after each read.
    .globl  spin_pause
spin_pause:
    .balign 64
1:  lbu     t0, 0(a0)
    slti    x0, a0, LOITER_PROBE_LOCK_READ
    beqz    t0, 2f
    .4byte  PAUSE
    j       1b
2:  ret

# Twice as many pauses after each read as after the one before, up to a1.
    .globl  spin_backoff
spin_backoff:
    li      t1, 1
    .balign 64
1:  lbu     t0, 0(a0)
    slti    x0, a0, LOITER_PROBE_LOCK_READ
    beqz    t0, 3f
    mv      t2, t1
2:  .4byte  PAUSE
    addi    t2, t2, -1
    bnez    t2, 2b
    slli    t1, t1, 1
    bleu    t1, a1, 1b
    mv      t1, a1
    j       1b
3:  ret

# Sleep until another hart writes the line, with wrs.nto or wrs.sto (which also ends by itself after a short time).
.macro NAP instruction
    .balign 64
1:  lr.w    t0, (a0)
    slti    x0, a0, LOITER_PROBE_LOCK_READ
    beqz    t0, 2f
    .4byte  \instruction
    j       1b
2:  ret
.endm

    .globl  spin_wrs_nto
spin_wrs_nto:
    NAP     WRS_NTO

    .globl  spin_wrs_sto
spin_wrs_sto:
    NAP     WRS_STO

# The lock by itself, which nobody releases, on all contexts at once.
    .globl  pure_retry
pure_retry:
    li      t1, 1 << 20
    .balign 64
1:  lbu     t0, 0(a0)
    addi    t1, t1, -1
    beqz    t0, 2f
    bnez    t1, 1b
    j       pure_retry
2:  ret

# An idle loop that looks at eight flags, each of which would be work: a0 points at them, in one line. Between, it uses its
# stack: reads one variable of its frame, at a1, and writes another.
    .globl  pure_idle
pure_idle:
    .balign 64
1:  ld      t1, 8(a1)
    .irp    flag, 0, 8, 16, 24, 32, 40, 48, 56
    ld      t0, \flag(a0)
    bnez    t0, 2f
    .endr
    sd      t1, 0(a1)
    j       1b
2:  ret

    .section .note.GNU-stack, "", @progbits
