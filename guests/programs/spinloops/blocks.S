# The single-behaviour kernels: 512 instructions of one kind, a counter decrement, one more of the kind, a branch back.
# (In the reference the one more stands behind the branch, in its delay slot: it too is executed once a loop.)
#
#     uint64_t block(uint64_t loops, uint64_t value, uint64_t operand);   loops > 0; returns the last value

    .option norvc
    .option norelax
    .text

.macro BLOCK name, instruction:vararg
    .globl  \name
    .balign 64
\name:
1:  .rept   512
    \instruction
    .endr
    addi    a0, a0, -1
    \instruction
    bnez    a0, 1b
    mv      a0, a1
    ret
.endm

    BLOCK   block_add,  add a1, a1, a2
    BLOCK   block_mul,  mul a1, a1, a2
    BLOCK   block_jump, j .+4
    BLOCK   block_load, ld a1, 0(a1)

    .section .note.GNU-stack, "", @progbits
