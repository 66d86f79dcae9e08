//! The instruction table: one line per instruction.
//!
//! A line reads: variant of [`Op`], mnemonic, match, mask, operands, [`Class`], and the shape (a
//! method of [`Executor`]) with the pure semantics. From it derive the enum, [`dispatch`], decoding
//! (`decode.rs`) and text (`disasm.rs`).
//!
//! Where one encoding is a special case of another (`pause` of `fence`, a probe of `slti`), the
//! special one stands first: decoding takes the first line that matches.
//!
//! Operand letters; text in `disasm.rs` follows binutils:
//!
//! | letter        | operand                                                             |
//! |---------------|---------------------------------------------------------------------|
//! | `d` `s` `t`   | rd, rs1, rs2, integer registers                                     |
//! | `D` `S` `T` `R` | rd, rs1, rs2, rs3, floating-point registers                       |
//! | `c`           | rd that is read too (compare-and-swap); it is also the third source |
//! | `C` `w`       | as `c` and `t`, even registers of pairs; odd ones are illegal       |
//! | `j`           | 12-bit signed immediate                                             |
//! | `l` `q`       | `offset(rs1)` of a load (and jalr), of a store                      |
//! | `A`           | `(rs1)` of an atomic, with its `aq` and `rl` bits                   |
//! | `b`           | `(rs1)` without such bits                                           |
//! | `>` `<`       | 6-bit, 5-bit shift amount                                           |
//! | `u`           | upper immediate                                                     |
//! | `p` `a`       | branch target, jump target                                          |
//! | `E` `Z`       | CSR number, 5-bit unsigned immediate                                |
//! | `f`           | predecessor and successor set of a fence                            |
//! | `F`           | the fence field, not in the text                                    |
//! | `m`           | rounding mode; the reserved ones are illegal                        |
//! | `n`           | rounding mode, as `m`, of a result that is always exact             |

use crate::decode::Encoding;
use crate::int::{mulh, mulhsu, mulhu, sext32};
use crate::{Class, CsrOperand, Executor, GuestLoad, Inst, Lock, System, Width, fp, int};

macro_rules! instructions {
    ($($op:ident $mnemonic:literal $match:literal $mask:literal $operands:literal $class:ident
       $shape:ident($($argument:expr),*);)*) => {
        /// The operation of an instruction.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Op {
            /// No instruction of this machine.
            Illegal,
            $(#[doc = concat!("`", $mnemonic, "`")] $op,)*
        }

        impl Op {
            /// Every instruction of the table, so all but [`Op::Illegal`].
            pub const ALL: &'static [Op] = &[$(Op::$op),*];

            /// The name by which assemblers know it.
            #[must_use]
            pub const fn mnemonic(self) -> &'static str {
                match self {
                    Op::Illegal => "illegal",
                    $(Op::$op => $mnemonic,)*
                }
            }

            /// Match and mask: an encoding of this operation equals the first wherever the second
            /// has ones. None for [`Op::Illegal`].
            #[must_use]
            pub const fn pattern(self) -> Option<(u32, u32)> {
                match self {
                    Op::Illegal => None,
                    $(Op::$op => Some(($match, $mask)),)*
                }
            }

            /// Whether it is an atomic that writes nothing.
            #[inline(always)]
            #[must_use]
            pub const fn only_reads(self) -> bool {
                matches!(self, Op::LrW | Op::LrD | Op::LockWait)
            }

            /// Whether it orders what follows after changes of page tables, so that translations may have to be forgotten.
            #[inline(always)]
            #[must_use]
            pub const fn fences_translations(self) -> bool {
                matches!(self, Op::SfenceVma | Op::HfenceVvma | Op::HfenceGvma)
            }

            /// Whether it is a load or store that a hypervisor makes as its guest does.
            #[inline(always)]
            #[must_use]
            pub const fn accesses_as_guest(self) -> bool {
                matches!(
                    self,
                    Op::HlvB
                        | Op::HlvBu
                        | Op::HlvH
                        | Op::HlvHu
                        | Op::HlvxHu
                        | Op::HlvW
                        | Op::HlvWu
                        | Op::HlvxWu
                        | Op::HlvD
                        | Op::HsvB
                        | Op::HsvH
                        | Op::HsvW
                        | Op::HsvD
                )
            }

            /// What it asks of a core's units.
            #[inline(always)]
            #[must_use]
            pub const fn class(self) -> Class {
                // A look-up and never a jump: cores ask this of every instruction.
                const CLASSES: &[Class] = &[Class::System, $(Class::$class),*];
                CLASSES[self as usize]
            }
        }

        /// Every encoding, in the order of the table.
        pub(crate) static ENCODINGS: &[Encoding] = &[
            $(Encoding::new(Op::$op, $mnemonic, $match, $mask, $operands),)*
        ];

        /// Runs instruction `i` on executor `e`: hands the instruction's semantics to its shape.
        #[inline(always)]
        pub fn dispatch<E: Executor>(e: &mut E, i: &Inst) -> E::Out {
            match i.op {
                Op::Illegal => e.system(i, System::Illegal),
                $(Op::$op => e.$shape(i, $($argument),*),)*
            }
        }
    };
}

