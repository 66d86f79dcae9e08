// How long an access takes to a line that another core has: every ordered pair of cores, or those with one asker.
//
// In each pair one hart holds lines in a state, then the other accesses them, one after the other. The address of each
// access depends on the value of the one before; a store is followed by a fence. A loop without accesses is measured
// beside it, for what is not the access. Lines are fresh in each pair, so that nobody else ever had them.
//
// Reports of a hart: "from.<holder>", cycles of `lines` accesses to lines that <holder> holds; "loop", those of the
// loop without.
#include "loiter.h"

LOITER_ARGUMENT(operation, "operation", 0, "0: load, 1: store, 2: fetch and add, 3: swap, 4: compare and swap");
LOITER_ARGUMENT(state, "state", 0, "0: modified, 1: modified and then read by another, 2: exclusive, 3: shared by two, 4: nobody has it");
LOITER_ARGUMENT(lines, "lines", 16, "accesses of each pair");
LOITER_ARGUMENT(askers, "askers", 1, "harts that access the lines of all others; 0: all");
LOITER_ARGUMENT(line_bytes, "line_bytes", 64, "distance of the lines, at least that of a line");
LOITER_ARGUMENT(node_harts, "node_harts", 0, "harts of a node, which has the lines that these hold; 0: there are no nodes");
LOITER_ARGUMENT(node_bytes, "node_bytes", 0, "memory of a node");
LOITER_ARGUMENT(readers, "readers", 1, "harts that read a line after its holder where that is to be shared; 0: all but the asker");
LOITER_ARGUMENT(home_node, "home_node", 256, "the node that has all lines; 256: that of their holder");

enum operation { LOAD, STORE, ADD, SWAP, COMPARE };
enum state { MODIFIED, OWNED, EXCLUSIVE, SHARED, UNCACHED };
enum duty { NOTHING, HOLD, READ, ACCESS, END };

#define MOST_HARTS 1024
#define MOST_NODES 256
#define RAM 0x80000000UL

// What one hart is to do, and whether it has.
struct order {
    volatile unsigned duty;
    volatile unsigned done;
    char *from;
    unsigned holder;
} __attribute__((aligned(LOITER_APART)));

static struct order orders[MOST_HARTS];
// Harts that take part, a byte each, and in order.
static volatile unsigned char here[MOST_HARTS];
static unsigned harts[MOST_HARTS];
static unsigned placed;
static volatile unsigned long zero_mask;

static unsigned long compare_and_swap(char *at, unsigned long expected, unsigned long desired) {
    register unsigned long old __asm__("a0") = expected;
    register unsigned long value __asm__("a1") = desired;
    register char *where __asm__("a2") = at;
    // amocas.d a0, a1, (a2)
    __asm__ volatile(".insn r 0x2f, 3, 0x14, %0, %2, %1" : "+r"(old) : "r"(value), "r"(where) : "memory");
    return old;
}

static inline unsigned long access(enum operation what, char *at) {
    unsigned long value = 0;
    switch (what) {
    case LOAD:
        __asm__ volatile("ld %0, 0(%1)" : "=r"(value) : "r"(at) : "memory");
        break;
    case STORE:
        __asm__ volatile("sd %0, 0(%0)\n\tfence rw, rw" : : "r"(at) : "memory");
        break;
    case ADD:
        __asm__ volatile("amoadd.d %0, zero, (%1)" : "=r"(value) : "r"(at) : "memory");
        break;
    case SWAP:
        __asm__ volatile("amoswap.d %0, zero, (%1)" : "=r"(value) : "r"(at) : "memory");
        break;
    default:
        value = compare_and_swap(at, 0, 0);
    }
    return value;
}

// Cycles of `count` accesses from `at` on. Inlined for each operation, so that the loop is one of its own.
static inline __attribute__((always_inline)) uint64_t chain(enum operation what, bool accesses, char *at,
                                                            uint64_t count, uint64_t step, unsigned long mask) {
    __asm__ volatile("fence rw, rw" : : : "memory");
    uint64_t begin = loiter_cycles();
    for (uint64_t n = 0; n < count; n++) {
        unsigned long value = 0;
        if (accesses)
            value = access(what, at);
        else
            __asm__ volatile("" : "=r"(value) : "0"(at));
        at += step + (value & mask);
    }
    __asm__ volatile("fence rw, rw" : : "r"(at) : "memory");
    return loiter_cycles() - begin;
}

static __attribute__((noinline)) uint64_t measure(enum operation what, bool accesses, char *at, uint64_t count,
                                                  uint64_t step, unsigned long mask) {
    if (!accesses)
        return chain(what, false, at, count, step, mask);
    switch (what) {
    case LOAD:
        return chain(LOAD, true, at, count, step, mask);
    case STORE:
        return chain(STORE, true, at, count, step, mask);
    case ADD:
        return chain(ADD, true, at, count, step, mask);
    case SWAP:
        return chain(SWAP, true, at, count, step, mask);
    default:
        return chain(COMPARE, true, at, count, step, mask);
    }
}

static void report(unsigned holder, uint64_t cycles) {
    char name[16] = "from.";
    unsigned digits = 1, at = 5;
    for (unsigned rest = holder; rest >= 10; rest /= 10)
        digits++;
    for (unsigned place = digits, rest = holder; place > 0; place--, rest /= 10)
        name[at + place - 1] = (char)('0' + rest % 10);
    name[at + digits] = 0;
    // Names are read from memory, where stores that are still buffered are not.
    __asm__ volatile("fence rw, rw" : : : "memory");
    loiter_report(name, cycles);
}

