# The trap handler of software_threads.c: keeps the thread that has the hart on its stack, and takes up the other one.
#
# A timer interrupt sets the timer for the next slice; an ecall gives the hart away and stops the timer.
# gp and tp are the hart's. Every other trap ends the run.

#include "software_threads.h"

#define OTHER 0
#define DEADLINE 8
#define SLICE 16
#define SWITCHES 24
#define CLINT_MTIMECMP 0x02004000

    .macro  each_register operation
    \operation ra, 0(sp)
    \operation t0, 8(sp)
    \operation t1, 16(sp)
    \operation t2, 24(sp)
    \operation s0, 32(sp)
    \operation s1, 40(sp)
    \operation a0, 48(sp)
    \operation a1, 56(sp)
    \operation a2, 64(sp)
    \operation a3, 72(sp)
    \operation a4, 80(sp)
    \operation a5, 88(sp)
    \operation a6, 96(sp)
    \operation a7, 104(sp)
    \operation s2, 112(sp)
    \operation s3, 120(sp)
    \operation s4, 128(sp)
    \operation s5, 136(sp)
    \operation s6, 144(sp)
    \operation s7, 152(sp)
    \operation s8, 160(sp)
    \operation s9, 168(sp)
    \operation s10, 176(sp)
    \operation s11, 184(sp)
    \operation t3, 192(sp)
    \operation t4, 200(sp)
    \operation t5, 208(sp)
    \operation t6, 216(sp)
    .endm

    .section .text
    .balign 4
    .globl  software_threads_switch
software_threads_switch:
    addi    sp, sp, -SOFTWARE_FRAME_BYTES
    each_register sd
    csrr    t0, mscratch
    csrr    t1, mcause
    csrr    t2, mepc
    bltz    t1, timer

    li      t3, 11                      # ecall of M mode
    bne     t1, t3, unknown
    addi    t2, t2, 4
    li      t4, -1
    j       set_timer

timer:
    slli    t1, t1, 1
    li      t3, 2 * 7                   # the timer of M mode
    bne     t1, t3, unknown
    ld      t3, SWITCHES(t0)
    addi    t3, t3, 1
    sd      t3, SWITCHES(t0)
    ld      t4, DEADLINE(t0)
    ld      t3, SLICE(t0)
    add     t4, t4, t3
    sd      t4, DEADLINE(t0)
set_timer:
    li      t5, CLINT_MTIMECMP
    slli    t6, tp, 3
    add     t5, t5, t6
    sd      t4, 0(t5)

    sd      t2, 224(sp)
    sc.d    zero, zero, (sp)            # what this thread has reserved is not the other one's
    ld      t1, OTHER(t0)
    sd      sp, OTHER(t0)
    mv      sp, t1

    ld      t2, 224(sp)
    csrw    mepc, t2
    each_register ld
    addi    sp, sp, SOFTWARE_FRAME_BYTES
    mret

unknown:
    mv      a0, t1
    mv      a1, t2
    tail    software_threads_refuse     # does not return
