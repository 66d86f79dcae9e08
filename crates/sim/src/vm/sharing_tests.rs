//! Over-commitment: up to four guests on the CPUs of one, by their weights.

use std::collections::BTreeSet;

use serde_json::json;

use super::host::{Host, Progress};
use super::result::VmResult;
use super::testing::{CLOCK_MHZ, FREE, LOOP, SLICE, file, host, run};

const CPUS: u64 = 4;

/// A host that runs for so many slices, of guests with these weights and as many virtual CPUs each as there are CPUs.
fn sharing(weights: &[u64], slices: u64, costs: &str) -> Host {
    let lines: Vec<_> = weights
        .iter()
        .map(|weight| format!("weight = {weight}"))
        .collect();
    let guests: Vec<_> = lines.iter().map(|it| (CPUS, it.as_str())).collect();
    let run_us = slices * SLICE / CLOCK_MHZ;
    let file = file(CPUS, run_us, costs, "", &guests);
    host(file, &vec![LOOP; weights.len()])
}

/// How many slices each guest has had so far.
fn slices_of(result: &VmResult) -> Vec<f64> {
    let guests = result.guests.iter();
    guests
        .map(|guest| {
            let rows = result.vcpus.iter().filter(|row| row.guest == guest.name);
            let cycles: u64 = rows.map(|row| row.run_cycles).sum();
            cycles as f64 / SLICE as f64
        })
        .collect()
}

const MIXES: [&[u64]; 7] = [
    &[256],
    &[256, 256],
    &[256, 256, 256],
    &[256, 256, 256, 256],
    &[512, 256],
    &[512, 256, 256],
    &[512, 512, 256, 256],
];

/// Slices that guests on `host` have had beyond what their weights give them: when each has been due ten on every CPU, and twenty.
fn surplus(mut host: Host, weights: &[u64]) -> [Vec<f64>; 2] {
    let units: u64 = weights.iter().map(|weight| weight / 256).sum();
    [10, 20].map(|rounds| {
        while host.now.0 < rounds * units * SLICE {
            host.turn().unwrap();
        }
        let had = slices_of(&host.result().unwrap()).into_iter();
        let fair = weights
            .iter()
            .map(|weight| (CPUS * rounds * weight / 256) as f64);
        had.zip(fair).map(|(had, fair)| had - fair).collect()
    })
}

fn host_of(weights: &[u64]) -> Host {
    let units: u64 = weights.iter().map(|weight| weight / 256).sum();
    sharing(weights, 20 * units, FREE)
}

#[test]
fn guests_have_their_shares_within_two_percent_of_ten_slices_each() {
    let all = MIXES.map(|weights| (weights, surplus(host_of(weights), weights)));
    let is_unfair = |(weights, [first, all]): &(&[u64], [Vec<f64>; 2])| {
        let units = weights.iter().map(|weight| weight / 256);
        let mut each = units.zip(first.iter().zip(all));
        each.any(|(units, (first, all))| {
            let most = 0.02 * (CPUS * 10 * units) as f64;
            first.abs() > most || (all - first).abs() > most
        })
    };
    let unfair: Vec<_> = all.iter().filter(|it| is_unfair(it)).collect();
    assert!(unfair.is_empty(), "{unfair:?}");
}

/// Why all guests earn from the beginning.
#[test]
fn if_none_earned_before_a_tick_finds_it_the_last_of_four_would_stay_behind() {
    let weights = [256; 4];
    let mut host = host_of(&weights);
    let mut saved = host.scheduler.save();
    saved["earning"] = json!([]);
    for account in saved["accounts"].as_array_mut().unwrap() {
        account["earns"] = json!(false);
    }
    host.scheduler.restore(saved).unwrap();
    let [first, all] = surplus(host, &weights);
    let quarters: Vec<_> = first.iter().map(|it| (4.0 * it).round()).collect();
    assert_eq!(quarters, [-2.0, 12.0, 0.0, -10.0]);
    assert_eq!(first, all);
}

#[test]
fn slices_end_at_other_times_on_each_cpu() {
    let mut host = sharing(&[256, 256], 10, FREE);
    let mut ends = vec![BTreeSet::new(); CPUS as usize];
    while host.turn().unwrap() == Progress::Running {
        for (ends, cpu) in ends.iter_mut().zip(&host.cpus) {
            ends.insert(cpu.slice_end.0);
        }
    }
    for (n, ends) in (0..).zip(&ends) {
        let whole = (0..10).map(|slices| SLICE * n / CPUS + slices * SLICE);
        let expected: Vec<_> = whole.filter(|&end| end > 0).collect();
        assert!(
            ends.iter().take(expected.len()).eq(&expected),
            "{n}: {ends:?}"
        );
    }
}

#[test]
fn accounts_of_up_to_four_guests_add_up() {
    for guests in 1..=4 {
        let result = run(&mut sharing(&vec![256; guests], 10, "switch_cycles = 70"));
        assert_eq!(result.vcpus.len() as u64, guests as u64 * CPUS);
        let lived = result.vcpus.len() as u64 * result.cycles;
        let sum = |cycles: fn(&super::result::VcpuRow) -> u64| -> u64 {
            result.vcpus.iter().map(cycles).sum()
        };
        let (runs, steals) = (sum(|row| row.run_cycles), sum(|row| row.steal_cycles));
        assert_eq!(runs + steals, lived);
        let cpus = result.cpus.iter();
        let switching: u64 = cpus
            .map(|cpu| {
                assert_eq!(cpu.idle_cycles, 0);
                assert_eq!(cpu.switching_cycles, 70 * cpu.switches);
                cpu.switching_cycles
            })
            .sum();
        assert_eq!(runs + switching, CPUS * result.cycles);
        // Somebody waits on each CPU in all slices, unless there is one guest.
        assert_eq!(steals > CPUS * 70, guests > 1);
    }
}
