//! Running programs on QEMU.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::census::Entered;
use crate::generator::privileged::RAM;
use crate::machines::RAM_MIB;

const QEMU: &str = "qemu-system-riscv64";
/// Extensions that QEMU's rv64 switches on in some version, that loiter does not have or that not all
/// versions have (see `generator/exclusions.rs`). The check is made for QEMU 7.2.
const UNWANTED: [&str; 14] = [
    "h", "sstc", "svadu", "zabha", "zacas", "zawrs", "zbc", "zcb", "zfa", "zfhmin", "zicbom",
    "zicbop", "zicboz", "zicond",
];
/// A program takes less than a second; one that hangs is stopped.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where a generated program lies for QEMU, and for whoever looks into a difference.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.elf"))
}

/// What QEMU answers to `arguments`.
fn answer(arguments: &[&str]) -> String {
    let output = Command::new(QEMU).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{QEMU}: {error}; install qemu-system-misc"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Which QEMU this is.
pub(crate) fn version() -> String {
    let text = answer(&["--version"]);
    text.lines().next().unwrap_or_default().to_owned()
}

/// Extensions that privileged programs use nevertheless.
const PRIVILEGED: [&str; 1] = ["sstc"];
/// Options for them: all counters of events; without Smaia and Ssaia, QEMU 7.2 takes the interrupt with the
/// lowest number first, whatever the manual's order.
const PRIVILEGED_OPTIONS: [(&str, &str); 3] =
    [("pmu-num", "29"), ("x-smaia", "true"), ("x-ssaia", "true")];

/// What a program is run for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To hear what it prints.
    Console,
    /// To read its memory afterwards.
    Memory,
}

/// The processor: rv64 without the unwanted extensions that this version knows.
fn cpu(purpose: Purpose) -> String {
    static HELP: OnceLock<String> = OnceLock::new();
    let help = HELP.get_or_init(|| {
        let help = answer(&["-M", "virt", "-device", "rv64-riscv-cpu,help"]);
        assert!(
            help.contains("sstc=<bool>"),
            "{QEMU} does not list its options:\n{help}"
        );
        help
    });
    let known = |name: &str| {
        let option = format!("{name}=<");
        help.lines()
            .any(|line| line.trim_start().starts_with(&option))
    };
    let wanted = |name: &&&str| purpose == Purpose::Memory && PRIVILEGED.contains(*name);
    let off = UNWANTED.iter().filter(|name| known(name) && !wanted(name));
    let off: String = off.map(|name| format!(",{name}=false")).collect();
    let mut cpu = format!("rv64{off}");
    for (name, value) in PRIVILEGED_OPTIONS {
        if purpose == Purpose::Memory && known(name) {
            cpu += &format!(",{name}={value}");
        }
    }
    cpu
}

/// Two processors, of which one sleeps: with a single one, QEMU emulates an atomic as a load and a
/// store, whose exceptions it raises.
fn command(program: &Path, purpose: Purpose) -> Command {
    let mut command = Command::new(QEMU);
    command
        .args([
            "-cpu",
            &cpu(purpose),
            "-smp",
            "2",
            "-m",
            &format!("{RAM_MIB}M"),
        ])
        .args(["-bios", "none", "-nographic", "-monitor", "none"])
        .args(["-serial", "stdio", "-kernel"])
        .arg(program)
        .stdin(Stdio::null());
    if purpose == Purpose::Console {
        command.args(["-M", "virt"]);
        return command;
    }
    let memory = memory_path(program);
    command
        .args(["-M", "virt,memory-backend=ram", "-object"])
        .arg(format!(
            "memory-backend-file,id=ram,size={RAM_MIB}M,share=on,mem-path={}",
            memory.display()
        ));
    command
}

/// Where the memory of a program that [`run_for_memory`] runs lies.
fn memory_path(program: &Path) -> PathBuf {
    program.with_extension("ram")
}

/// The traps that QEMU logs for a program that [`run`] has run.
pub(crate) fn traps(name: &str) -> Vec<Entered> {
    let program = path(name);
    let log = program.with_extension("traps");
    let status = command(&program, Purpose::Console)
        .args(["-d", "int", "-D"])
        .arg(&log)
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("QEMU is there").success());
    let text = std::fs::read_to_string(&log).expect("QEMU wrote it");
    text.lines().map(trap).collect()
}

/// Reads `riscv_cpu_do_interrupt: hart:0, async:0, cause:2, epc:0x80000000, tval:0x0, desc=...`.
fn trap(line: &str) -> Entered {
    let field = |name: &str| {
        let rest = line.split_once(name).expect("a line of QEMU's log").1;
        let text = rest.split(',').next().expect("a field");
        u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number")
    };
    Entered {
        cause: field(" cause:") | field(" async:") << 63,
        pc: field(" epc:"),
        value: field(" tval:"),
    }
}

/// What the program prints on QEMU. It must end by itself.
pub(crate) fn run(name: &str, elf: &[u8]) -> String {
    start(name, elf, Purpose::Console)
}

/// The RAM of the machine when the program has ended, by reading pieces of it.
pub(crate) struct Memory(File);

impl Memory {
    /// `words` 8-byte words from physical address `address` on.
    pub(crate) fn words(&self, address: u64, words: usize) -> Vec<u64> {
        let mut bytes = vec![0; 8 * words];
        self.0
            .read_exact_at(&mut bytes, address - RAM)
            .expect("within RAM");
        let words = bytes.chunks(8);
        words
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect()
    }
}

/// Runs the program, which must end by itself, for what it leaves in memory.
pub(crate) fn run_for_memory(name: &str, elf: &[u8]) -> Memory {
    let memory = memory_path(&path(name));
    // QEMU begins with what it finds there.
    if memory.exists() {
        std::fs::remove_file(&memory).expect("an earlier run left it");
    }
    let printed = start(name, elf, Purpose::Memory);
    assert_eq!(printed, "", "{name}");
    let file = File::open(&memory).expect("QEMU made it");
    std::fs::remove_file(&memory).expect("it is there");
    Memory(file)
}

fn start(name: &str, elf: &[u8], purpose: Purpose) -> String {
    let path = path(name);
    std::fs::write(&path, elf).expect("write the program");
    let mut child = command(&path, purpose)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("QEMU was there before");
    let mut out = child.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let ended = wait(&mut child);
    let text = reader.join().expect("the reader does not panic");
    let text = text.expect("the program prints text");
    if !ended {
        println!("{name}: hangs on QEMU after {} lines", text.lines().count());
    }
    let mut errors = String::new();
    let stderr = child.stderr.as_mut().expect("piped");
    stderr.read_to_string(&mut errors).expect("text");
    assert_eq!(errors, "", "{name}: QEMU complains");
    text
}

/// Waits for the end; false if it did not come by itself.
fn wait(child: &mut Child) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            assert!(status.success(), "QEMU: {status}");
            return true;
        }
        if Instant::now() > deadline {
            child.kill().expect("the child can be stopped");
            child.wait().expect("the child can be waited for");
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
