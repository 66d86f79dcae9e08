//! What a file of virtual machines may not say.

use super::*;

const GOOD: &str = "[host]\ncpus = 2\nmemory_mib = 512\nrun_us = 1000\n\
    [[guests]]\nname = \"a\"\nprogram = \"p\"\n[[guests]]\nname = \"b\"\nimage = \"debian\"\ncommand = \"true\"\n";

fn problem(change: impl Fn(&str) -> String) -> String {
    let text = change(GOOD);
    assert_ne!(text, GOOD);
    let error = VmFile::read("vm.toml", &text).expect_err("a mistake");
    assert!(matches!(error, Error::User(_)));
    error.to_string()
}

fn with(line: &str) -> String {
    problem(|text| format!("{text}{line}\n"))
}

fn instead(old: &str, new: &str) -> String {
    problem(|text| text.replacen(old, new, 1))
}

fn assert_has(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_good_file_has_defaults() {
    let file = VmFile::read("vm.toml", GOOD).unwrap();
    assert_eq!(
        (file.guests[1].weight, file.scheduler.slice_us),
        (256, 30_000)
    );
    assert_eq!(file.slice_cycles(), 30_000_000);
    assert_eq!(file.values["guests"][0]["harts"], 1);
}

#[test]
fn words_that_are_not_known_are_named_with_the_nearest() {
    assert_has(
        &instead("[host]", "[hosts]"),
        &["section \"hosts\"", "nearest: host"],
    );
    assert_has(
        &instead("cpus", "cpu"),
        &["host.cpu\"", "nearest: host.cpus"],
    );
    assert_has(
        &with("wieght = 3"),
        &["guests.b.wieght", "nearest: guests.b.weight"],
    );
    let policy = with("[helping]\npolicy = \"everybody\"");
    assert_has(
        &policy,
        &[
            "helping.policy",
            "everybody",
            "nobody, next, published, directed, random, oracle",
        ],
    );
    let policy = with("[scheduler]\npolicy = \"lottery\"");
    assert_has(
        &policy,
        &["scheduler.policy", "lottery", "credit, gang, fair"],
    );
}

#[test]
fn a_guest_that_does_not_fit_into_memory_is_named() {
    let message = with("memory_mib = 385");
    assert_has(
        &message,
        &["guest b does not fit", "513 MiB", "host.memory_mib is 512"],
    );
    let fits = format!("{GOOD}memory_mib = 384\n");
    assert!(VmFile::read("vm.toml", &fits).is_ok());
}

#[test]
fn a_weight_is_at_least_one() {
    assert_has(
        &with("weight = 0"),
        &["guests.b.weight", "0 is out of range", "1 to"],
    );
}

#[test]
fn a_disk_that_is_written_is_one_guests_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vm.toml");
    std::fs::write(folder.path().join("d.img"), "x").unwrap();
    let image = "image = \"debian\"\ncommand = \"true\"\n";
    let both = |writable: bool| {
        let first = format!("{image}disk = \"d.img\"\ndisk_writable = {writable}\n");
        let text = GOOD.replacen("program = \"p\"\n", &first, 1) + "disk = \"./d.img\"\n";
        VmFile::read(path.to_str().unwrap(), &text)
    };
    assert!(both(false).is_ok());
    let message = both(true).unwrap_err().to_string();
    assert_has(
        &message,
        &["guests a and b have one disk", "d.img", "writable"],
    );
}

#[test]
fn who_cannot_have_a_disk_is_told() {
    let program = instead("program = \"p\"", "program = \"p\"\ndisk = \"d.img\"");
    assert_has(&program, &["guest a", "a disk is for an image"]);
    let nothing = with("disk_writable = true");
    assert_has(&nothing, &["guest b", "disk_writable", "name its file"]);
}

#[test]
fn a_guest_has_one_thing_to_run() {
    assert_has(
        &instead("program = \"p\"", ""),
        &["guest a has nothing to run"],
    );
    assert_has(
        &with("program = \"p\""),
        &["guest b has a program and an image"],
    );
    assert_has(
        &instead("command = \"true\"", ""),
        &["guest b", "give it a command"],
    );
    assert_has(
        &instead("program = \"p\"", "program = \"p\"\nput = \"input.txt\""),
        &["guest a", "put"],
    );
    assert_has(
        &instead("name = \"b\"", "name = \"a\""),
        &["two guests are called a"],
    );
    assert_has(
        &problem(|text| text[..text.find("[[").unwrap()].to_owned()),
        &["no guest"],
    );
}

#[test]
fn weights_and_caps_are_for_schedulers_that_know_them() {
    for (line, policy) in [
        ("weight = 3", "gang"),
        ("cap_percent = 50", "gang"),
        ("cap_percent = 50", "fair"),
    ] {
        let message = with(&format!("{line}\n[scheduler]\npolicy = \"{policy}\""));
        assert_has(&message, &["guest b", policy, "credit"]);
    }
    for (line, policy) in [
        ("", "gang"),
        ("weight = 3", "fair"),
        ("cap_percent = 50", "credit"),
    ] {
        let known = format!("{GOOD}{line}\n[scheduler]\npolicy = \"{policy}\"\n");
        assert!(VmFile::read("vm.toml", &known).is_ok());
    }
}

#[test]
fn a_fair_scheduler_chooses_alone() {
    let both = |helping: &str| {
        let sections =
            format!("[scheduler]\npolicy = \"fair\"\n[helping]\npolicy = \"{helping}\"\n");
        VmFile::read("vm.toml", &format!("{GOOD}{sections}"))
    };
    for helping in ["published", "directed", "random", "oracle"] {
        let message = both(helping).unwrap_err().to_string();
        assert_has(&message, &["helping.policy", helping, "fair", "next"]);
    }
    assert!(both("next").is_ok());
}

#[test]
fn a_run_waits_for_somebody() {
    let message = problem(|text| text.replace("name = ", "background = true\nname = "));
    assert_has(&message, &["all guests are in the background"]);
}

#[test]
fn ticks_divide_a_slice() {
    let message = with("[scheduler]\nslice_us = 1\nticks_per_slice = 3");
    assert_has(&message, &["ticks_per_slice = 3", "1000 cycles"]);
}

#[test]
fn more_guests_or_virtual_cpus_than_a_host_counts_are_named() {
    let with = |guests: usize, harts: u64| {
        let mut text = "[host]\ncpus = 1\nmemory_mib = 16777216\nrun_us = 1\n".to_owned();
        for n in 0..guests {
            text += &format!(
                "[[guests]]\nname = \"g{n}\"\nprogram = \"none\"\nmemory_mib = 1\nharts = {harts}\n"
            );
        }
        VmFile::read("many.toml", &text).map_err(|error| error.to_string())
    };
    assert!(with(1024, 1).is_ok() && with(127, 512).is_ok());
    let many = with(1025, 1).unwrap_err();
    assert!(
        many.contains("1025 guests; a host has at most 1024"),
        "{many}"
    );
    let many = with(128, 512).unwrap_err();
    assert!(
        many.contains("65536 virtual CPUs; a host has at most 65535"),
        "{many}"
    );
}
