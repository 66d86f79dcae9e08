// The heap: RAM between the end of the program and the end of RAM, given out from both ends, never taken back.
#include "internal.h"

extern const char __image_end[];

static struct {
    uint64_t start, end;           // what is still free
    uint64_t tree_start, tree_end; // the device tree, which holds the command line, may lie in it
    uint32_t busy;
} heap;

void loiter_open_heap(const struct machine *machine) {
    heap.start = (uintptr_t)__image_end;
    heap.end = machine->ram_end;
    heap.tree_start = machine->tree_start;
    heap.tree_end = machine->tree_end;
}

static bool meets_tree(uint64_t start, uint64_t end) { return start < heap.tree_end && heap.tree_start < end; }

// The lowest or highest aligned place for `bytes` that leaves the device tree alone; it may lie outside the heap.
static uint64_t find_place(uint64_t bytes, uint64_t align, bool from_far_end) {
    uint64_t mask = ~(align - 1);
    if (from_far_end) {
        uint64_t start = (heap.end - bytes) & mask;
        return meets_tree(start, start + bytes) ? (heap.tree_start - bytes) & mask : start;
    }
    uint64_t start = (heap.start + align - 1) & mask;
    return meets_tree(start, start + bytes) ? (heap.tree_end + align - 1) & mask : start;
}

void *loiter_allocate(uint64_t bytes, uint64_t align) {
    bool from_far_end = loiter_own_task()->background;

    while (__atomic_exchange_n(&heap.busy, 1, __ATOMIC_ACQUIRE)) {
    }
    uint64_t room = heap.end - heap.start;
    uint64_t start = bytes <= room ? find_place(bytes, align, from_far_end) : 0;
    bool fits = start >= heap.start && start <= heap.end && bytes <= heap.end - start;
    if (fits && from_far_end)
        heap.end = start;
    else if (fits)
        heap.start = start + bytes;
    __atomic_store_n(&heap.busy, 0, __ATOMIC_RELEASE);

    if (!fits)
        loiter_fail("task %s wants %llu KiB of memory, but only %llu KiB are free: give the machine more RAM\n",
                    loiter_own_task()->name, (unsigned long long)bytes / 1024, (unsigned long long)room / 1024);
    return (void *)start;
}
