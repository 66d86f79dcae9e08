// Hardware lock of loiter's machines (extension xloiterlock): waiters are blocked in the processor, not fetched from, with
// nothing in the pipeline. J. A. Redstone, "An Analysis of Software Interface Issues for SMT Processors", PhD thesis, Univ. of
// Washington, 2002, chapter 4; D. M. Tullsen, J. L. Lo, S. J. Eggers and H. M. Levy, "Supporting Fine-Grained
// Synchronization on a Simultaneous Multithreading Processor", HPCA 1999.
//
//                 lock.acquire finds 0
//     0 free ------------------------------> 1 held        lock.acquire finds 1: blocked until the line is written
//            <------------------------------
//                 lock.release: store 0, which makes all that are blocked look again
//
// | space         | 4 bytes a lock, none a thread                                                  |
// | fairness      | none: a waiter can be overtaken for ever                                       |
// | uncontended   | 1 atomic                                                                       |
// | waits on      | the lock, blocked                                                              |
// | policies      | none of its own; without the extension all but LOITER_PARK                     |
//
// Programs for machines that have it say so by -DLOITER_HAS_HARDWARE_LOCK=1; elsewhere its instructions are illegal, and the
// lock is a test-and-test-and-set lock with the caller's policy. The instructions alone are in xloiterlock.h.
#ifndef LOITER_HARDWARE_LOCK_H
#define LOITER_HARDWARE_LOCK_H

#include "test_and_test_and_set.h"
#include "xloiterlock.h"

#ifndef LOITER_HAS_HARDWARE_LOCK
#define LOITER_HAS_HARDWARE_LOCK 0
#endif

struct loiter_hardware_lock {
    struct loiter_test_and_test_and_set word;
};

static inline void loiter_hardware_lock_init(struct loiter_hardware_lock *lock) {
    loiter_test_and_test_and_set_init(&lock->word);
}

LOITER_INLINE int loiter_hardware_lock_try_acquire(struct loiter_hardware_lock *lock) {
    return loiter_test_and_test_and_set_try_acquire(&lock->word);
}

LOITER_INLINE void loiter_hardware_lock_acquire(struct loiter_hardware_lock *lock, const struct loiter_policy *policy) {
#if defined(__riscv) && LOITER_HAS_HARDWARE_LOCK
    (void)policy;
    loiter_hardware_acquire(&lock->word.held);
#else
    loiter_test_and_test_and_set_acquire(&lock->word, policy);
#endif
}

// Any store ends the waits, so the ordinary one will do.
LOITER_INLINE void loiter_hardware_lock_release(struct loiter_hardware_lock *lock) {
    loiter_test_and_test_and_set_release(&lock->word);
}

#endif
