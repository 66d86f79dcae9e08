// Harts wait for one another asleep: a waiting hart costs a simulator nothing, and its core next to nothing.
//
// Wake-up is the software interrupt of the CLINT, enabled in mie but not in mstatus, so that wfi returns without a trap:
//
//     waker                          waiter
//     happened = 1                   while (!happened) {
//     fence w,o                          wfi
//     msip[waiter] = 1                   msip[self] = 0
//                                        fence o,r }
//
// An msip that the waiter's clearing swallows was set after `happened`, which the waiter reads next: none is lost.
#include "internal.h"

static volatile uint32_t *const clint_msip = (volatile uint32_t *)0x02000000;

enum { MIE_MSIE = 1 << 3 };

void loiter_sleep(void) {
    __asm__ volatile("csrw mie, %0" : : "r"(MIE_MSIE));
    __asm__ volatile("wfi" : : : "memory");
    clint_msip[loiter_hart()] = 0;
    __asm__ volatile("fence o, r" : : : "memory");
}

void loiter_call(unsigned hart) {
    __asm__ volatile("fence w, o" : : : "memory");
    clint_msip[hart] = 1;
}

void loiter_wait(const struct event *event) {
    while (!__atomic_load_n(&event->happened, __ATOMIC_ACQUIRE))
        loiter_sleep();
}

void loiter_happen(struct event *event) {
    __atomic_store_n(&event->happened, 1, __ATOMIC_RELEASE);
    __asm__ volatile("fence w, o" : : : "memory");
    for (unsigned hart = 0; hart < LOITER_MAX_HARTS; hart++)
        if (loiter_placement[hart] && hart != loiter_hart())
            clint_msip[hart] = 1;
}

void loiter_park(void) {
    __asm__ volatile("csrw mie, zero");
    for (;;)
        __asm__ volatile("wfi");
}

void loiter_start_together(void) {
    static unsigned arrived;
    static struct event all_arrived;
    unsigned placed = loiter_placed(false) + loiter_placed(true);

    if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) < placed) {
        loiter_wait(&all_arrived);
        return;
    }
    loiter_roi_begin();
    loiter_happen(&all_arrived);
}
