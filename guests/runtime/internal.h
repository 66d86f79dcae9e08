// What the files of the runtime know of one another; programs include loiter.h only.
#ifndef LOITER_INTERNAL_H
#define LOITER_INTERNAL_H

#include "loiter.h"

// What the device tree says of the machine.
struct machine {
    const char *bootargs;
    const char *isa;
    uint64_t ram_start, ram_end; // the region that holds the program
    uint64_t tree_start, tree_end;
    bool hart_exists[LOITER_MAX_HARTS];
};

// Reads the flattened device tree at `tree`; fails with a message if it is none or lacks what a program needs.
void loiter_read_device_tree(const void *tree, struct machine *machine);

// Sets placement and arguments from the command line; fails with a message on anything it does not understand.
void loiter_read_command_line(const struct machine *machine);

// Sets a declared argument from the word `key=value`; `equals` points at the sign.
void loiter_set_argument(const char *word, const char *equals, const char *end);
void loiter_list_arguments(void);

// A word of the command line: [start, end).
bool loiter_same_word(const char *start, const char *end, const char *name);

// Reads an unsigned number from [*at, end) and moves *at behind it; false if there is none or it does not fit.
bool loiter_read_number(const char **at, const char *end, uint64_t *number);

void loiter_open_heap(const struct machine *machine);

// The task on a hart, NULL if it has none.
extern const struct loiter_task *loiter_placement[LOITER_MAX_HARTS];

// Something that happens once. Waiting harts sleep in wfi; the hart that makes it happen wakes all placed ones.
struct event {
    uint32_t happened;
};
void loiter_wait(const struct event *event);
void loiter_happen(struct event *event);

void loiter_park(void) __attribute__((noreturn));

#endif
