// How much harts read in a time, and how long one load takes while others read.
//
// Task stream: a hart reads its own buffer over and over, once to warm caches, then for the measure: one doubleword of
// each line, and later all of them. Nobody stops before all have measured, so that each measures under the load of all.
//
// Tasks chase and load: one hart loads lines that nobody has, each at an address that depends on the load before; the
// others read their own buffers, with turns of an empty loop between two loads, for as long as that lasts.
//
// Reports of a hart: "lines" and "words", cycles for `measure_lines` lines; "chase" and "loop", cycles of `chase_lines`
// dependent loads, and of their loop without; "load.lines" and "load.cycles", what a hart has read in how long.
#include "loiter.h"

LOITER_ARGUMENT(footprint, "footprint_bytes", 1048576, "bytes that a hart reads over and over");
LOITER_ARGUMENT(line_bytes, "line_bytes", 64, "bytes of a line: 16, 32, 64 or 128");
LOITER_ARGUMENT(measured, "measure_lines", 4096, "lines that a hart reads to measure");
LOITER_ARGUMENT(chased, "chase_lines", 128, "dependent loads of task chase");
LOITER_ARGUMENT(chase_bytes, "chase_bytes", 16448, "distance of the lines that they load");
LOITER_ARGUMENT(gap, "gap", 0, "turns of an empty loop between two loads of task load");

// Loads of a turn of the loop.
#define TURN 16
// Buffers of harts begin some rows of memory apart, so that harts that keep pace read different banks.
#define APART_BYTES (3 * 16384 + 64)
// Turns between two looks at whether it is over: so many that looking takes little of the time.
#define LOOK_TURNS 64

struct buffer {
    const volatile uint64_t *begin, *end, *at;
};

// Who is through with the first and the second measure; of task load, who is under way.
static volatile unsigned awake;
static volatile unsigned through[2];
static volatile unsigned loading;
static volatile unsigned chase_is_over;
static volatile unsigned long zero_mask;

static struct buffer allocate(void) {
    uint64_t line = loiter_value_at_least(&line_bytes, 16);
    uint64_t bytes = loiter_value_at_least(&footprint, TURN * line) / (TURN * line) * (TURN * line);
    uint64_t *begin = loiter_allocate(bytes + APART_BYTES, 64);
    return (struct buffer){begin, begin + bytes / 8, begin};
}

static inline void wait(uint64_t turns) {
    for (uint64_t turn = 0; turn < turns; turn++)
        __asm__ volatile("" : "+r"(turn));
}

// Reads one doubleword of every `step` bytes, TURN of them a turn.
static inline __attribute__((always_inline)) void read_steps(struct buffer *buffer, uint64_t turns, uint64_t step,
                                                             uint64_t idle) {
    const volatile uint64_t *at = buffer->at;
    for (uint64_t turn = 0; turn < turns; turn++) {
#pragma GCC unroll 16
        for (unsigned n = 0; n < TURN; n++) {
            (void)at[n * (step / 8)];
            if (idle > 0)
                wait(idle);
        }
        at += TURN * (step / 8);
        if (at == buffer->end)
            at = buffer->begin;
    }
    buffer->at = at;
}

static __attribute__((noinline)) void read_words(struct buffer *buffer, uint64_t turns) {
    read_steps(buffer, turns, 8, 0);
}

static __attribute__((noinline)) void read_lines(struct buffer *buffer, uint64_t turns) {
    switch (loiter_value(&line_bytes)) {
    case 16:
        read_steps(buffer, turns, 16, 0);
        break;
    case 32:
        read_steps(buffer, turns, 32, 0);
        break;
    case 64:
        read_steps(buffer, turns, 64, 0);
        break;
    case 128:
        read_steps(buffer, turns, 128, 0);
        break;
    default:
        loiter_refuse("bandwidth: line_bytes is 16, 32, 64 or 128\n");
    }
}

