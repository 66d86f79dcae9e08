// What the jobs of `multiuser` have in common.
#ifndef MULTIUSER_H
#define MULTIUSER_H

#include <stdint.h>

// A user: a process that does one job after the other.
struct task {
    unsigned number;
    uint64_t random;
    // Of the files that its jobs write.
    unsigned long file_kib;
};

struct job {
    const char *name;
    void (*run)(struct task *task);
};

// Each ends with a job without a name.
extern const struct job arithmetic_jobs[], numeric_jobs[], memory_jobs[], file_jobs[], process_jobs[];

// A file that all copy from, in the directory of all.
#define COMMON_FILE "common"
void make_common_files(unsigned long kib);

uint64_t draw(struct task *task);
// Ends the task, and with it the program, with status 1.
void __attribute__((noreturn)) fail(const char *what);
// A system call that must succeed. Returns its result.
long must(const char *what, long result);

// The compiler does not know what the variable holds from here on.
#define KEEP(variable) __asm__ volatile("" : "+r"(variable))
#define KEEP_FLOAT(variable) __asm__ volatile("" : "+f"(variable))

#endif
