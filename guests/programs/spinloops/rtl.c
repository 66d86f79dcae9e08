// Kernels of one kind each (rtl_kernels.S), measured beside spinners as any other program, to be compared slot by slot.
#include "fame.h"

LOITER_ARGUMENT(loops, "iterations", 200, "rtl_*: loops of the kernel in a repetition");
LOITER_ARGUMENT(footprint, "footprint_kib", 4, "rtl_load, rtl_element: what they walk over");
LOITER_ARGUMENT(stride, "stride", 8, "rtl_load, rtl_element: bytes from one step to the next");

typedef void kernel(uint64_t loops, void *operand, uint64_t step);
kernel rtl_empty, rtl_add, rtl_mulx, rtl_load, rtl_baa, rtl_load_load, rtl_store_load, rtl_branch; // rtl_kernels.S
kernel rtl_sdivx, rtl_fdivd, rtl_fmuld, rtl_faddd, rtl_fmovd, rtl_fp_load, rtl_fp_store, rtl_element;

struct walk {
    kernel *kernel;
    uint64_t loops, bytes, step, at;
    char *start;
};

// An element walks `step` bytes a loop; at the end of its data it begins anew.
static void repeat(void *state) {
    struct walk *walk = state;
    uint64_t length = walk->loops * walk->step;
    if (walk->kernel == rtl_element && walk->at + length > walk->bytes)
        walk->at = 0;
    walk->kernel(walk->loops, walk->start + walk->at, walk->step);
    if (walk->kernel == rtl_element)
        walk->at += length;
}

static uint64_t finish(void *state) {
    const struct walk *walk = state;
    return walk->loops;
}

// The words are a ring of pointers. As doubles they are tiny, and no operation on them is an exception.
static void run(kernel *of) {
    struct walk walk = {
        .kernel = of,
        .loops = loiter_value_at_least(&loops, 1),
        .bytes = loiter_value_at_least(&footprint, 1) * 1024,
        .step = loiter_value_at_least(&stride, of == rtl_load ? sizeof(void *) : 0),
    };
    if (of == rtl_element && walk.loops * walk.step > walk.bytes)
        loiter_refuse("rtl_element: footprint_kib is less than iterations x stride\n");
    walk.start = loiter_allocate(walk.bytes, 4096);
    if (of == rtl_load)
        for (uint64_t at = 0; at < walk.bytes; at += walk.step)
            *(void **)(void *)(walk.start + at) = walk.start + (at + walk.step) % walk.bytes;
    const struct fame_work work = {.state = &walk, .repeat = repeat, .finish = finish};
    fame_run(&work);
}

LOITER_TASK(rtl_empty) { run(rtl_empty); }
LOITER_TASK(rtl_add) { run(rtl_add); }
LOITER_TASK(rtl_mulx) { run(rtl_mulx); }
LOITER_TASK(rtl_load) { run(rtl_load); }
LOITER_TASK(rtl_baa) { run(rtl_baa); }
LOITER_TASK(rtl_load_load) { run(rtl_load_load); }
LOITER_TASK(rtl_store_load) { run(rtl_store_load); }
LOITER_TASK(rtl_branch) { run(rtl_branch); }
LOITER_TASK(rtl_sdivx) { run(rtl_sdivx); }
LOITER_TASK(rtl_fdivd) { run(rtl_fdivd); }
LOITER_TASK(rtl_fmuld) { run(rtl_fmuld); }
LOITER_TASK(rtl_faddd) { run(rtl_faddd); }
LOITER_TASK(rtl_fmovd) { run(rtl_fmovd); }
LOITER_TASK(rtl_fp_load) { run(rtl_fp_load); }
LOITER_TASK(rtl_fp_store) { run(rtl_fp_store); }
LOITER_TASK(rtl_element) { run(rtl_element); }
