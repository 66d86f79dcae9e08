//! That GDB can hold a system, look at it and step it, and that nothing of that shows.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use loiter_isa::Op;
use loiter_sim::{Limits, Session, Status, TraceRequest};

use crate::generator::asm::GP;
use crate::generator::{Settings, Target, generate};
use crate::handmade::{A0, DATA, FREE, Guest, S0, S1, T0, T1};
use crate::machines::{MAX_CYCLES, Machine};

const HARTS: usize = 3;
/// Host time of a step.
const STEP: Duration = Duration::from_millis(50);

/// The other side of the protocol, in as few words as possible.
pub(crate) struct Gdb(TcpStream);

impl Gdb {
    fn connect(address: &str) -> Self {
        Self::speak(TcpStream::connect(address).expect("a server"))
    }

    /// The same, as soon as somebody listens there.
    pub(crate) fn connect_when_it_listens(address: &str) -> Self {
        let begin = Instant::now();
        loop {
            match TcpStream::connect(address) {
                Ok(stream) => return Self::speak(stream),
                Err(error) => assert!(begin.elapsed() < Duration::from_secs(60), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn speak(stream: TcpStream) -> Self {
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).expect("a time-out");
        Self(stream)
    }

    fn send(&mut self, packet: &str) {
        let sum: u8 = packet.bytes().fold(0, u8::wrapping_add);
        let text = format!("+${packet}#{sum:02x}");
        self.0.write_all(text.as_bytes()).expect("to send");
    }

    fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.0.read_exact(&mut byte).expect("an answer");
        byte[0]
    }

    /// The next packet, unpacked.
    fn receive(&mut self) -> String {
        while self.byte() != b'$' {}
        let mut text = String::new();
        loop {
            match self.byte() {
                b'#' => break,
                // The character before, so many times more.
                b'*' => {
                    let more = usize::from(self.byte()) - 29;
                    let last = text.chars().next_back().expect("something to repeat");
                    text.extend(std::iter::repeat_n(last, more));
                }
                byte => text.push(byte.into()),
            }
        }
        self.byte();
        self.byte();
        text
    }

    pub(crate) fn ask(&mut self, packet: &str) -> String {
        self.send(packet);
        self.receive()
    }

    pub(crate) fn expect_ok(&mut self, packet: &str) {
        assert_eq!(self.ask(packet), "OK", "to {packet}");
    }

    /// Goes on until the system is held: the thread and what is said of it.
    fn go_on(&mut self, packet: &str) -> (String, String) {
        let stop = self.ask(packet);
        let thread = stop.split("thread:").nth(1);
        let thread = thread.and_then(|rest| rest.split(';').next());
        let thread = thread.unwrap_or_else(|| panic!("{packet} gave {stop}"));
        (thread.to_owned(), stop.clone())
    }

    /// Register `number` of `thread`.
    fn register(&mut self, thread: &str, number: u32) -> u64 {
        self.expect_ok(&format!("Hg{thread}"));
        let hex = self.ask(&format!("p{number:x}"));
        let value = u64::from_str_radix(&hex, 16).expect("a register");
        value.swap_bytes()
    }
}

const PC: u32 = 32;
const STACK_POINTER: u32 = 2;
const MHARTID: u32 = 65 + 0xf14;
const MINSTRET: u32 = 65 + 0xb02;

fn start(machine: Machine, cores: usize, elf: &[u8]) -> Session {
    Session::program(&machine.request(cores), elf).expect("a session")
}

/// Runs to the end. Returns all that can be seen then.
pub(crate) fn finish(session: &mut Session) -> (u64, u64, String, Vec<u8>) {
    loop {
        match session.step(STEP, &Limits::default()).expect("no trap") {
            Status::Running | Status::Held => assert!(session.cycle() < MAX_CYCLES, "it hangs"),
            Status::Ended(exit) => {
                assert_eq!(exit.code, 0, "{}", exit.message);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let hash = session.state_hash().to_string();
    let (cycle, instructions) = (session.cycle(), session.instructions());
    (cycle, instructions, hash, session.take_output(0))
}

/// Where the program lies in memory, which the debugger looks for in symbols.
fn address_of(elf: &[u8], symbol: &str) -> u64 {
    let file = loiter_machine::ElfImage::parse("generated", elf).expect("a program");
    file.symbols.by_name(symbol).expect("a symbol").0
}

/// What a debugger does in a long session; every number of it is asserted.
fn debug(address: &str, routine: u64) {
    let mut gdb = Gdb::connect(address);
    gdb.expect_ok("QStartNoAckMode");
    assert!(
        gdb.ask("qXfer:features:read:target.xml:0,400")
            .contains("riscv:rv64")
    );
    let place = format!("{routine:x}");
    gdb.expect_ok(&format!("Z0,{place},4"));
    let mut seen = [0; HARTS];
    for _ in 0..40 {
        let (thread, stop) = gdb.go_on("vCont;c");
        assert!(stop.contains("swbreak"), "{stop}");
        assert_eq!(gdb.register(&thread, PC), routine);
        let hart = gdb.register(&thread, MHARTID);
        assert_eq!(
            hart + 1,
            u64::from_str_radix(&thread, 16).expect("a thread")
        );
        seen[hart as usize] += 1;
        // On over the breakpoint, as GDB does it.
        gdb.expect_ok(&format!("z0,{place},4"));
        let (stepped, stop) = gdb.go_on(&format!("vCont;s:{thread};c"));
        assert_eq!(stepped, thread, "{stop}");
        assert_ne!(gdb.register(&thread, PC), routine);
        gdb.expect_ok(&format!("Z0,{place},4"));
    }
    assert!(
        seen.iter().filter(|&&count| count > 0).count() > 1,
        "{seen:?}"
    );
    gdb.expect_ok(&format!("z0,{place},4"));
    for _ in 0..200 {
        let (thread, _) = gdb.go_on("vCont;s:2;c");
        assert_eq!(thread, "02");
    }
    // What is read and written back unchanged changes nothing; what is not RAM is refused.
    let words = gdb.ask(&format!("m{place},10"));
    assert_eq!(words.len(), 32);
    gdb.expect_ok(&format!("M{place},10:{words}"));
    assert!(gdb.ask("m10000000,4").starts_with('E'));
    let stack = gdb.register("02", STACK_POINTER).swap_bytes();
    gdb.expect_ok(&format!("P{STACK_POINTER:x}={stack:016x}"));
    assert!(
        gdb.ask("P20=0100000000000000").starts_with('E'),
        "an odd pc"
    );
    gdb.expect_ok("D");
}

#[test]
fn what_a_debugger_does_does_not_show() {
    for (machine, cores) in [(Machine::Virt, HARTS), (Machine::T1, 1)] {
        let elf = generate(Settings {
            seed: 0x700,
            harts: HARTS,
            blocks: 60,
            items: 60,
            target: Target::Loiter,
        })
        .elf;
        let expected = finish(&mut start(machine, cores, &elf));
        let mut session = start(machine, cores, &elf);
        let address = session.listen_gdb("127.0.0.1:0").expect("a free port");
        let routine = address_of(&elf, "checksum");
        let debugger = std::thread::spawn(move || debug(&address, routine));
        let found = finish(&mut session);
        debugger.join().expect("a debugger who is content");
        assert_eq!(found.1, expected.1, "{machine:?}: instructions");
        if machine == Machine::Virt {
            assert_eq!(found, expected, "{machine:?}");
        }
    }
}

#[test]
fn a_trace_and_a_profile_cost_the_guest_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    for (machine, cores) in [
        (Machine::Virt, HARTS),
        (Machine::T1, 1),
        (Machine::T2, 1),
        (Machine::Smt8, 1),
        (Machine::T1, 4),
        (Machine::PCore, 4),
        (Machine::InOrder, 4),
    ] {
        let elf = generate(Settings {
            seed: 0x710,
            harts: HARTS,
            blocks: 30,
            items: 60,
            target: Target::Loiter,
        })
        .elf;
        let expected = finish(&mut start(machine, cores, &elf));
        let instructions = expected.1;
        let mut session = start(machine, cores, &elf);
        session.begin_profile(None).unwrap();
        let trace = |name: &str, from: Option<&str>, count| TraceRequest {
            path: file(name),
            from: from.map(str::to_owned),
            count,
        };
        let whole = trace("whole.zst", None, None);
        session.begin_trace(&whole).expect("a file");
        assert_eq!(finish(&mut session), expected, "{machine:?}");
        assert_eq!(session.end_logs(), [""; 0]);
        let packed = std::fs::read(&whole.path).expect("a trace");
        let text = zstd::decode_all(packed.as_slice()).expect("whole");
        let text = String::from_utf8(text).expect("text");
        let (traps, lines): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.contains("  -- "));
        assert_eq!(lines.len() as u64, instructions, "{machine:?}");
        assert!(!traps.is_empty());
        assert!(
            lines[0].contains(" M 0x80000000 _start+0x0  "),
            "{}",
            lines[0]
        );

        session
            .write_profile(&file("out"), "generated")
            .expect("a file");
        let profile = std::fs::read_to_string(file("out")).expect("a profile");
        let summary = format!("events: Instructions Cycles\nsummary: {instructions} ");
        assert!(profile.contains(&summary), "{summary} in\n{profile}");
        assert!(profile.contains(") checksum\n"), "{profile}");

        let mut session = start(machine, cores, &elf);
        let part = trace("part", Some("checksum"), Some(5));
        session.begin_trace(&part).expect("a file");
        assert_eq!(finish(&mut session), expected, "{machine:?}");
        assert_eq!(session.end_logs(), [""; 0]);
        let text = std::fs::read_to_string(&part.path).expect("a trace");
        let lines = text.lines().filter(|line| !line.contains("  -- "));
        assert_eq!(lines.count(), 5);
        assert!(
            text.lines()
                .next()
                .expect("a line")
                .contains(" checksum+0x0  "),
            "{text}"
        );
        let late = (expected.0 / 2).to_string();
        let part = trace("late", Some(&late), Some(1));
        let mut session = start(machine, cores, &elf);
        session.begin_trace(&part).expect("a file");
        assert_eq!(finish(&mut session), expected, "{machine:?}");
        session.end_logs();
        let text = std::fs::read_to_string(&part.path).expect("a trace");
        let cycle = text.split(' ').nth(1).expect("a cycle");
        assert!(cycle.parse::<u64>().expect("a cycle") >= expected.0 / 2);
        let nowhere = trace("none", Some("no_such_symbol"), None);
        let error = session.begin_trace(&nowhere).expect_err("no symbol");
        assert!(
            error
                .to_string()
                .starts_with("--trace-from no_such_symbol: neither")
        );
    }
}

/// Offsets from `gp` of the word that ends a sleep in `wrs.nto`, of one that the debugger writes to end the rest, and of
/// one that he writes for the sleeper: on a line each.
const FLAG: i32 = FREE;
const GO: i32 = FREE + 64;
const ADDEND: i32 = FREE + 128;
/// Rounds of a loop between two looks at it, so that all harts have their turn, and how many looks the debugger lets pass.
const TICK_ROUNDS: i64 = 3000;
const TICKS: usize = 4;
/// What he puts into a register of the sleeper, into memory and into its code.
const PUT: [u16; 3] = [1000, 200, 5];

/// Hart 1 sleeps, in `nap`, and fails if it continues after; hart 0 wakes it when it is told to. Elsewhere hart 1 ends the
/// machine with success, if it finds what the debugger wrote.
fn sleeper(nap: Op) -> Vec<u8> {
    const MIE: u16 = 0x304;
    const MSIP: u8 = 1 << 3;
    const MSIP_OF_HART_1: i64 = 0x0200_0004;
    const FINISHER: i64 = 0x10_0000;
    const FAIL: i64 = 0x1_3333;
    let mut guest = Guest::new(&[0, 1]);
    guest.role(0);
    let again = guest.asm.bound();
    guest.repeat(T0, TICK_ROUNDS, |_| {});
    guest.asm.symbol("tick");
    guest.asm.i(Op::Ld, T0, GP, GO);
    guest.asm.branch(Op::Beq, T0, 0, again);
    guest.asm.li(T1, MSIP_OF_HART_1);
    guest.asm.s(Op::Sw, T0, 0, T1);
    guest.asm.s(Op::Sd, T0, FLAG, GP);
    guest.sleep_for_ever();
    guest.role(1);
    guest.asm.li(S1, 0);
    if nap == Op::Wfi {
        // Masked, so that it continues where it stands.
        guest.asm.csr(Op::Csrrwi, 0, MIE, MSIP);
    } else {
        guest.asm.i(Op::Addi, T0, GP, FLAG);
        guest.asm.r(Op::LrD, T1, T0, 0);
    }
    guest.asm.bare(nap);
    guest.asm.symbol("behind");
    let fail = guest.asm.bound();
    guest.asm.li(T0, FINISHER);
    guest.asm.li(T1, FAIL);
    guest.asm.s(Op::Sw, T1, 0, T0);
    guest.sleep_for_ever();
    guest.asm.symbol("elsewhere");
    guest.asm.i(Op::Addi, S1, S1, 0);
    guest.asm.i(Op::Ld, T0, GP, ADDEND);
    guest.asm.r(Op::Add, S1, S1, T0);
    guest.asm.li(T0, PUT.iter().copied().map(i64::from).sum());
    guest.asm.branch(Op::Bne, S1, T0, fail);
    guest.pass();
    guest.elf()
}

/// Changes a register, memory, code and the pc of a hart that sleeps, and sees it sleep on each time.
fn change_a_sleeper(address: &str, [tick, behind, elsewhere]: [u64; 3]) {
    const SLEEPER: &str = "2";
    let mut gdb = Gdb::connect(address);
    gdb.expect_ok("QStartNoAckMode");
    let ticks = |gdb: &mut Gdb| {
        for _ in 0..TICKS {
            gdb.expect_ok(&format!("Z0,{tick:x},4"));
            let (thread, _) = gdb.go_on("vCont;c");
            assert_eq!(gdb.register(&thread, PC), tick);
            gdb.expect_ok(&format!("z0,{tick:x},4"));
            gdb.go_on(&format!("vCont;s:{thread};c"));
        }
    };
    let seen =
        |gdb: &mut Gdb| [PC, S1.into(), MINSTRET].map(|number| gdb.register(SLEEPER, number));
    let word = |value: u64| format!("{:016x}", value.swap_bytes());
    let [register, addend, immediate] = PUT;
    ticks(&mut gdb);
    let [at, value, retired] = seen(&mut gdb);
    assert_eq!([at, value], [behind, 0]);

    gdb.expect_ok(&format!("Hg{SLEEPER}"));
    gdb.expect_ok(&format!("P{S1:x}={}", word(register.into())));
    ticks(&mut gdb);
    assert_eq!(seen(&mut gdb), [behind, register.into(), retired]);

    let addend_at = DATA + ADDEND as u64;
    gdb.expect_ok(&format!("M{addend_at:x},8:{}", word(addend.into())));
    let (value, _) = Op::Addi.pattern().expect("an instruction of the table");
    let code = value | u32::from(immediate) << 20 | u32::from(S1) << 15 | u32::from(S1) << 7;
    gdb.expect_ok(&format!("M{elsewhere:x},4:{:08x}", code.swap_bytes()));
    ticks(&mut gdb);
    assert_eq!(seen(&mut gdb), [behind, register.into(), retired]);

    gdb.expect_ok(&format!("Hg{SLEEPER}"));
    gdb.expect_ok(&format!("P{PC:x}={}", word(elsewhere)));
    ticks(&mut gdb);
    assert_eq!(seen(&mut gdb), [elsewhere, register.into(), retired]);

    gdb.expect_ok(&format!("M{:x},8:{}", DATA + GO as u64, word(1)));
    gdb.expect_ok("D");
}

#[test]
fn a_hart_that_is_changed_in_its_sleep_sleeps_on_and_wakes_changed() {
    for (machine, cores) in [
        (Machine::Virt, 2),
        (Machine::T1, 1),
        (Machine::T2, 1),
        (Machine::Smt8, 1),
        (Machine::PCore, 1),
    ] {
        for nap in [Op::Wfi, Op::WrsNto] {
            let elf = sleeper(nap);
            let mut session = start(machine, cores, &elf);
            let address = session.listen_gdb("127.0.0.1:0").expect("a free port");
            let places = ["tick", "behind", "elsewhere"].map(|symbol| address_of(&elf, symbol));
            let debugger = std::thread::spawn(move || change_a_sleeper(&address, places));
            finish(&mut session);
            debugger.join().expect("a debugger who is content");
        }
    }
}

#[test]
fn only_the_hart_that_is_let_runs() {
    let elf = generate(Settings {
        seed: 0x701,
        harts: HARTS,
        blocks: 40,
        items: 40,
        target: Target::Loiter,
    })
    .elf;
    let mut session = start(Machine::Virt, HARTS, &elf);
    let address = session.listen_gdb("0").expect("a free port");
    let debugger = std::thread::spawn(move || {
        let mut gdb = Gdb::connect(&address);
        gdb.expect_ok("QStartNoAckMode");
        let others = [gdb.register("1", PC), gdb.register("2", PC)];
        for _ in 0..10 {
            let (thread, _) = gdb.go_on("vCont;s:3");
            assert_eq!(thread, "03");
        }
        assert_eq!(others, [gdb.register("1", PC), gdb.register("2", PC)]);
        assert_ne!(gdb.register("3", PC), others[0]);
        gdb.send("k");
    });
    let status = loop {
        match session.step(STEP, &Limits::default()).expect("no trap") {
            Status::Held => {}
            status => break status,
        }
    };
    debugger.join().expect("a debugger who is content");
    let Status::Ended(exit) = status else {
        panic!("{status:?}")
    };
    assert_eq!(
        (exit.code, exit.message.as_str()),
        (1, "ended by the debugger")
    );
    assert_eq!(session.instructions(), 10);
}

#[test]
fn a_port_that_cannot_be_had_is_said() {
    let elf = generate(Settings {
        seed: 0x702,
        harts: 1,
        blocks: 2,
        items: 2,
        target: Target::Loiter,
    })
    .elf;
    let mut session = start(Machine::Virt, 1, &elf);
    let taken = session.listen_gdb("0").expect("a free port");
    let mut other = start(Machine::Virt, 1, &elf);
    for address in [taken.as_str(), "no-such-port", "localhost:99999"] {
        let error = other.listen_gdb(address).expect_err("no port").to_string();
        assert!(
            error.starts_with(&format!("--gdb {address}: cannot listen")),
            "{error}"
        );
    }
}

#[test]
fn a_hart_that_sleeps_is_said_to_sleep_whatever_runs_it() {
    let mut guest = Guest::new(&[0, 1]);
    guest.role(0);
    guest.repeat(S0, 1_000_000, |guest| guest.asm.i(Op::Addi, A0, A0, 1));
    guest.pass();
    guest.role(1);
    guest.sleep_for_ever();
    let elf = guest.elf();
    for (machine, cores) in [(Machine::Virt, 2), (Machine::T1, 1), (Machine::Smt8, 1)] {
        let mut session = Session::program(&machine.request(cores), &elf).expect("a session");
        let limits = Limits {
            cycle: Some(200_000),
            ..Limits::default()
        };
        while !matches!(session.step(STEP, &limits), Ok(Status::Reached)) {}
        let lines = session.where_harts_stand();
        assert!(lines[0].ends_with("executes"), "{machine:?}: {}", lines[0]);
        assert!(
            lines[1].contains("sleeps in wfi"),
            "{machine:?}: {}",
            lines[1]
        );
    }
}
