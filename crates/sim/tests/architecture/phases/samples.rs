//! Repeated phases, and what each sample counts.

use super::*;

#[test]
fn a_repetition_is_the_same_phases_written_out() {
    let program = program(0x720);
    let written_out =
        "reference warm for 3k instructions, timing for 1k instructions, ".repeat(6) + "reference";
    let repeated = "repeat (reference warm for 3k instructions, timing for 1k instructions) for 6 times, reference";
    for (machine, cores) in TIMED {
        let [expected, found] = [&*written_out, repeated]
            .map(|plan| run_plan(&request(machine, cores, plan), &program.elf));
        assert_eq!(expected.counters, found.counters);
        assert_eq!(expected.accounts, found.accounts);
        assert_eq!(expected.cycles, found.cycles);
        assert!(expected.samples.is_empty());
        let timed = expected
            .phases
            .iter()
            .filter(|row| row.phase.starts_with("timing"));
        let instructions: Vec<u64> = timed.map(|row| row.instructions).collect();
        assert_eq!(found.samples.len(), 6);
        // The cores retire more while they come to stand, which is the phase's and not the sample's.
        for (sample, of_phase) in found.samples.iter().zip(instructions) {
            assert!(
                (1000..=of_phase).contains(&sample.instructions),
                "{sample:?}"
            );
        }
        let row = &found.phases[0];
        assert!(row.phase.starts_with("repeat (") && row.ended, "{row:?}");
        assert_eq!(found.phases.len(), 2);
    }
}

/// What a sample counts is what the cores count from its beginning to its end, without the warming before it.
#[test]
fn samples_count_what_is_between_their_ends() {
    let program = program(0x721);
    for (machine, cores) in TIMED {
        let plan =
            "repeat (timing warm for 1k instructions, timing for 2k instructions) for 1 times";
        let sampled = run_plan(&request(machine, cores, plan), &program.elf);
        let [short, long] = ["", ", timing for 2k instructions"].map(|more| {
            let plan = format!("timing for 1k instructions{more}");
            run_plan(&request(machine, cores, &plan), &program.elf)
        });
        let [sample] = &*sampled.samples else {
            panic!("{} samples", sampled.samples.len());
        };
        // The cores may have been through the cycle in which a system stands.
        assert!(sample.begin_cycle.abs_diff(short.cycles) <= 1);
        assert_eq!(sample.begin_instruction, short.instructions);
        assert!(sample.cycles.abs_diff(long.cycles - short.cycles) <= 1);
        assert_eq!(sample.instructions, long.instructions - short.instructions);
        let mut counts = sample.counts.iter();
        let mut counted = 0;
        for row in &sampled.counters {
            let value = |rows: &[loiter_sim::CounterRow]| {
                let same = |it: &&loiter_sim::CounterRow| {
                    (&it.component, it.name) == (&row.component, row.name)
                };
                rows.iter().find(same).map_or(0, |it| it.value)
            };
            let expected =
                value(&long.counters).cast_signed() - value(&short.counters).cast_signed();
            assert_eq!(
                counts.next(),
                Some(&expected),
                "{} {}",
                row.component,
                row.name
            );
            counted += expected;
        }
        assert!(counted > 2_000, "{counted}");
        let cycles: i64 = counts.by_ref().take(sampled.activities.len()).sum();
        let contexts = sampled
            .accounts
            .iter()
            .map(|row| row.context)
            .max()
            .unwrap();
        assert_eq!(
            cycles,
            i64::from(contexts + 1) * sample.cycles.cast_signed()
        );
        let instructions: i64 = counts.by_ref().take(sampled.activities.len()).sum();
        assert_eq!(instructions, sample.instructions.cast_signed());
        assert_eq!(counts.count(), sampled.histograms.len());
    }
}

#[test]
fn a_repetition_ends_where_it_is_told_to() {
    let cycle = "(reference warm for 97 instructions, timing for 100 cycles)";
    for (machine, cores) in TIMED {
        for end in ["probe:roi_begin", "symbol:landmark", "console:is ready"] {
            let plan = format!("repeat {cycle} until {end}, reference");
            let result = run_plan(&request(machine, cores, &plan), &guest());
            let plain = run_plan(
                &request(machine, cores, &format!("reference until {end}, reference")),
                &guest(),
            );
            let (found, expected) = (result.phases[0].instructions, plain.phases[0].instructions);
            // How often hart 1 looks at the barrier depends on who runs it.
            let least = expected / 2;
            assert!(
                (least..2 * expected).contains(&found),
                "{end}: {found}, {expected}"
            );
            assert!(result.samples.len() > 4, "{end}: {}", result.samples.len());
            assert!(
                result
                    .samples
                    .iter()
                    .all(|it| (100..=101).contains(&it.cycles)),
                "{end}"
            );
            assert_eq!(reports(&result, 0), [5_000]);
        }
        for (end, samples) in [(" for 5 times", 5), (" for 2k instructions", 0), ("", 0)] {
            let result = run_plan(
                &request(machine, cores, &format!("repeat {cycle}{end}")),
                &guest(),
            );
            assert_eq!(result.missed_phase, None);
            match samples {
                0 => assert!(result.samples.len() > 2, "{end}: {}", result.samples.len()),
                _ => assert_eq!(result.samples.len(), samples),
            }
            let ended = matches!(result.exit.reason, ExitReason::Phases);
            assert_eq!(ended, !end.is_empty(), "{end}");
        }
        // An end by symbols of the phases and of the repetition at once.
        let plan =
            "repeat (reference until symbol:landmark, timing for 50 cycles) until symbol:landmark";
        let result = run_plan(&request(machine, cores, plan), &guest());
        assert_eq!(result.samples.len(), 0);
        assert!(result.phases[0].ended);
        let result = run_plan(
            &request(machine, cores, "repeat (timing for 50 cycles) for 1M times"),
            &guest(),
        );
        assert!(result.missed_phase.is_none(), "{:?}", result.missed_phase);
    }
    let plan = format!("repeat {cycle} until console:never, reference");
    let result = run_plan(&request(Machine::T1, 2, &plan), &guest());
    let missed = result.missed_phase.unwrap();
    assert!(
        missed.starts_with("phase 1 of 2 never ended: repeat (")
            && missed.contains("no console has said that"),
        "{missed}"
    );
}
