// One lock, taken TIMES times by each hart. The section reads and writes plain variables: it fails if it is not alone, or does
// not see what the sections before it wrote. Compiled with EXPLORED as the name of a lock of locks/test/kinds.c:
//
//     -DEXPLORED=mcs                         each hart acquires it
//     -DEXPLORED=ticket -DBY=proportional    by another function that does: acquire_proportional()
//     -DEXPLORED=mcs -DTRIED                 hart 0 only tries to, and goes on without it if that fails
//     -DEXPLORED=hbo -DBACKS_OFF             where the lock wants a policy that does
//     -DEXPLORED=... -DSHARED_BY_OTHERS      all harts but hart 0 share it, where it is one for readers and writers
#include "explore.h"

#define KINDS_THREADS 4
// What is counted makes states of its own.
#define KINDS_LOOKS 1
#define KINDS_FAR 1, 2, 0
#include "kinds.c"

#ifndef EXPLORED
#error "define EXPLORED as the name of a lock"
#endif
#ifndef TIMES
#define TIMES 1
#endif

#ifndef BY
#define BY EXPLORED
#endif
#define OF_LOCK(what) PASTE(what, EXPLORED)
#define ACQUIRE PASTE(acquire_, BY)
#define PASTE(what, lock) PASTE_NAMES(what, lock)
#define PASTE_NAMES(what, lock) what##lock

#ifdef BACKS_OFF
static const struct loiter_policy policy = {LOITER_BACK_OFF, 1, 2, 0};
#else
static const struct loiter_policy policy = {LOITER_SPIN, 0, 0, 0};
#endif

// Plain, so that the compiler may do with them what it may in any section.
static unsigned long sections;
static unsigned long inside;
static unsigned long left_out;

void setup(unsigned long harts) { OF_LOCK(init_)((unsigned)harts); }

static void write_section(void) {
    EXPLORE_ASSERT(inside == 0);
    inside = 1;
    sections++;
    __asm__ volatile("" : : : "memory");
    inside = 0;
}

#ifdef SHARED_BY_OTHERS
static void once(unsigned hart) {
    if (hart == 0) {
        ACQUIRE(hart, &policy);
        write_section();
        OF_LOCK(release_)(hart, &policy);
        return;
    }
    OF_LOCK(acquire_shared_)(hart, &policy);
    unsigned long first = sections, within = inside;
    __asm__ volatile("" : : : "memory");
    unsigned long last = sections;
    OF_LOCK(release_shared_)(hart, &policy);
    // Only here: a branch on what was read would order the release behind it.
    EXPLORE_ASSERT(within == 0 && first == last);
}
#else
static void once(unsigned hart) {
#ifdef TRIED
    if (hart == 0) {
        if (!OF_LOCK(try_)(hart)) {
            left_out++;
            return;
        }
    } else
#endif
        ACQUIRE(hart, &policy);
    write_section();
    OF_LOCK(release_)(hart, &policy);
}
#endif

// As a whole: a call through a register could lead anywhere.
__attribute__((flatten)) void thread(unsigned long hart) {
    for (unsigned n = 0; n < TIMES; n++)
        once((unsigned)hart);
}

void check(unsigned long harts) {
#ifdef SHARED_BY_OTHERS
    harts = 1;
#endif
    EXPLORE_ASSERT(sections + left_out == harts * TIMES);
}
