# The single-behaviour kernels: 512 instructions of one kind, a counter decrement, one more of the kind, a branch back.
# (In the reference the one more follows the branch, in its delay slot: it too is executed once a loop.)
# A jump of the reference takes the slot of its delay slot as well, an annulled one too: here it is a jump and a nop.
#
#     uint64_t block(uint64_t loops, uint64_t value, uint64_t operand);   loops > 0; returns the last value

    .option norvc
    .option norelax
    .text

.macro BLOCK name, count, instruction:vararg
    .globl  \name
    .balign 64
\name:
1:  .rept   \count
    \instruction
    .endr
    addi    a0, a0, -1
    \instruction
    bnez    a0, 1b
    mv      a0, a1
    ret
.endm

.macro JUMP
    j       .+4
    nop
.endm

    BLOCK   block_add,  512, add a1, a1, a2
    BLOCK   block_mul,  512, mul a1, a1, a2
    BLOCK   block_jump, 510, JUMP       # a branch reaches no further back
    BLOCK   block_load, 512, ld a1, 0(a1)

    .section .note.GNU-stack, "", @progbits