static __attribute__((noinline)) void read_lines_slowly(struct buffer *buffer, uint64_t turns, uint64_t idle) {
    read_steps(buffer, turns, loiter_value(&line_bytes), idle);
}

static void measure(struct buffer *buffer, bool words) {
    uint64_t line = loiter_value(&line_bytes);
    uint64_t turns = loiter_value_at_least(&measured, TURN) / TURN;
    if (words)
        turns = turns * line / 8;
    unsigned all = loiter_placed(false);
    uint64_t begin = loiter_cycles();
    if (words)
        read_words(buffer, turns);
    else
        read_lines(buffer, turns);
    uint64_t cycles = loiter_cycles() - begin;
    __atomic_fetch_add(&through[words], 1, __ATOMIC_RELAXED);
    while (through[words] < all) {
        if (words)
            read_words(buffer, LOOK_TURNS);
        else
            read_lines(buffer, LOOK_TURNS);
    }
    loiter_report(words ? "words" : "lines", cycles);
}

LOITER_TASK(stream) {
    struct buffer buffer = allocate();
    uint64_t turns = (uint64_t)(buffer.end - buffer.begin) * 8 / (TURN * loiter_value(&line_bytes));
    read_lines(&buffer, turns);
    loiter_start_together();
    // Who slept wakes later; nobody measures before all are awake. Code is there then, and branches have been seen.
    __atomic_fetch_add(&awake, 1, __ATOMIC_RELAXED);
    while (awake < loiter_placed(false))
        read_lines(&buffer, LOOK_TURNS);
    measure(&buffer, false);
    read_words(&buffer, LOOK_TURNS);
    measure(&buffer, true);
}

// Cycles of dependent loads, `step` bytes apart.
static __attribute__((noinline)) uint64_t chain(bool loads, const volatile uint64_t *at, uint64_t count,
                                                uint64_t step, unsigned long mask) {
    __asm__ volatile("fence rw, rw" : : : "memory");
    uint64_t begin = loiter_cycles();
    if (loads) {
        for (uint64_t n = 0; n < count; n++)
            at += step / 8 + (*at & mask);
    } else {
        for (uint64_t n = 0; n < count; n++) {
            uint64_t value;
            __asm__ volatile("mv %0, %1" : "=r"(value) : "r"(at));
            at += step / 8 + (value & mask);
        }
    }
    __asm__ volatile("fence rw, rw" : : "r"(at) : "memory");
    return loiter_cycles() - begin;
}

LOITER_TASK(chase) {
    static uint64_t near[LOITER_APART / 8] __attribute__((aligned(LOITER_APART)));
    uint64_t count = loiter_value_at_least(&chased, 1), step = loiter_value_at_least(&chase_bytes, 16);
    uint64_t *fresh = loiter_allocate(count * step, 4096);
    unsigned long mask = zero_mask;
    unsigned others = loiter_placed(false) - 1;
    loiter_start_together();
    (void)chain(true, near, count, 0, mask);
    (void)chain(false, near, count, 0, mask);
    loiter_report("loop", chain(false, near, count, 0, mask));
    while (loading < others)
        ;
    loiter_report("chase", chain(true, fresh, count, step, mask));
    chase_is_over = 1;
}

LOITER_TASK(load) {
    struct buffer buffer = allocate();
    uint64_t idle = loiter_value(&gap), chunks = 0;
    loiter_start_together();
    bool under_way = false;
    uint64_t begin = loiter_cycles();
    while (!chase_is_over) {
        if (idle > 0)
            read_lines_slowly(&buffer, 1, idle);
        else
            read_lines(&buffer, LOOK_TURNS);
        chunks++;
        if (!under_way) {
            __atomic_fetch_add(&loading, 1, __ATOMIC_RELAXED);
            under_way = true;
            chunks = 0;
            begin = loiter_cycles();
        }
    }
    uint64_t cycles = loiter_cycles() - begin;
    loiter_report("load.lines", chunks * TURN * (idle > 0 ? 1 : LOOK_TURNS));
    loiter_report("load.cycles", cycles);
}