static void touch(char *line, bool writes) {
    unsigned long value;
    if (writes)
        __asm__ volatile("sd zero, 0(%0)" : : "r"(line) : "memory");
    else
        __asm__ volatile("ld %0, 0(%1)" : "=r"(value) : "r"(line) : "memory");
}

// Does one thing that the first hart asks for.
static void obey(struct order *order) {
    uint64_t count = loiter_value_at_least(&lines, 1), step = loiter_value_at_least(&line_bytes, 16);
    enum operation what = (enum operation)loiter_value(&operation);
    switch (order->duty) {
    case HOLD:
        for (uint64_t n = 0; n < count; n++)
            touch(order->from + n * step, loiter_value(&state) <= OWNED);
        break;
    case READ:
        for (uint64_t n = 0; n < count; n++)
            touch(order->from + n * step, false);
        break;
    default: {
        unsigned long mask = zero_mask;
        // Code, and the loop's branch, are there before.
        static char own[MOST_HARTS / 64][LOITER_APART] __attribute__((aligned(LOITER_APART)));
        char *near = own[loiter_hart() % (MOST_HARTS / 64)];
        (void)measure(what, true, near, count, 0, mask);
        (void)measure(what, false, near, count, 0, mask);
        loiter_report("loop", measure(what, false, near, count, 0, mask));
        report(order->holder, measure(what, true, order->from, count, step, mask));
    }
    }
    __asm__ volatile("fence rw, rw" : : : "memory");
}

// Has `hart` do one thing, and waits until it has.
static void command(unsigned hart, enum duty duty, char *from, unsigned holder) {
    struct order *order = &orders[hart];
    order->from = from;
    order->holder = holder;
    if (hart == loiter_hart()) {
        order->duty = duty;
        if (duty != END)
            obey(order);
        return;
    }
    order->done = 0;
    __atomic_store_n(&order->duty, duty, __ATOMIC_RELEASE);
    loiter_call(hart);
    while (!__atomic_load_n(&order->done, __ATOMIC_ACQUIRE))
        loiter_sleep();
}

// Memory for the lines of a pair, in a node if there are nodes. The program is in the first.
static char *fresh(unsigned holder, uint64_t bytes) {
    static uint64_t given[MOST_NODES];
    uint64_t harts_of_node = loiter_value(&node_harts), node_size = loiter_value(&node_bytes);
    uint64_t node = harts_of_node ? loiter_value(&home_node) : 0;
    if (node == MOST_NODES)
        node = holder / harts_of_node;
    if (node == 0)
        return loiter_allocate(bytes, 4096);
    if (node >= MOST_NODES)
        loiter_refuse("latency: node %lu, of at most %u\n", node, MOST_NODES);
    uint64_t offset = given[node];
    given[node] += (bytes + 4095) & ~4095UL;
    if (given[node] > node_size)
        loiter_refuse("latency: the lines need more than the %lu bytes of a node\n", node_size);
    return (char *)(RAM + node * node_size + offset);
}

static bool same_node(unsigned one, unsigned other) {
    uint64_t harts_of_node = loiter_value(&node_harts);
    return !harts_of_node || harts[one] / harts_of_node == harts[other] / harts_of_node;
}

// One more hart that reads: the next to the holder in its node; without nodes, the first.
static unsigned third_of(unsigned asker, unsigned holder) {
    for (unsigned at = loiter_value(&node_harts) ? holder + 1 : 0; at < placed; at++)
        if (at != asker && at != holder && same_node(at, holder))
            return at;
    for (unsigned at = holder; at-- > 0;)
        if (at != asker && same_node(at, holder))
            return at;
    return placed;
}

static void share(unsigned asker, unsigned holder, char *from) {
    if (loiter_value(&readers)) {
        unsigned third = third_of(asker, holder);
        if (third < placed)
            command(harts[third], READ, from, 0);
        return;
    }
    for (unsigned n = 0; n < placed; n++)
        if (n != asker && n != holder)
            command(harts[n], READ, from, 0);
}

static void lead(void) {
    uint64_t count = loiter_value_at_least(&lines, 1), step = loiter_value_at_least(&line_bytes, 16);
    enum state what = (enum state)loiter_value(&state);
    uint64_t asking = loiter_value(&askers);
    if (asking == 0 || asking > placed)
        asking = placed;
    for (unsigned asker = 0; asker < asking; asker++) {
        for (unsigned holder = 0; holder < placed; holder++) {
            char *from = fresh(harts[holder], count * step);
            if (what != UNCACHED)
                command(harts[holder], HOLD, from, 0);
            if (what == SHARED || what == OWNED)
                share(asker, holder, from);
            command(harts[asker], ACCESS, from, harts[holder]);
        }
    }
    for (unsigned n = 0; n < placed; n++)
        command(harts[n], END, NULL, 0);
}

static void follow(void) {
    struct order *order = &orders[loiter_hart()];
    for (;;) {
        unsigned duty = __atomic_load_n(&order->duty, __ATOMIC_ACQUIRE);
        if (duty == NOTHING) {
            loiter_sleep();
            continue;
        }
        if (duty != END)
            obey(order);
        order->duty = NOTHING;
        __atomic_store_n(&order->done, 1, __ATOMIC_RELEASE);
        loiter_call(harts[0]);
        if (duty == END)
            return;
    }
}

LOITER_TASK(core) {
    unsigned own = loiter_hart();
    if (own >= MOST_HARTS)
        loiter_refuse("latency: hart %u, of at most %u\n", own, MOST_HARTS);
    here[own] = 1;
    loiter_start_together();
    // Everybody writes the same list.
    unsigned found = 0;
    for (unsigned hart = 0; hart < MOST_HARTS; hart++)
        if (here[hart])
            harts[found++] = hart;
    placed = found;
    if (harts[0] == own)
        lead();
    else
        follow();
}
