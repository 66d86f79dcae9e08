# Kernels for a look at single slots, as the RTL of a core was run with them: 64 instructions of a kind, a counter
# decrement, a branch back. The loop begins with the nop that stands for the branch's delay slot.
#
#     void kernel(uint64_t loops, void *operand, uint64_t step);      loops > 0
#
# `operand` points at a word that points at the next such word, in the first level or not; a5 at one in the first level.

    .option norvc
    .option norelax
    .text

.macro KERNEL name, count, instruction:vararg
    .globl  \name
    .balign 64
\name:
    la      a5, rtl_words
    li      a4, 1
    fcvt.d.l fa1, a4
    fcvt.d.l fa2, a4
1:  nop
    .rept   \count
    \instruction
    .endr
    addi    a0, a0, -1
    bnez    a0, 1b
    ret
.endm

.macro JUMP
    j       .+4
    nop
.endm

# One element of a dot product, its first operand `step` bytes behind the one before. The counter's decrement is the third
# integer instruction of the element.
.macro ELEMENT
    fld     fa1, 0(a1)
    fld     fa2, 8(a5)
    fmul.d  fa3, fa1, fa2
    fadd.d  fa4, fa4, fa3
    add     a1, a1, a2
    addi    a3, a3, 1
.endm

    KERNEL  rtl_empty,      0,  nop
    KERNEL  rtl_add,        64, add a3, a3, a2
    KERNEL  rtl_mulx,       64, mul a3, a3, a2
    KERNEL  rtl_load,       64, ld a1, 0(a1)
    KERNEL  rtl_baa,        64, JUMP
    KERNEL  rtl_load_load,  64, fence r, r
    KERNEL  rtl_store_load, 64, fence w, r
    KERNEL  rtl_branch,     64, beq a4, a4, .+4
    KERNEL  rtl_sdivx,      64, div a3, a4, a4
    KERNEL  rtl_fdivd,      64, fdiv.d fa0, fa1, fa2
    KERNEL  rtl_fmuld,      64, fmul.d fa0, fa1, fa2
    KERNEL  rtl_faddd,      64, fadd.d fa0, fa1, fa2
    KERNEL  rtl_fmovd,      64, fmv.d fa0, fa1
    KERNEL  rtl_fp_load,    64, fld fa0, 0(a5)
    KERNEL  rtl_fp_store,   64, fsd fa1, 8(a5)
    KERNEL  rtl_element,    1,  ELEMENT

    .bss
    .balign 64
rtl_words:
    .skip   64

    .section .note.GNU-stack, "", @progbits
