// Sizes that start.S and the C part of the runtime share.
#ifndef LOITER_LAYOUT_H
#define LOITER_LAYOUT_H

#define LOITER_MAX_HARTS 256

// 16 KiB and some lines: stacks at a power of two would all meet in the same cache sets.
#define LOITER_STACK_STRIDE (16 * 1024 + 320)

#endif
