# MIPS I, for spim: counts the primes below 40,000 with a sieve, 15 times, and sorts 200 numbers by exchange, four times.
        .data
flags:  .space  40000
numbers:.space  800
space:  .asciiz " "
line:   .asciiz "\n"

        .text
        .globl  main
main:   li      $s7, 15
again:  la      $t0, flags
        li      $t1, 40000
        addu    $t2, $t0, $t1
        move    $t3, $t0
clear:  sb      $zero, 0($t3)
        addiu   $t3, $t3, 1
        bne     $t3, $t2, clear
        li      $s0, 0                  # primes so far
        li      $t4, 2
next:   addu    $t5, $t0, $t4
        lb      $t6, 0($t5)
        bne     $t6, $zero, composite
        addiu   $s0, $s0, 1
        addu    $t7, $t4, $t4
strike: slt     $t6, $t7, $t1
        beq     $t6, $zero, composite
        addu    $t5, $t0, $t7
        li      $t6, 1
        sb      $t6, 0($t5)
        addu    $t7, $t7, $t4
        b       strike
composite:
        addiu   $t4, $t4, 1
        bne     $t4, $t1, next
        addiu   $s7, $s7, -1
        bne     $s7, $zero, again

        li      $s6, 4
mix:    la      $s1, numbers            # x = 75 x + 74 modulo 65537
        li      $s2, 200
        li      $s3, 1
        li      $t8, 65537
fill:   li      $t0, 75
        mult    $s3, $t0
        mflo    $s3
        addiu   $s3, $s3, 74
        divu    $s3, $t8
        mfhi    $s3
        sw      $s3, 0($s1)
        addiu   $s1, $s1, 4
        addiu   $s2, $s2, -1
        bne     $s2, $zero, fill
        li      $s4, 199
outer:  la      $s1, numbers
        move    $s5, $s4
inner:  lw      $t0, 0($s1)
        lw      $t1, 4($s1)
        slt     $t2, $t1, $t0
        beq     $t2, $zero, ordered
        sw      $t1, 0($s1)
        sw      $t0, 4($s1)
ordered:
        addiu   $s1, $s1, 4
        addiu   $s5, $s5, -1
        bne     $s5, $zero, inner
        addiu   $s4, $s4, -1
        bne     $s4, $zero, outer
        addiu   $s6, $s6, -1
        bne     $s6, $zero, mix

        move    $a0, $s0
        li      $v0, 1
        syscall
        la      $a0, space
        li      $v0, 4
        syscall
        la      $t0, numbers            # the least, the middle, the largest
        lw      $a0, 0($t0)
        li      $v0, 1
        syscall
        la      $a0, space
        li      $v0, 4
        syscall
        la      $t0, numbers
        lw      $a0, 400($t0)
        li      $v0, 1
        syscall
        la      $a0, space
        li      $v0, 4
        syscall
        la      $t0, numbers
        lw      $a0, 796($t0)
        li      $v0, 1
        syscall
        la      $a0, line
        li      $v0, 4
        syscall
        li      $v0, 10
        syscall