instructions! {
    // RV64I
    Lui "lui" 0x0000_0037 0x0000_007f "d,u" Alu alu_imm(|_, b| b);
    Auipc "auipc" 0x0000_0017 0x0000_007f "d,u" Alu alu_pc(|pc, b| pc.wrapping_add(b));
    Jal "jal" 0x0000_006f 0x0000_007f "d,a" Jump jump(|pc, _, b| pc.wrapping_add(b));
    Jalr "jalr" 0x0000_0067 0x0000_707f "d,l" Jump jump(|_, a, b| a.wrapping_add(b) & !1);
    Beq "beq" 0x0000_0063 0x0000_707f "s,t,p" Branch branch(|a, b| a == b);
    Bne "bne" 0x0000_1063 0x0000_707f "s,t,p" Branch branch(|a, b| a != b);
    Blt "blt" 0x0000_4063 0x0000_707f "s,t,p" Branch branch(|a, b| (a as i64) < (b as i64));
    Bge "bge" 0x0000_5063 0x0000_707f "s,t,p" Branch branch(|a, b| (a as i64) >= (b as i64));
    Bltu "bltu" 0x0000_6063 0x0000_707f "s,t,p" Branch branch(|a, b| a < b);
    Bgeu "bgeu" 0x0000_7063 0x0000_707f "s,t,p" Branch branch(|a, b| a >= b);
    Lb "lb" 0x0000_0003 0x0000_707f "d,l" Load load(Width::B, |v| v as i8 as u64);
    Lh "lh" 0x0000_1003 0x0000_707f "d,l" Load load(Width::H, |v| v as i16 as u64);
    Lw "lw" 0x0000_2003 0x0000_707f "d,l" Load load(Width::W, sext32);
    Ld "ld" 0x0000_3003 0x0000_707f "d,l" Load load(Width::D, |v| v);
    Lbu "lbu" 0x0000_4003 0x0000_707f "d,l" Load load(Width::B, |v| v);
    Lhu "lhu" 0x0000_5003 0x0000_707f "d,l" Load load(Width::H, |v| v);
    Lwu "lwu" 0x0000_6003 0x0000_707f "d,l" Load load(Width::W, |v| v);
    Sb "sb" 0x0000_0023 0x0000_707f "t,q" Store store(Width::B);
    Sh "sh" 0x0000_1023 0x0000_707f "t,q" Store store(Width::H);
    Sw "sw" 0x0000_2023 0x0000_707f "t,q" Store store(Width::W);
    Sd "sd" 0x0000_3023 0x0000_707f "t,q" Store store(Width::D);
    Addi "addi" 0x0000_0013 0x0000_707f "d,s,j" Alu alu_imm(|a, b| a.wrapping_add(b));
    Probe "slti" 0x0000_2013 0x0000_7fff "d,s,j" Probe system(System::Probe);
    Slti "slti" 0x0000_2013 0x0000_707f "d,s,j" Alu alu_imm(|a, b| u64::from((a as i64) < (b as i64)));
    Sltiu "sltiu" 0x0000_3013 0x0000_707f "d,s,j" Alu alu_imm(|a, b| u64::from(a < b));
    Xori "xori" 0x0000_4013 0x0000_707f "d,s,j" Alu alu_imm(|a, b| a ^ b);
    Ori "ori" 0x0000_6013 0x0000_707f "d,s,j" Alu alu_imm(|a, b| a | b);
    Andi "andi" 0x0000_7013 0x0000_707f "d,s,j" Alu alu_imm(|a, b| a & b);
    Slli "slli" 0x0000_1013 0xfc00_707f "d,s,>" Alu alu_imm(|a, b| a.wrapping_shl(b as u32));
    Srli "srli" 0x0000_5013 0xfc00_707f "d,s,>" Alu alu_imm(|a, b| a.wrapping_shr(b as u32));
    Srai "srai" 0x4000_5013 0xfc00_707f "d,s,>" Alu alu_imm(|a, b| (a as i64).wrapping_shr(b as u32) as u64);
    Add "add" 0x0000_0033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a.wrapping_add(b));
    Sub "sub" 0x4000_0033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a.wrapping_sub(b));
    Sll "sll" 0x0000_1033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a.wrapping_shl(b as u32));
    Slt "slt" 0x0000_2033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| u64::from((a as i64) < (b as i64)));
    Sltu "sltu" 0x0000_3033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| u64::from(a < b));
    Xor "xor" 0x0000_4033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a ^ b);
    Srl "srl" 0x0000_5033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a.wrapping_shr(b as u32));
    Sra "sra" 0x4000_5033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| (a as i64).wrapping_shr(b as u32) as u64);
    Or "or" 0x0000_6033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a | b);
    And "and" 0x0000_7033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a & b);
    Addiw "addiw" 0x0000_001b 0x0000_707f "d,s,j" Alu alu_imm(|a, b| sext32(a.wrapping_add(b)));
    Slliw "slliw" 0x0000_101b 0xfe00_707f "d,s,<" Alu alu_imm(int::sllw);
    Srliw "srliw" 0x0000_501b 0xfe00_707f "d,s,<" Alu alu_imm(int::srlw);
    Sraiw "sraiw" 0x4000_501b 0xfe00_707f "d,s,<" Alu alu_imm(int::sraw);
    Addw "addw" 0x0000_003b 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| sext32(a.wrapping_add(b)));
    Subw "subw" 0x4000_003b 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| sext32(a.wrapping_sub(b)));
    Sllw "sllw" 0x0000_103b 0xfe00_707f "d,s,t" Alu alu_reg(int::sllw);
    Srlw "srlw" 0x0000_503b 0xfe00_707f "d,s,t" Alu alu_reg(int::srlw);
    Sraw "sraw" 0x4000_503b 0xfe00_707f "d,s,t" Alu alu_reg(int::sraw);
    Pause "pause" 0x0100_000f 0xffff_ffff "" Pause system(System::Pause);
    FenceTso "fence.tso" 0x8330_000f 0xfff0_707f "F" Fence system(System::Fence);
    Fence "fence" 0x0000_000f 0x0000_707f "f" Fence system(System::Fence);
    Ecall "ecall" 0x0000_0073 0xffff_ffff "" System system(System::Ecall);
    Ebreak "ebreak" 0x0010_0073 0xffff_ffff "" System system(System::Ebreak);

    // Zifencei
    FenceI "fence.i" 0x0000_100f 0x0000_707f "" Fence system(System::FenceI);

    // Zicsr
    Csrrw "csrrw" 0x0000_1073 0x0000_707f "d,E,s" Csr csr(CsrOperand::Write, |_, b| b);
    Csrrs "csrrs" 0x0000_2073 0x0000_707f "d,E,s" Csr csr(CsrOperand::Modify, |a, b| a | b);
    Csrrc "csrrc" 0x0000_3073 0x0000_707f "d,E,s" Csr csr(CsrOperand::Modify, |a, b| a & !b);
    Csrrwi "csrrwi" 0x0000_5073 0x0000_707f "d,E,Z" Csr csr(CsrOperand::WriteImm, |_, b| b);
    Csrrsi "csrrsi" 0x0000_6073 0x0000_707f "d,E,Z" Csr csr(CsrOperand::ModifyImm, |a, b| a | b);
    Csrrci "csrrci" 0x0000_7073 0x0000_707f "d,E,Z" Csr csr(CsrOperand::ModifyImm, |a, b| a & !b);

    // Privileged
    Mret "mret" 0x3020_0073 0xffff_ffff "" System system(System::Mret);
    Sret "sret" 0x1020_0073 0xffff_ffff "" System system(System::Sret);
    Wfi "wfi" 0x1050_0073 0xffff_ffff "" Nap system(System::Wfi);
    SfenceVma "sfence.vma" 0x1200_0073 0xfe00_7fff "s,t" Fence system(System::SfenceVma);

    // H. What a hypervisor's loads and stores access takes no time in caches: they are rare.
    HfenceVvma "hfence.vvma" 0x2200_0073 0xfe00_7fff "s,t" Fence system(System::HypervisorFence);
    HfenceGvma "hfence.gvma" 0x6200_0073 0xfe00_7fff "s,t" Fence system(System::HypervisorFence);
    HlvB "hlv.b" 0x6000_4073 0xfff0_707f "d,b" System system(System::GuestLoad(GuestLoad::signed(Width::B)));
    HlvBu "hlv.bu" 0x6010_4073 0xfff0_707f "d,b" System system(System::GuestLoad(GuestLoad::unsigned(Width::B)));
    HlvH "hlv.h" 0x6400_4073 0xfff0_707f "d,b" System system(System::GuestLoad(GuestLoad::signed(Width::H)));
    HlvHu "hlv.hu" 0x6410_4073 0xfff0_707f "d,b" System system(System::GuestLoad(GuestLoad::unsigned(Width::H)));
    HlvxHu "hlvx.hu" 0x6430_4073 0xfff0_707f "d,b" System system(System::GuestLoad(GuestLoad::of_code(Width::H)));
    HlvW "hlv.w" 0x6800_4073 0xfff0_707f "d,b" System system(System::GuestLoad(GuestLoad::signed(Width::W)));
    HlvWu "hlv.wu" 0x6810_4073 0xfff0_707f "d,b" System system(System::GuestLoad(GuestLoad::unsigned(Width::W)));
    HlvxWu "hlvx.wu" 0x6830_4073 0xfff0_707f "d,b" System system(System::GuestLoad(GuestLoad::of_code(Width::W)));
    HlvD "hlv.d" 0x6c00_4073 0xfff0_707f "d,b" System system(System::GuestLoad(GuestLoad::unsigned(Width::D)));
    HsvB "hsv.b" 0x6200_4073 0xfe00_7fff "t,b" System system(System::GuestStore(Width::B));
    HsvH "hsv.h" 0x6600_4073 0xfe00_7fff "t,b" System system(System::GuestStore(Width::H));
    HsvW "hsv.w" 0x6a00_4073 0xfe00_7fff "t,b" System system(System::GuestStore(Width::W));
    HsvD "hsv.d" 0x6e00_4073 0xfe00_7fff "t,b" System system(System::GuestStore(Width::D));

    // Zawrs
    WrsNto "wrs.nto" 0x00d0_0073 0xffff_ffff "" Nap system(System::WrsNto);
    WrsSto "wrs.sto" 0x01d0_0073 0xffff_ffff "" Nap system(System::WrsSto);

    // M
    Mul "mul" 0x0200_0033 0xfe00_707f "d,s,t" Mul alu_reg(|a, b| a.wrapping_mul(b));
    Mulh "mulh" 0x0200_1033 0xfe00_707f "d,s,t" Mul alu_reg(mulh);
    Mulhsu "mulhsu" 0x0200_2033 0xfe00_707f "d,s,t" Mul alu_reg(mulhsu);
    Mulhu "mulhu" 0x0200_3033 0xfe00_707f "d,s,t" Mul alu_reg(mulhu);
    Div "div" 0x0200_4033 0xfe00_707f "d,s,t" Div alu_reg(int::div);
    Divu "divu" 0x0200_5033 0xfe00_707f "d,s,t" Div alu_reg(int::divu);
    Rem "rem" 0x0200_6033 0xfe00_707f "d,s,t" Div alu_reg(int::rem);
    Remu "remu" 0x0200_7033 0xfe00_707f "d,s,t" Div alu_reg(int::remu);
    Mulw "mulw" 0x0200_003b 0xfe00_707f "d,s,t" Mul alu_reg(|a, b| sext32(a.wrapping_mul(b)));
    Divw "divw" 0x0200_403b 0xfe00_707f "d,s,t" Div alu_reg(int::divw);
    Divuw "divuw" 0x0200_503b 0xfe00_707f "d,s,t" Div alu_reg(int::divuw);
    Remw "remw" 0x0200_603b 0xfe00_707f "d,s,t" Div alu_reg(int::remw);
    Remuw "remuw" 0x0200_703b 0xfe00_707f "d,s,t" Div alu_reg(int::remuw);

    // A. Operands of .w arrive sign-extended, which keeps both the signed and the unsigned order.
    LrW "lr.w" 0x1000_202f 0xf9f0_707f "d,A" Atomic lr(Width::W);
    LrD "lr.d" 0x1000_302f 0xf9f0_707f "d,A" Atomic lr(Width::D);
    ScW "sc.w" 0x1800_202f 0xf800_707f "d,t,A" Atomic sc(Width::W);
    ScD "sc.d" 0x1800_302f 0xf800_707f "d,t,A" Atomic sc(Width::D);
    AmoswapW "amoswap.w" 0x0800_202f 0xf800_707f "d,t,A" Atomic amo(Width::W, |_, b| b);
    AmoaddW "amoadd.w" 0x0000_202f 0xf800_707f "d,t,A" Atomic amo(Width::W, |a, b| a.wrapping_add(b));
    AmoxorW "amoxor.w" 0x2000_202f 0xf800_707f "d,t,A" Atomic amo(Width::W, |a, b| a ^ b);
    AmoandW "amoand.w" 0x6000_202f 0xf800_707f "d,t,A" Atomic amo(Width::W, |a, b| a & b);
    AmoorW "amoor.w" 0x4000_202f 0xf800_707f "d,t,A" Atomic amo(Width::W, |a, b| a | b);
    AmominW "amomin.w" 0x8000_202f 0xf800_707f "d,t,A" Atomic amo(Width::W, int::min);
    AmomaxW "amomax.w" 0xa000_202f 0xf800_707f "d,t,A" Atomic amo(Width::W, int::max);
    AmominuW "amominu.w" 0xc000_202f 0xf800_707f "d,t,A" Atomic amo(Width::W, u64::min);
    AmomaxuW "amomaxu.w" 0xe000_202f 0xf800_707f "d,t,A" Atomic amo(Width::W, u64::max);
    AmoswapD "amoswap.d" 0x0800_302f 0xf800_707f "d,t,A" Atomic amo(Width::D, |_, b| b);
    AmoaddD "amoadd.d" 0x0000_302f 0xf800_707f "d,t,A" Atomic amo(Width::D, |a, b| a.wrapping_add(b));
    AmoxorD "amoxor.d" 0x2000_302f 0xf800_707f "d,t,A" Atomic amo(Width::D, |a, b| a ^ b);
    AmoandD "amoand.d" 0x6000_302f 0xf800_707f "d,t,A" Atomic amo(Width::D, |a, b| a & b);
    AmoorD "amoor.d" 0x4000_302f 0xf800_707f "d,t,A" Atomic amo(Width::D, |a, b| a | b);
    AmominD "amomin.d" 0x8000_302f 0xf800_707f "d,t,A" Atomic amo(Width::D, int::min);
    AmomaxD "amomax.d" 0xa000_302f 0xf800_707f "d,t,A" Atomic amo(Width::D, int::max);
    AmominuD "amominu.d" 0xc000_302f 0xf800_707f "d,t,A" Atomic amo(Width::D, u64::min);
    AmomaxuD "amomaxu.d" 0xe000_302f 0xf800_707f "d,t,A" Atomic amo(Width::D, u64::max);

    // Zacas
    AmocasW "amocas.w" 0x2800_202f 0xf800_707f "c,t,A" Atomic cas(Width::W);
    AmocasD "amocas.d" 0x2800_302f 0xf800_707f "c,t,A" Atomic cas(Width::D);
    AmocasQ "amocas.q" 0x2800_402f 0xf800_707f "C,w,A" Atomic cas(Width::Q);

    // Xloiterlock, loiter's own: the hardware lock, in the opcode space custom-0. Text as `.insn b` and
    // `.insn s` of GNU as assemble it.
    LockAcquire "lock.acquire" 0x0000_000b 0x0000_707f "b,t,p" Atomic lock(Lock::Acquire);
    LockRelease "lock.release" 0x0000_100b 0xfff0_7fff "b" Store lock(Lock::Release);
    LockWait "lock.wait" 0x0000_200b 0x0000_707f "b,t,p" Atomic lock(Lock::Wait);

    // Zba
    AddUw "add.uw" 0x0800_003b 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| u64::from(a as u32).wrapping_add(b));
    Sh1add "sh1add" 0x2000_2033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| (a << 1).wrapping_add(b));
    Sh2add "sh2add" 0x2000_4033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| (a << 2).wrapping_add(b));
    Sh3add "sh3add" 0x2000_6033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| (a << 3).wrapping_add(b));
    Sh1addUw "sh1add.uw" 0x2000_203b 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| (u64::from(a as u32) << 1).wrapping_add(b));
    Sh2addUw "sh2add.uw" 0x2000_403b 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| (u64::from(a as u32) << 2).wrapping_add(b));
    Sh3addUw "sh3add.uw" 0x2000_603b 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| (u64::from(a as u32) << 3).wrapping_add(b));
    SlliUw "slli.uw" 0x0800_101b 0xfc00_707f "d,s,>" Alu alu_imm(|a, b| u64::from(a as u32).wrapping_shl(b as u32));

    // Zbb
    Andn "andn" 0x4000_7033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a & !b);
    Orn "orn" 0x4000_6033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a | !b);
    Xnor "xnor" 0x4000_4033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| !(a ^ b));
    Clz "clz" 0x6000_1013 0xfff0_707f "d,s" Alu alu_imm(|a, _| u64::from(a.leading_zeros()));
    Clzw "clzw" 0x6000_101b 0xfff0_707f "d,s" Alu alu_imm(|a, _| u64::from((a as u32).leading_zeros()));
    Ctz "ctz" 0x6010_1013 0xfff0_707f "d,s" Alu alu_imm(|a, _| u64::from(a.trailing_zeros()));
    Ctzw "ctzw" 0x6010_101b 0xfff0_707f "d,s" Alu alu_imm(|a, _| u64::from((a as u32).trailing_zeros()));
    Cpop "cpop" 0x6020_1013 0xfff0_707f "d,s" Alu alu_imm(|a, _| u64::from(a.count_ones()));
    Cpopw "cpopw" 0x6020_101b 0xfff0_707f "d,s" Alu alu_imm(|a, _| u64::from((a as u32).count_ones()));
    Max "max" 0x0a00_6033 0xfe00_707f "d,s,t" Alu alu_reg(int::max);
    Maxu "maxu" 0x0a00_7033 0xfe00_707f "d,s,t" Alu alu_reg(u64::max);
    Min "min" 0x0a00_4033 0xfe00_707f "d,s,t" Alu alu_reg(int::min);
    Minu "minu" 0x0a00_5033 0xfe00_707f "d,s,t" Alu alu_reg(u64::min);
    SextB "sext.b" 0x6040_1013 0xfff0_707f "d,s" Alu alu_imm(|a, _| a as i8 as u64);
    SextH "sext.h" 0x6050_1013 0xfff0_707f "d,s" Alu alu_imm(|a, _| a as i16 as u64);
    ZextH "zext.h" 0x0800_403b 0xfff0_707f "d,s" Alu alu_imm(|a, _| u64::from(a as u16));
    Rol "rol" 0x6000_1033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a.rotate_left(b as u32 & 63));
    Rolw "rolw" 0x6000_103b 0xfe00_707f "d,s,t" Alu alu_reg(int::rolw);
    Ror "ror" 0x6000_5033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a.rotate_right(b as u32 & 63));
    Rori "rori" 0x6000_5013 0xfc00_707f "d,s,>" Alu alu_imm(|a, b| a.rotate_right(b as u32 & 63));
    Roriw "roriw" 0x6000_501b 0xfe00_707f "d,s,<" Alu alu_imm(int::rorw);
    Rorw "rorw" 0x6000_503b 0xfe00_707f "d,s,t" Alu alu_reg(int::rorw);
    OrcB "orc.b" 0x2870_5013 0xfff0_707f "d,s" Alu alu_imm(|a, _| int::orc_b(a));
    Rev8 "rev8" 0x6b80_5013 0xfff0_707f "d,s" Alu alu_imm(|a, _| a.swap_bytes());

    // Zbs
    Bclr "bclr" 0x4800_1033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a & !int::bit(b));
    Bclri "bclri" 0x4800_1013 0xfc00_707f "d,s,>" Alu alu_imm(|a, b| a & !int::bit(b));
    Bext "bext" 0x4800_5033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a.wrapping_shr(b as u32) & 1);
    Bexti "bexti" 0x4800_5013 0xfc00_707f "d,s,>" Alu alu_imm(|a, b| a.wrapping_shr(b as u32) & 1);
    Binv "binv" 0x6800_1033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a ^ int::bit(b));
    Binvi "binvi" 0x6800_1013 0xfc00_707f "d,s,>" Alu alu_imm(|a, b| a ^ int::bit(b));
    Bset "bset" 0x2800_1033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| a | int::bit(b));
    Bseti "bseti" 0x2800_1013 0xfc00_707f "d,s,>" Alu alu_imm(|a, b| a | int::bit(b));

    // Zicond
    CzeroEqz "czero.eqz" 0x0e00_5033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| if b == 0 { 0 } else { a });
    CzeroNez "czero.nez" 0x0e00_7033 0xfe00_707f "d,s,t" Alu alu_reg(|a, b| if b != 0 { 0 } else { a });

    // F
    Flw "flw" 0x0000_2007 0x0000_707f "D,l" Load fp_load(Width::W, fp::box_single);
    Fsw "fsw" 0x0000_2027 0x0000_707f "T,q" Store fp_store(Width::W);
    FmaddS "fmadd.s" 0x0000_0043 0x0600_007f "D,S,T,R,m" FpFma fp(fp::fmadd::<f32>);
    FmsubS "fmsub.s" 0x0000_0047 0x0600_007f "D,S,T,R,m" FpFma fp(fp::fmsub::<f32>);
    FnmsubS "fnmsub.s" 0x0000_004b 0x0600_007f "D,S,T,R,m" FpFma fp(fp::fnmsub::<f32>);
    FnmaddS "fnmadd.s" 0x0000_004f 0x0600_007f "D,S,T,R,m" FpFma fp(fp::fnmadd::<f32>);
    FaddS "fadd.s" 0x0000_0053 0xfe00_007f "D,S,T,m" FpAdd fp(|c, x, y, _| fp::add::<f32>(c, x, y));
    FsubS "fsub.s" 0x0800_0053 0xfe00_007f "D,S,T,m" FpAdd fp(|c, x, y, _| fp::sub::<f32>(c, x, y));
    FmulS "fmul.s" 0x1000_0053 0xfe00_007f "D,S,T,m" FpMul fp(|c, x, y, _| fp::mul::<f32>(c, x, y));
    FdivS "fdiv.s" 0x1800_0053 0xfe00_007f "D,S,T,m" FpDiv fp(|c, x, y, _| fp::div::<f32>(c, x, y));
    FsqrtS "fsqrt.s" 0x5800_0053 0xfff0_007f "D,S,m" FpSqrt fp(|c, x, _, _| fp::sqrt::<f32>(c, x));
    FsgnjS "fsgnj.s" 0x2000_0053 0xfe00_707f "D,S,T" FpMove fp(|_, x, y, _| fp::sgnj::<f32>(x, y));
    FsgnjnS "fsgnjn.s" 0x2000_1053 0xfe00_707f "D,S,T" FpMove fp(|_, x, y, _| fp::sgnjn::<f32>(x, y));
    FsgnjxS "fsgnjx.s" 0x2000_2053 0xfe00_707f "D,S,T" FpMove fp(|_, x, y, _| fp::sgnjx::<f32>(x, y));
    FminS "fmin.s" 0x2800_0053 0xfe00_707f "D,S,T" FpAdd fp(|c, x, y, _| fp::min::<f32>(c, x, y));
    FmaxS "fmax.s" 0x2800_1053 0xfe00_707f "D,S,T" FpAdd fp(|c, x, y, _| fp::max::<f32>(c, x, y));
    FeqS "feq.s" 0xa000_2053 0xfe00_707f "d,S,T" FpAdd fp(|c, x, y, _| fp::eq::<f32>(c, x, y));
    FltS "flt.s" 0xa000_1053 0xfe00_707f "d,S,T" FpAdd fp(|c, x, y, _| fp::lt::<f32>(c, x, y));
    FleS "fle.s" 0xa000_0053 0xfe00_707f "d,S,T" FpAdd fp(|c, x, y, _| fp::le::<f32>(c, x, y));
    FclassS "fclass.s" 0xe000_1053 0xfff0_707f "d,S" FpMove fp(|_, x, _, _| fp::class::<f32>(x));
    FmvXW "fmv.x.w" 0xe000_0053 0xfff0_707f "d,S" FpMove fp(|_, x, _, _| sext32(x));
    FmvWX "fmv.w.x" 0xf000_0053 0xfff0_707f "D,s" FpMove fp(|_, x, _, _| fp::box_single(x));
    FcvtWS "fcvt.w.s" 0xc000_0053 0xfff0_007f "d,S,m" FpAdd fp(|c, x, _, _| fp::to_i32::<f32>(c, x));
    FcvtWuS "fcvt.wu.s" 0xc010_0053 0xfff0_007f "d,S,m" FpAdd fp(|c, x, _, _| fp::to_u32::<f32>(c, x));
    FcvtLS "fcvt.l.s" 0xc020_0053 0xfff0_007f "d,S,m" FpAdd fp(|c, x, _, _| fp::to_i64::<f32>(c, x));
    FcvtLuS "fcvt.lu.s" 0xc030_0053 0xfff0_007f "d,S,m" FpAdd fp(|c, x, _, _| fp::to_u64::<f32>(c, x));
    FcvtSW "fcvt.s.w" 0xd000_0053 0xfff0_007f "D,s,m" FpAdd fp(|c, x, _, _| fp::from_i32::<f32>(c, x));
    FcvtSWu "fcvt.s.wu" 0xd010_0053 0xfff0_007f "D,s,m" FpAdd fp(|c, x, _, _| fp::from_u32::<f32>(c, x));
    FcvtSL "fcvt.s.l" 0xd020_0053 0xfff0_007f "D,s,m" FpAdd fp(|c, x, _, _| fp::from_i64::<f32>(c, x));
    FcvtSLu "fcvt.s.lu" 0xd030_0053 0xfff0_007f "D,s,m" FpAdd fp(|c, x, _, _| fp::from_u64::<f32>(c, x));

    // D
    Fld "fld" 0x0000_3007 0x0000_707f "D,l" Load fp_load(Width::D, |v| v);
    Fsd "fsd" 0x0000_3027 0x0000_707f "T,q" Store fp_store(Width::D);
    FmaddD "fmadd.d" 0x0200_0043 0x0600_007f "D,S,T,R,m" FpFma fp(fp::fmadd::<f64>);
    FmsubD "fmsub.d" 0x0200_0047 0x0600_007f "D,S,T,R,m" FpFma fp(fp::fmsub::<f64>);
    FnmsubD "fnmsub.d" 0x0200_004b 0x0600_007f "D,S,T,R,m" FpFma fp(fp::fnmsub::<f64>);
    FnmaddD "fnmadd.d" 0x0200_004f 0x0600_007f "D,S,T,R,m" FpFma fp(fp::fnmadd::<f64>);
    FaddD "fadd.d" 0x0200_0053 0xfe00_007f "D,S,T,m" FpAdd fp(|c, x, y, _| fp::add::<f64>(c, x, y));
    FsubD "fsub.d" 0x0a00_0053 0xfe00_007f "D,S,T,m" FpAdd fp(|c, x, y, _| fp::sub::<f64>(c, x, y));
    FmulD "fmul.d" 0x1200_0053 0xfe00_007f "D,S,T,m" FpMul fp(|c, x, y, _| fp::mul::<f64>(c, x, y));
    FdivD "fdiv.d" 0x1a00_0053 0xfe00_007f "D,S,T,m" FpDiv fp(|c, x, y, _| fp::div::<f64>(c, x, y));
    FsqrtD "fsqrt.d" 0x5a00_0053 0xfff0_007f "D,S,m" FpSqrt fp(|c, x, _, _| fp::sqrt::<f64>(c, x));
    FsgnjD "fsgnj.d" 0x2200_0053 0xfe00_707f "D,S,T" FpMove fp(|_, x, y, _| fp::sgnj::<f64>(x, y));
    FsgnjnD "fsgnjn.d" 0x2200_1053 0xfe00_707f "D,S,T" FpMove fp(|_, x, y, _| fp::sgnjn::<f64>(x, y));
    FsgnjxD "fsgnjx.d" 0x2200_2053 0xfe00_707f "D,S,T" FpMove fp(|_, x, y, _| fp::sgnjx::<f64>(x, y));
    FminD "fmin.d" 0x2a00_0053 0xfe00_707f "D,S,T" FpAdd fp(|c, x, y, _| fp::min::<f64>(c, x, y));
    FmaxD "fmax.d" 0x2a00_1053 0xfe00_707f "D,S,T" FpAdd fp(|c, x, y, _| fp::max::<f64>(c, x, y));
    FeqD "feq.d" 0xa200_2053 0xfe00_707f "d,S,T" FpAdd fp(|c, x, y, _| fp::eq::<f64>(c, x, y));
    FltD "flt.d" 0xa200_1053 0xfe00_707f "d,S,T" FpAdd fp(|c, x, y, _| fp::lt::<f64>(c, x, y));
    FleD "fle.d" 0xa200_0053 0xfe00_707f "d,S,T" FpAdd fp(|c, x, y, _| fp::le::<f64>(c, x, y));
    FclassD "fclass.d" 0xe200_1053 0xfff0_707f "d,S" FpMove fp(|_, x, _, _| fp::class::<f64>(x));
    FmvXD "fmv.x.d" 0xe200_0053 0xfff0_707f "d,S" FpMove fp(|_, x, _, _| x);
    FmvDX "fmv.d.x" 0xf200_0053 0xfff0_707f "D,s" FpMove fp(|_, x, _, _| x);
    FcvtSD "fcvt.s.d" 0x4010_0053 0xfff0_007f "D,S,m" FpAdd fp(|c, x, _, _| fp::narrow(c, x));
    FcvtDS "fcvt.d.s" 0x4200_0053 0xfff0_007f "D,S,n" FpAdd fp(|c, x, _, _| fp::widen(c, x));
    FcvtWD "fcvt.w.d" 0xc200_0053 0xfff0_007f "d,S,m" FpAdd fp(|c, x, _, _| fp::to_i32::<f64>(c, x));
    FcvtWuD "fcvt.wu.d" 0xc210_0053 0xfff0_007f "d,S,m" FpAdd fp(|c, x, _, _| fp::to_u32::<f64>(c, x));
    FcvtLD "fcvt.l.d" 0xc220_0053 0xfff0_007f "d,S,m" FpAdd fp(|c, x, _, _| fp::to_i64::<f64>(c, x));
    FcvtLuD "fcvt.lu.d" 0xc230_0053 0xfff0_007f "d,S,m" FpAdd fp(|c, x, _, _| fp::to_u64::<f64>(c, x));
    FcvtDW "fcvt.d.w" 0xd200_0053 0xfff0_007f "D,s,n" FpAdd fp(|c, x, _, _| fp::from_i32::<f64>(c, x));
    FcvtDWu "fcvt.d.wu" 0xd210_0053 0xfff0_007f "D,s,n" FpAdd fp(|c, x, _, _| fp::from_u32::<f64>(c, x));
    FcvtDL "fcvt.d.l" 0xd220_0053 0xfff0_007f "D,s,m" FpAdd fp(|c, x, _, _| fp::from_i64::<f64>(c, x));
    FcvtDLu "fcvt.d.lu" 0xd230_0053 0xfff0_007f "D,s,m" FpAdd fp(|c, x, _, _| fp::from_u64::<f64>(c, x));
}
