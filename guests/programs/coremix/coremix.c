// coremix: a mix of integer work (sort, hash, crc) in a working set of 17 KiB, to measure the speed of engines.
#include "mix.h"

LOITER_ARGUMENT(rounds, "iterations", 100, "intmix: rounds of sort, hash and crc, each about 340 k instructions");

LOITER_TASK(intmix) {
    uint64_t count = loiter_value_at_least(&rounds, 1);
    struct mix *mix = make_mix();
    uint32_t checksum = 0;

    loiter_start_together();
    uint64_t instructions = loiter_instructions();
    for (uint64_t i = 0; i < count; i++) {
        loiter_work_begin(i);
        checksum = checksum * 31 + run_round(mix);
        loiter_work_end(i);
    }
    instructions = loiter_instructions() - instructions;
    loiter_report("checksum", checksum);
    loiter_print("intmix: hart %u, %llu rounds, %llu instructions, checksum 0x%x\n", loiter_hart(),
                 (unsigned long long)count, (unsigned long long)instructions, checksum);
}
