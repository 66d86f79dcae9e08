// The single-behaviour programs: a block of 513 instructions of one kind, looped (blocks.S).
#include "fame.h"

LOITER_ARGUMENT(add_loops, "iterations", 200, "add: loops of the block in a repetition");
LOITER_ARGUMENT(mulx_loops, "iterations", 100, "mulx: loops of the block in a repetition");
LOITER_ARGUMENT(baa_loops, "iterations", 100, "baa: loops of the block in a repetition");
LOITER_ARGUMENT(l1_loops, "iterations", 100, "l1_hit: loops of the block in a repetition");
LOITER_ARGUMENT(l2_loops, "iterations", 100, "l2_hit: loops of the block in a repetition");
LOITER_ARGUMENT(l1_footprint, "footprint_kib", 4, "l1_hit: what the loads walk over, within the L1");
LOITER_ARGUMENT(l2_footprint, "footprint_kib", 1536, "l2_hit: what the loads walk over, within the L2 but not the L1");

typedef uint64_t block(uint64_t loops, uint64_t value, uint64_t operand);
block block_add, block_mul, block_jump, block_load; // blocks.S

enum { BLOCK_LENGTH = 513 };

struct single {
    block *block;
    uint64_t loops;
    uint64_t value, operand; // go through every instruction of the block
    uint64_t warm_up_loops;
    uint64_t executed; // instructions of the kind, in all
};

static void run_block(struct single *single, uint64_t loops) {
    single->value = single->block(loops, single->value, single->operand);
    single->executed += loops * BLOCK_LENGTH;
}

static void repeat(void *state) {
    struct single *single = state;
    run_block(single, single->loops);
}

static void warm_up(void *state) {
    struct single *single = state;
    run_block(single, single->warm_up_loops);
}

static uint64_t require(const struct single *single, uint64_t expected) {
    if (single->value != expected)
        loiter_fail("%s: the result is 0x%llx instead of 0x%llx\n", loiter_own_task()->name,
                    (unsigned long long)single->value, (unsigned long long)expected);
    return expected;
}

// ---- arithmetic and jumps: every result depends on the one before ------------------------------------------------------

enum { ADD_STEP = 12345, MULX_FACTOR = 0x10dcd };

static uint64_t finish_add(void *state) {
    const struct single *single = state;
    return require(single, single->executed * ADD_STEP);
}

static uint64_t finish_mulx(void *state) {
    const struct single *single = state;
    uint64_t expected = 1, power = MULX_FACTOR;
    for (uint64_t exponent = single->executed; exponent; exponent >>= 1, power *= power)
        if (exponent & 1)
            expected *= power;
    return require(single, expected);
}

static uint64_t finish_baa(void *state) { return require(state, 0); }

static void run_single(struct single *single, uint64_t (*finish)(void *)) {
    const struct fame_work work = {
        .state = single,
        .repeat = repeat,
        .warm_up = single->warm_up_loops ? warm_up : NULL,
        .finish = finish,
    };
    fame_run(&work);
}

LOITER_TASK(add) {
    struct single single = {.block = block_add, .loops = loiter_value_at_least(&add_loops, 1), .operand = ADD_STEP};
    run_single(&single, finish_add);
}

LOITER_TASK(mulx) {
    struct single single = {
        .block = block_mul, .loops = loiter_value_at_least(&mulx_loops, 1), .value = 1, .operand = MULX_FACTOR};
    run_single(&single, finish_mulx);
}

// Branch always to the next instruction.
LOITER_TASK(baa) {
    struct single single = {.block = block_jump, .loops = loiter_value_at_least(&baa_loops, 1)};
    run_single(&single, finish_baa);
}

// ---- loads: a walk along a ring of pointers, so that all the block's instructions are loads ---------------------------

struct ring {
    struct single single; // first: the functions above see only this
    uint64_t start, count, step;
};

static uint64_t finish_ring(void *state) {
    const struct ring *ring = state;
    require(&ring->single, ring->start + ring->single.executed % ring->count * ring->step);
    return ring->single.executed % ring->count; // an address says nothing to anybody
}

static void run_ring(uint64_t loops, uint64_t bytes, uint64_t step) {
    struct ring ring = {.count = bytes / step, .step = step};
    char *start = loiter_allocate(bytes, 4096);
    for (uint64_t i = 0; i < ring.count; i++)
        *(void **)(void *)(start + i * step) = start + (i + 1) % ring.count * step;

    ring.start = (uintptr_t)start;
    ring.single = (struct single){
        .block = block_load, .loops = loops, .value = ring.start, .warm_up_loops = ring.count / BLOCK_LENGTH + 1};
    run_single(&ring.single, finish_ring);
}

// Every word in turn, all in the L1.
LOITER_TASK(l1_hit) {
    run_ring(loiter_value_at_least(&l1_loops, 1), loiter_value_at_least(&l1_footprint, 1) * 1024, sizeof(void *));
}

// One word of each line in turn. A ring with more lines than the L1 holds misses it always, and hits the L2 always once
// it has been walked. 32 KiB is such a ring for an L1 of up to 16 KiB.
LOITER_TASK(l2_hit) {
    run_ring(loiter_value_at_least(&l2_loops, 1), loiter_value_at_least(&l2_footprint, 32) * 1024, 64);
}
