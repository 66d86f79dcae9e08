// A platform that hands over no device tree, such as other simulators in their bare-metal mode: one hart, some RAM, and
// a command line that is built in. It stands in for runtime/device_tree.c; all else of the runtime is the same, for the
// console, the timer and the finisher are where QEMU's virt has them.
#include "internal.h"

enum { RAM_BYTES = 64 << 20 };

void loiter_read_device_tree(const void *tree, struct machine *machine) {
    (void)tree;
    machine->bootargs = PEERS_ARGUMENTS;
    machine->ram_start = 0x80000000;
    machine->ram_end = machine->ram_start + RAM_BYTES;
    machine->tree_start = machine->tree_end = 0;
    machine->hart_exists[0] = true;
}
