// The locks under test, behind one interface. A line of KINDS and one file here are all that a new lock needs.
#ifndef KINDS_H
#define KINDS_H

#include <stdbool.h>

#include "loiter/wait.h"

// Programs with more threads, or other nodes of the machine, say so before.
#ifndef KINDS_THREADS
#define KINDS_THREADS 16
#endif
#ifndef KINDS_PLACES
#define KINDS_PLACES 2
#define KINDS_PLACE_OF(thread) ((thread) % KINDS_PLACES) // in turn
#endif

// Where a lock lies: a program that compares locks puts all at the same place of a page, so that no lock is nearer to
// its home, or in another bank, than others.
#ifndef KINDS_APART
#define KINDS_APART
#endif

// Looks before who waits parks, and how who waits far from the holder backs off: `repeat`, `limit`, `patience`.
#ifndef KINDS_LOOKS
#define KINDS_LOOKS LOITER_SPIN_THEN_PARK_LOOKS
#define KINDS_FAR 4, 256, 10
#endif

enum { MAX_THREADS = KINDS_THREADS };

// The order in which waiters get a lock that is held while they arrive.
enum order {
    ANY,
    ARRIVAL,
    NEAR_FIRST, // those of the holder's node of the machine first, then the others; in each in order of arrival
    CULLED,     // of two waiters the second; those passed over when no others are left, the last of them first
};

enum {
    PARKS = 1,  // its waiters may park
    DELAYS = 2, // its policy is LOITER_BACK_OFF
    FIXED = 4,  // its policies are its own
    OWNED = 8,  // its release knows whose it is, by a node
};

// The node of the machine that a thread is in.
static inline uint32_t place_of(unsigned thread) { return KINDS_PLACE_OF(thread); }

struct kind {
    const char *name;
    enum order order;
    unsigned flags;
    void *lock; // the bytes that change when a waiter arrives
    size_t lock_bytes;
    void (*init)(unsigned threads);
    void (*acquire)(unsigned thread, const struct loiter_policy *policy);
    bool (*try_acquire)(unsigned thread); // NULL if it cannot
    void (*release)(unsigned thread, const struct loiter_policy *policy);
    // Of readers, which share it; NULL if it has none.
    void (*acquire_shared)(unsigned thread, const struct loiter_policy *policy);
    bool (*try_acquire_shared)(unsigned thread);
    void (*release_shared)(unsigned thread, const struct loiter_policy *policy);
    unsigned bound; // hand-overs that overtake a waiter at most, where others are preferred; 0: no claim
};

extern const struct kind kinds[];
extern const unsigned kind_count;

#endif
