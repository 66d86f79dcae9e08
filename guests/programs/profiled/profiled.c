// One lock under the contention of a profile: the program `locks`, with its locks and its waiting methods, whose sections have a
// distribution, as does the work outside. `loiter advise` is its user.
//
// A section takes `hold1` to `hold8` cycles of a hart that is alone, with odds of `odds1` to `odds8`. It is drawn outside, before
// the acquire, so that a section is work alone. Harts begin outside, so that not all of them ask at once.
#include <stdint.h>

struct thread;
static void work_outside(struct thread *thread);
static void set_up(void);
#define CONTENTION_OUTSIDE(thread) work_outside(thread)
#define LOCKS_SET_UP() set_up()
#define LOCKS_BEGIN(thread) work_outside(thread)

#include "../locks/locks.c"

LOITER_ARGUMENT(arrivals, "arrivals", 1, "work outside is drawn 0: evenly, from none to twice the mean; 1: nearly exponentially");

#define LENGTHS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define DECLARE(n)                                                                                                     \
    LOITER_ARGUMENT(hold##n, "hold" #n, 0, "cycles of such a section, of a hart that is alone");                      \
    LOITER_ARGUMENT(odds##n, "odds" #n, 0, "odds of such a section; with none at all, sections take `hold` cycles");
#define NONE(n) {0, 0},
LENGTHS(DECLARE)

// Sections in steps, and of 2^32 equal shares how many are those or an earlier one. Read only while harts contend.
static struct {
    uint64_t steps, shares;
} lengths[] = {LENGTHS(NONE)};
static bool drawn_evenly;

static void set_up(void) {
#define LENGTH(n) {loiter_value(&hold##n), loiter_value(&odds##n)},
    const struct {
        uint64_t cycles, odds;
    } given[] = {LENGTHS(LENGTH)};
    uint64_t all = 0, seen = 0;
    for (unsigned n = 0; n < sizeof given / sizeof *given; n++)
        all += given[n].odds;
    for (unsigned n = 0; n < sizeof given / sizeof *given; n++) {
        seen += given[n].odds;
        lengths[n].steps = steps_of(all ? given[n].cycles : loiter_value(&hold));
        lengths[n].shares = all ? (seen << 32) / all : (uint64_t)1 << 32;
    }
    drawn_evenly = !loiter_value(&arrivals);
}

static uint64_t drawn_section(struct thread *thread) {
    uint64_t drawn = draw(&thread->random) >> 32;
    unsigned n = 0;
    while (drawn >= lengths[n].shares)
        n++;
    return lengths[n].steps;
}

// Nearly exponential: how often a coin falls on one side, and within that evenly. The mean is 1.5 throws; the coefficient of
// variation is 0.96, where an exponential distribution has 1.
static uint64_t drawn_outside(struct thread *thread) {
    uint64_t bits = draw(&thread->random), throws = 0;
    if (drawn_evenly)
        return bits % (2 * thread->think_steps + 1);
    for (uint32_t coins = (uint32_t)bits; throws < 32 && !(coins & 1); coins >>= 1)
        throws++;
    return thread->think_steps * ((throws << 16) + (bits >> 48)) / (3 << 15);
}

static __attribute__((noinline)) void work_outside(struct thread *thread) {
    thread->hold_steps = drawn_section(thread);
    work(drawn_outside(thread));
}
