//! What `monitor` in GDB offers.

use crate::session::Session;

const HELP: &str = "\
monitor info harts    where every hart stands, what it does
monitor info time     simulated time and instructions so far
monitor symbol ADDR   what an address belongs to, as the first hart uses addresses
monitor help          this";

/// What a command prints.
pub(crate) fn answer(session: &Session, command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["info", "harts"] => session.where_harts_stand().join("\n"),
        ["info", "time"] => format!(
            "cycle {}, {:.9} s, {} instructions",
            session.cycle(),
            session.seconds_since_power_on(),
            session.instructions()
        ),
        ["symbol", addr] => {
            let digits = addr.trim_start_matches("0x");
            match u64::from_str_radix(digits, 16) {
                Ok(addr) => {
                    let hart = session.system.harts[0].id;
                    format!("{addr:#x}{}", session.system.symbol(hart, addr))
                }
                Err(_) => format!("{addr}: not an address"),
            }
        }
        ["help"] | [] => HELP.to_owned(),
        _ => format!("{command}: no such command\n{HELP}"),
    }
}
