# From machine mode into any other and back.
#
# struct attempt of hypervisor.c begins with what is stored here, in this order.

    .option norelax
    .equ    A_MODE, 0                   # who handled the last trap but the one into machine mode: 1 supervisor, 2 guest, else 0
    .equ    A_CAUSE, 8                  # registers of that trap
    .equ    A_VALUE, 16
    .equ    A_STATUS, 24
    .equ    A_GUEST, 32                 # htval and htinst, also of machine mode
    .equ    A_INSTRUCTION, 40
    .equ    A_HSTATUS, 48
    .equ    A_MCAUSE, 56                # registers of the trap into machine mode
    .equ    A_MVALUE, 64
    .equ    A_MSTATUS, 72
    .equ    A_MGUEST, 80
    .equ    A_MINSTRUCTION, 88
    .equ    A_SP, 96
    .equ    A_RESULT, 104               # a0 at the end

# void enter(struct attempt *attempt, uint64_t pc, uint64_t a0, uint64_t a1): goes to pc by mret, returns at the next trap
# into machine mode.
    .text
    .globl  enter
enter:
    addi    sp, sp, -112
    sd      ra, 0(sp)
    sd      s0, 8(sp)
    sd      s1, 16(sp)
    sd      s2, 24(sp)
    sd      s3, 32(sp)
    sd      s4, 40(sp)
    sd      s5, 48(sp)
    sd      s6, 56(sp)
    sd      s7, 64(sp)
    sd      s8, 72(sp)
    sd      s9, 80(sp)
    sd      s10, 88(sp)
    sd      s11, 96(sp)
    sd      tp, 104(sp)
    sd      sp, A_SP(a0)
    csrw    mscratch, a0
    csrw    sscratch, a0
    csrw    vsscratch, a0
    la      t0, in_machine
    csrw    mtvec, t0
    csrw    mepc, a1
    mv      a0, a2
    mv      a1, a3
    mret

    .balign 4
in_machine:
    csrrw   t0, mscratch, t0
    sd      a0, A_RESULT(t0)
    mv      a0, t0
    csrr    t1, mcause
    sd      t1, A_MCAUSE(a0)
    csrr    t1, mtval
    sd      t1, A_MVALUE(a0)
    csrr    t1, mstatus
    sd      t1, A_MSTATUS(a0)
    csrr    t1, mtval2
    sd      t1, A_MGUEST(a0)
    csrr    t1, mtinst
    sd      t1, A_MINSTRUCTION(a0)
    ld      sp, A_SP(a0)
    ld      ra, 0(sp)
    ld      s0, 8(sp)
    ld      s1, 16(sp)
    ld      s2, 24(sp)
    ld      s3, 32(sp)
    ld      s4, 40(sp)
    ld      s5, 48(sp)
    ld      s6, 56(sp)
    ld      s7, 64(sp)
    ld      s8, 72(sp)
    ld      s9, 80(sp)
    ld      s10, 88(sp)
    ld      s11, 96(sp)
    ld      tp, 104(sp)
    addi    sp, sp, 112
    la      t0, 1f
    csrw    mtvec, t0
    li      t1, 0x1800                  # as before: in machine mode
    csrs    mstatus, t1
    ret
    .balign 4
1:  j       1b

# Handlers below machine mode: they note what has come, and call it.
    .section .text.handlers, "ax", @progbits
    .balign 4096
    .globl  in_supervisor
in_supervisor:
    csrrw   t0, sscratch, t0
    li      t1, 1
    sd      t1, A_MODE(t0)
    csrr    t1, scause
    sd      t1, A_CAUSE(t0)
    csrr    t1, stval
    sd      t1, A_VALUE(t0)
    csrr    t1, sstatus
    sd      t1, A_STATUS(t0)
    csrr    t1, htval
    sd      t1, A_GUEST(t0)
    csrr    t1, htinst
    sd      t1, A_INSTRUCTION(t0)
    csrr    t1, hstatus
    sd      t1, A_HSTATUS(t0)
    ecall
    .balign 4
    .globl  in_guest
in_guest:
    csrrw   t0, sscratch, t0
    li      t1, 2
    sd      t1, A_MODE(t0)
    csrr    t1, scause
    sd      t1, A_CAUSE(t0)
    csrr    t1, stval
    sd      t1, A_VALUE(t0)
    csrr    t1, sstatus
    sd      t1, A_STATUS(t0)
    ecall
    .balign 4096
