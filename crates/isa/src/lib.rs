//! RV64GC with Zicsr, Zifencei, Zba, Zbb, Zbs, Zicond, Zacas, Zawrs and Zihintpause: decoding,
//! disassembly and pure semantics.
//!
//! Depends on `loiter-types` only. No state and no time live here: what an instruction does to a
//! hart is in `loiter-hart`, how long it takes in the cores.
//!
//! Invariants: an instruction is one line of the table (`table.rs`), from which decoding, text,
//! class and semantics derive; no two encodings overlap; a decoded [`Inst`] is plain data.

mod compressed;
mod csr;
mod decode;
mod disasm;
mod exec;
mod fp;
mod inst;
mod int;
mod table;
#[cfg(test)]
mod tests;

pub use decode::{decode, length};
pub use disasm::{disassemble, register_name};
pub use exec::{CsrOperand, Executor};
pub use fp::{FpContext, RoundingMode};
pub use inst::{Class, Inst, SINK, System, Width, f, x};
pub use table::{Op, dispatch};
