//! Debugging a guest: breakpoints, and the server that GDB speaks to.
//!
//! Nothing here costs anything until a breakpoint is set or an instruction is stepped: the engines run
//! their plain loops. Holding a system and letting it go on does not show in what it does.

mod inspector;
mod monitor;
mod registers;
mod server;
pub(crate) mod symbol_elf;
mod symbol_file_server;
mod target;

pub(crate) use inspector::Inspector;
pub(crate) use server::{Served, Server};
