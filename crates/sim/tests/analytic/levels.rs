//! How long a load takes from each level of caches, against the sources of the presets.

use crate::support::{Bench, DATA};

/// Cycles of a load whose address depends on the one before, of data of so many KiB that have been read once.
fn load_from(machine: &str, kib: u64) -> f64 {
    let loads = kib * 16;
    // What is read is zero. Two additions stand between loads.
    let once = "li s1, LOADS; mv a3, a0
         LABEL: ld t0, 0(a3); add a3, a3, t0; addi a3, a3, 64; addi s1, s1, -1; bnez s1, LABEL";
    let pass = |label: &str| {
        let loads = loads.to_string();
        once.replace("LOADS", &loads).replace("LABEL", label)
    };
    let code = format!(
        "li a0, {DATA}; {}; fence rw, rw; mark; nop; {}; fence rw, rw; mark; nop; exit",
        pass("first"),
        pass("again")
    );
    let times = Bench::new(machine).hart(0, &code).run().times(0);
    let [from, to] = times[..] else {
        panic!("two marks: {times:?}")
    };
    (to - from) as f64 / loads as f64 - 2.0
}

#[test]
fn presets_have_the_latencies_of_their_sources() {
    for (machine, kib, published) in [
        // SOSP 2013, table 3.
        ("opteron48", 32, 3.0),
        ("opteron48", 256, 15.0),
        ("opteron48", 1024, 40.0),
        ("xeon80", 16, 5.0),
        ("xeon80", 128, 11.0),
        ("xeon80", 1024, 44.0),
        // Chips and Cheese.
        ("server", 24, 5.0),
        ("server", 512, 16.0),
        ("server", 2176, 125.0),
        ("p-core", 16, 4.0),
        ("p-core", 256, 14.0),
        ("p-core", 2048, 49.0),
        ("knl", 16, 4.0),
        ("knl", 256, 17.0),
    ] {
        let ours = load_from(machine, kib);
        let error = ours / published - 1.0;
        assert!(
            error.abs() < 0.05,
            "{machine}, {kib} KiB: {ours:.1} cycles, of {published}"
        );
    }
}
