// The life of a run: hart 0 reads the command line, the placed harts run their tasks, the last foreground task ends it.
#include "internal.h"

extern const struct loiter_task *const __loiter_tasks_start[];
extern const struct loiter_task *const __loiter_tasks_end[];

const struct loiter_task *loiter_placement[LOITER_MAX_HARTS];
static unsigned placed[2]; // [background]
static unsigned foreground_left;

// In .data: the other harts look at it while hart 0 clears .bss.
static struct event booted __attribute__((section(".data"))) = {0};

static const struct loiter_task *find_task(const char *start, const char *end) {
    for (const struct loiter_task *const *link = __loiter_tasks_start; link < __loiter_tasks_end; link++)
        if (loiter_same_word(start, end, (*link)->name))
            return *link;
    loiter_print("Tasks of this program:");
    for (const struct loiter_task *const *link = __loiter_tasks_start; link < __loiter_tasks_end; link++)
        loiter_print(" %s", (*link)->name);
    loiter_print("\n");
    loiter_refuse("this program has no task '%.*s'\n", (int)(end - start), start);
}

static void place(const struct machine *machine, const struct loiter_task *task, uint64_t hart) {
    if (hart >= LOITER_MAX_HARTS)
        loiter_refuse("task %s: hart %llu is beyond what the runtime has stacks for (%d harts)\n", task->name,
                      (unsigned long long)hart, LOITER_MAX_HARTS);
    if (!machine->hart_exists[hart])
        loiter_refuse("task %s: this machine has no hart %llu\n", task->name, (unsigned long long)hart);
    if (loiter_placement[hart])
        loiter_refuse("hart %u is given twice: to task %s and to task %s\n", (unsigned)hart, loiter_placement[hart]->name,
                      task->name);
    loiter_placement[hart] = task;
    placed[task->background]++;
}

// `task.<name>=<hart>[,<hart>...]`, with `name` behind the dot.
static void read_placement(const struct machine *machine, const char *name, const char *equals, const char *end) {
    const struct loiter_task *task = find_task(name, equals);
    const char *at = equals;
    do {
        uint64_t hart;
        at++; // the sign or the comma
        if (!loiter_read_number(&at, end, &hart) || (at < end && *at != ','))
            loiter_refuse("task %s: the harts must be numbers with commas between them, not '%.*s'\n", task->name,
                          (int)(end - equals - 1), equals + 1);
        place(machine, task, hart);
    } while (at < end);
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }

void loiter_read_command_line(const struct machine *machine) {
    static const char prefix[] = "task.";
    enum { PREFIX_LENGTH = sizeof prefix - 1 };
    const char *at = machine->bootargs;

    for (;;) {
        while (is_space(*at))
            at++;
        if (!*at)
            return;
        const char *word = at, *equals = NULL;
        for (; *at && !is_space(*at); at++)
            if (*at == '=' && !equals)
                equals = at;
        if (!equals)
            loiter_refuse("cannot understand '%.*s': the words are task.<name>=<hart>,... and key=value\n",
                          (int)(at - word), word);
        if (equals - word > PREFIX_LENGTH && loiter_same_word(word, word + PREFIX_LENGTH, prefix))
            read_placement(machine, word + PREFIX_LENGTH, equals, at);
        else
            loiter_set_argument(word, equals, at);
    }
}

static void print_usage(void) {
    loiter_print("Command line: task.<name>=<hart>[,<hart>...] ... [key=value ...]\nTasks:\n");
    for (const struct loiter_task *const *link = __loiter_tasks_start; link < __loiter_tasks_end; link++)
        loiter_print("  %s%s\n", (*link)->name, (*link)->background ? " (background)" : "");
    loiter_print("Arguments:\n");
    loiter_list_arguments();
}

unsigned loiter_placed(bool background) { return placed[background]; }

const struct loiter_task *loiter_own_task(void) { return loiter_placement[loiter_hart()]; }

static void __attribute__((noreturn)) run_own_task(void) {
    const struct loiter_task *task = loiter_own_task();
    if (task) {
        task->run();
        if (!task->background && __atomic_sub_fetch(&foreground_left, 1, __ATOMIC_ACQ_REL) == 0)
            loiter_exit(0);
    }
    loiter_park();
}

static struct machine machine;

bool loiter_has_extension(const char *name) {
    for (const char *at = machine.isa; *at; at++) {
        const char *end = at + 1;
        while (*end && *end != '_')
            end++;
        if (*at == '_' && loiter_same_word(at + 1, end, name))
            return true;
        at = end - 1;
    }
    return false;
}

// From start.S on hart 0, with .bss cleared.
void loiter_boot(const void *tree) __attribute__((noreturn));
void loiter_boot(const void *tree) {
    loiter_read_device_tree(tree, &machine);
    loiter_open_heap(&machine);
    loiter_read_command_line(&machine);
    if (!placed[false]) {
        print_usage();
        loiter_refuse(placed[true] ? "only background tasks are placed: nothing would end the run\n"
                                 : "the command line places no task\n");
    }
    foreground_left = placed[false];
    loiter_happen(&booted);
    run_own_task();
}

// From start.S on every other hart. Harts without a task are never woken.
void loiter_secondary(void) __attribute__((noreturn));
void loiter_secondary(void) {
    loiter_wait(&booted);
    run_own_task();
}
