//! What is said of machine files.

use super::*;

const VIRT: &str = "[machine]\nname = \"v\"\n[system]\ncores = 1 # [x] table 1\nclock_mhz = 1000\n\
                    ram_mib = 64\ntimebase_hz = 10000000\n[hart]\nisa = \"rv64imafdc\"\nmmu = \"sv39\"\n\
                    watch_line_bytes = 64\n[core]\nkind = \"reference\"\ncontexts = 4\n";

fn user_error(text: &str, sets: &[&str]) -> String {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    match MachineFile::read("v.toml", text, &sets) {
        Err(Error::User(message)) => message,
        other => panic!("expected the user's error, got {other:?}"),
    }
}

#[test]
fn sources_and_changes_are_shown() {
    let file = MachineFile::read("v.toml", VIRT, &["system.ram_mib=128".into()]).unwrap();
    let description = file.describe();
    let find = |key: &str| {
        description
            .parameters
            .iter()
            .find(|parameter| parameter.key == key)
            .unwrap()
    };
    assert_eq!(find("system.cores").source, "[x] table 1");
    assert!(find("system.ram_mib").changed);
    assert_eq!(find("system.ram_mib").value, 128);
    assert_eq!(find("system.ram_mib").unit, "MiB");
    let other = MachineFile::read("v.toml", VIRT, &[]).unwrap();
    assert_ne!(other.hash(), file.hash());
}

#[test]
fn changes_of_the_isa_string_add_up() {
    let sets = ["hart.isa=+zawrs", "hart.isa=-c,+zba"].map(String::from);
    let file = MachineFile::read("v.toml", VIRT, &sets).unwrap();
    assert_eq!(file.hart().isa, "rv64imafd_zawrs_zba");
}

#[test]
fn mistakes_are_named_with_what_would_be_right() {
    let message = user_error(&VIRT.replace("contexts", "contxts"), &[]);
    assert!(
        message.contains("core.contxts") && message.contains("core.contexts"),
        "{message}"
    );
    let message = user_error(VIRT, &["core.contxts=8"]);
    assert!(message.contains("nearest: core.contexts"), "{message}");
    let message = user_error(VIRT, &["core.contexts=many"]);
    assert!(message.contains("whole number"), "{message}");
    let message = user_error(VIRT, &["core.contexts=0"]);
    assert!(message.contains("1 to 64"), "{message}");
    let message = user_error(VIRT, &["core.contexts"]);
    assert!(message.contains("key=value"), "{message}");
    let message = user_error(&VIRT.replace("ram_mib = 64\n", ""), &[]);
    assert!(message.contains("system.ram_mib: missing"), "{message}");
    let message = user_error(VIRT, &["core.kind=vliw"]);
    assert!(message.contains("fgmt, smt, reference"), "{message}");
    let message = user_error(VIRT, &["system.timebase_hz=3000"]);
    assert!(message.contains("does not divide"), "{message}");
    let message = user_error(VIRT, &["hart.isa=-zawrs"]);
    assert!(
        message.contains("--set hart.isa=-zawrs: rv64imafdc"),
        "{message}"
    );
    let sets = ["hart.isa=+xloiterlock", "hart.watch_line_bytes=32"];
    let message = user_error(VIRT, &sets);
    assert!(message.contains("watch_line_bytes = 32"), "{message}");
    let message = user_error("[core\n", &[]);
    assert!(message.contains("line 1"), "{message}");
    let message = user_error(&format!("{VIRT}[l9]\nx = 1\n"), &[]);
    assert!(message.contains("section \"l9\""), "{message}");
}
