//! RV64GC with Zicsr, Zifencei, Zba, Zbb, Zbs, Zicond, Zacas, Zawrs and Zihintpause, and loiter's own
//! hardware lock: decoding, disassembly and pure semantics.
//!
//! No state and no time live here: what an instruction does to a hart is in `loiter-hart`, how long
//! it takes in the cores. An engine decodes once, into plain records, implements the shapes of
//! [`Executor`], and runs a record by [`dispatch`], which inlines into the engine's loop.
//!
//! ```
//! let add = loiter_isa::decode(0x952e);
//! assert_eq!((add.op, add.rd, add.rs2, add.len), (loiter_isa::Op::Add, 10, 11, 2));
//! assert_eq!(loiter_isa::disassemble(0x952e, 0x8000_0000), "c.add a0,a1");
//! ```
//!
//! | file            | holds                                                               |
//! |-----------------|---------------------------------------------------------------------|
//! | `table.rs`      | one line per instruction; [`Op`] and [`dispatch`] made from it      |
//! | `compressed.rs` | one line per compressed instruction, with its expansion             |
//! | `int.rs`, `fp/` | semantics longer than a line; soft-float and its fast path          |
//! | `decode.rs`, `disasm.rs`, `assemble.rs`, `csr.rs` | fields and text, by the tables' operand letters |
//! | `inst.rs`, `exec.rs` | the decoded record; the shapes                                 |
//!
//! Invariants: an instruction is one line of the table, from which decoding, text, class and
//! semantics derive; no two encodings overlap but for listed special cases; a decoded [`Inst`] is
//! plain data of 16 bytes; rounding and flags are exact to the bit.

mod assemble;
mod compressed;
pub mod csr;
mod decode;
mod disasm;
mod exec;
mod fp;
mod inst;
mod int;
mod table;
#[cfg(test)]
mod tests;

pub use assemble::{AssembleError, assemble, integer_register};
pub use decode::{decode, length};
pub use disasm::{disassemble, register_name};
pub use exec::{CsrOperand, Executor};
pub use fp::{FpContext, RoundingMode};
pub use inst::{Class, FLAGS_BYTES, GuestLoad, Inst, Lock, SINK, System, Width, f, x};
pub use table::{Op, dispatch};
