// The runtime of bare-metal programs: tasks, arguments, memory, meeting other harts, console, end of the run.
//
// A program is a set of tasks. The run's command line (/chosen/bootargs) places tasks on harts and sets arguments:
//
//     task.add=0 task.spin_default=1,2 reps_min=7
//
// Harts without a task sleep for ever. The run ends with exit code 0 when every foreground task has returned.
#ifndef LOITER_H
#define LOITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"
#include "loiter/base.h"
#include "loiter_probe.h"

// ---- tasks ----------------------------------------------------------------------------------------------------------

struct loiter_task {
    const char *name;
    void (*run)(void);
    bool background; // does not keep the run alive
};

// LOITER_TASK(name) { ... } defines a foreground task, LOITER_BACKGROUND_TASK(name) { ... } one that waits for others.
// The function's symbol is loiter_task_<name>; hosts list the tasks of a program by that prefix,
// so nothing else may begin with it.
#define LOITER_TASK(task_name) LOITER_DEFINE_TASK(task_name, false)
#define LOITER_BACKGROUND_TASK(task_name) LOITER_DEFINE_TASK(task_name, true)

#define LOITER_DEFINE_TASK(task_name, is_background)                                                                   \
    void loiter_task_##task_name(void);                                                                                \
    static const struct loiter_task loiter_entry_of_##task_name = {#task_name, loiter_task_##task_name,                \
                                                                     is_background};                                   \
    static const struct loiter_task *const loiter_link_to_##task_name                                                \
        __attribute__((used, section("loiter_tasks"))) = &loiter_entry_of_##task_name;                                 \
    void loiter_task_##task_name(void)

// Harts placed on foreground or on background tasks.
unsigned loiter_placed(bool background);

// The task of this hart, never NULL within a task.
const struct loiter_task *loiter_own_task(void);

static inline unsigned loiter_hart(void) {
    unsigned long hart;
    __asm__("mv %0, tp" : "=r"(hart));
    return (unsigned)hart;
}

// Whether harts have an extension whose name has several letters, such as "zawrs".
bool loiter_has_extension(const char *name);

// Asked by loiter/nap.h.
#define LOITER_NAP_PROBE() loiter_has_extension("zawrs")

// ---- arguments ------------------------------------------------------------------------------------------------------

struct loiter_argument {
    const char *key;
    uint64_t value; // the default until the command line says otherwise
    const char *help;
};

// LOITER_ARGUMENT(variable, "key", default, "help") at file scope declares an argument, loiter_value(&variable) reads it.
// Tasks may declare the same key with defaults of their own; the command line sets all of them.
#define LOITER_ARGUMENT(variable, key_text, default_value, help_text)                                                  \
    static struct loiter_argument variable = {key_text, default_value, help_text};                                     \
    static struct loiter_argument *const variable##_link __attribute__((used, section("loiter_arguments"))) = &variable

uint64_t loiter_value(const struct loiter_argument *argument);

// The value, or a message and the end of the run if it is below `least`.
uint64_t loiter_value_at_least(const struct loiter_argument *argument, uint64_t least);

// ---- memory ---------------------------------------------------------------------------------------------------------

// `bytes` of RAM at a multiple of `align` (a power of two), never freed, content as at reset (zero).
// Background tasks get theirs from the far end of RAM: to place one does not move the data of what is measured.
// Ends the run with a message when the RAM is too small.
void *loiter_allocate(uint64_t bytes, uint64_t align);

// ---- meeting other harts --------------------------------------------------------------------------------------------

// Waits, asleep, until every placed hart has called it; the last one to come begins the region of interest.
// Every task calls it once, after it has initialised its data.
void loiter_start_together(void);

// Sleeps in wfi until another hart calls this one. A call that came before counts, so who looks for something and finds
// it missing sleeps and looks again; a sleep may also end without a call.
void loiter_sleep(void);

// Ends the sleep of `hart`, or its next one. What was stored before is there when it wakes.
void loiter_call(unsigned hart);

// ---- console and end ------------------------------------------------------------------------------------------------

// printf with %c %s %d %u %x %p %%, widths, zero padding, and the sizes l, ll and z. Whole calls do not mix.
void loiter_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Prints "error: ..." and ends the run with exit code 1.
void loiter_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

// The same with exit code 2, for a command line that asks for what there is not.
void loiter_refuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

void loiter_exit(unsigned code) __attribute__((noreturn));

// ---- counters -------------------------------------------------------------------------------------------------------

static inline uint64_t loiter_cycles(void) {
    uint64_t value;
    __asm__ volatile("csrr %0, cycle" : "=r"(value) : : "memory");
    return value;
}

static inline uint64_t loiter_instructions(void) {
    uint64_t value;
    __asm__ volatile("csrr %0, instret" : "=r"(value) : : "memory");
    return value;
}

#endif
