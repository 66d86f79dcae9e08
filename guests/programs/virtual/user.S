# From machine mode into user mode and back.
#
# void as_user(void (*code)(uint64_t), uint64_t argument): executes `code` in user mode, without interrupts, up to its
# environment call.
    .text
    .globl  as_user
as_user:
    li      t0, -1                      # all of memory, by any access
    csrw    pmpaddr0, t0
    li      t0, 0x1f
    csrw    pmpcfg0, t0
    csrrw   t3, mie, zero
    la      t0, back
    csrrw   t4, mtvec, t0
    csrw    mepc, a0
    li      t0, 0x1800                  # mstatus.MPP: to user mode
    csrc    mstatus, t0
    mv      a0, a1
    mret

    .balign 4
back:
    csrw    mtvec, t4
    csrw    mie, t3
    ret

# Steps of work.
    .globl  user_work
user_work:
    beqz    a0, 2f
1:  addi    a0, a0, -1
    bnez    a0, 1b
2:  ecall

# Work without end.
    .globl  user_rival
user_rival:
    .rept   256
    nop
    .endr
    j       user_rival
