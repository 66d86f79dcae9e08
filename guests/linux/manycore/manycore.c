// One process on each of so many CPUs, all doing the same: what S. Boyd-Wickizer, M. F. Kaashoek, R. Morris and
// N. Zeldovich measure in "Non-scalable locks are dangerous", Linux Symposium 2012, in the same four ways.
//
//     manycore fops|mempop|pfind|exim CPUS [OPERATIONS]
//
//     fops      opens and closes one file, which all have in common
//     mempop    maps 64 KiB that are populated at once, and unmaps them
//     pfind     reads a directory of a tree; each process goes round those of its own part
//     exim      takes a message, as a mail server does: a process for the connection writes it to a spool directory that
//               all share; two more processes append it to a mailbox and are gone; it is removed from the spool, and a
//               line is appended to a log that all share
//
// A process stays on its CPU, and so do its children. The region of interest begins when all are ready. Each operation is
// a piece of work, whose probe tells the process; a message is three, one for each process that is gone. Without
// OPERATIONS they work for ever.
//
// Linked without a C library: what a fork copies is the same everywhere, and little.

#define _GNU_SOURCE // AT_FDCWD, O_DIRECTORY
#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "loiter_probe.h"

enum {
    MOST_CPUS = 256,
    MAPPED_BYTES = 64 << 10,
    // Directories of a process, beside the one they are in: more than the 16 blocks that Linux keeps for each CPU apart
    // from the page cache.
    DIRECTORIES = 24,
    FILES = 4,
    // As Exim's spool has: a directory for each letter and digit.
    SPOOL_DIRECTORIES = 62,
    MESSAGE_BYTES = 256,
    DELIVERIES = 2,
};

// Futexes of all processes, in a page of their own.
static volatile struct {
    uint32_t ready, go;
} *shared;

static long call(long number, long a, long b, long c, long d, long e, long f) {
    register long a7 __asm__("a7") = number;
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a3 __asm__("a3") = d;
    register long a4 __asm__("a4") = e;
    register long a5 __asm__("a5") = f;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
    return a0;
}

static void __attribute__((noreturn)) leave(int status) {
    for (;;)
        call(__NR_exit_group, status, 0, 0, 0, 0, 0);
}

// Writes a text behind the first `at` letters of another; how many there are then.
static unsigned append(char *to, unsigned at, const char *text) {
    while (*text)
        to[at++] = *text++;
    to[at] = 0;
    return at;
}

static unsigned append_number(char *to, unsigned at, unsigned long value) {
    char digits[24];
    unsigned count = 0;
    do
        digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count)
        to[at++] = digits[--count];
    to[at] = 0;
    return at;
}

static void __attribute__((noreturn)) fail(const char *what, long error) {
    char text[128];
    unsigned count = append(text, append(text, append(text, 0, "manycore: "), what), ": error ");
    count = append(text, append_number(text, count, (unsigned long)-error), "\n");
    call(__NR_write, 2, (long)text, count, 0, 0, 0);
    leave(1);
}

static long must(const char *what, long result) {
    if (result < 0)
        fail(what, result);
    return result;
}

static long must_open(const char *name, long how) {
    return must(name, call(__NR_openat, AT_FDCWD, (long)name, how, 0600, 0, 0));
}

static void must_close(long file) { must("close", call(__NR_close, file, 0, 0, 0, 0, 0)); }

static void make_directory(const char *name) { must(name, call(__NR_mkdirat, AT_FDCWD, (long)name, 0700, 0, 0, 0)); }

static void must_write(long file, const char *bytes, long count) {
    if (must("write", call(__NR_write, file, (long)bytes, count, 0, 0, 0)) != count)
        fail("short write", 0);
}

// Returns 0 in the child.
static long fork_process(void) { return must("fork", call(__NR_clone, SIGCHLD, 0, 0, 0, 0, 0)); }

static void wait_for_child(void) {
    int status;
    must("wait", call(__NR_wait4, -1, (long)&status, 0, 0, 0, 0));
    if (status != 0)
        leave(1);
}

static long map_shared(unsigned long bytes) {
    return must("mmap", call(__NR_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

// ---- fops: one file ----

static void prepare_fops(unsigned processes) {
    (void)processes;
    must_close(must_open("file", O_CREAT | O_WRONLY));
}

static void fops(unsigned process, unsigned long number) {
    (void)number;
    must_close(must_open("file", O_RDONLY));
    loiter_work_end(process);
}

// ---- mempop: memory ----

static void prepare_mempop(unsigned processes) { (void)processes; }

static void mempop(unsigned process, unsigned long number) {
    (void)number;
    long how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    long at = must("mmap", call(__NR_mmap, 0, MAPPED_BYTES, PROT_READ | PROT_WRITE, how, -1, 0));
    must("munmap", call(__NR_munmap, at, MAPPED_BYTES, 0, 0, 0, 0));
    loiter_work_end(process);
}

// ---- pfind: directories ----

// "PROCESS", or "PROCESS/NUMBER", or a file in it.
static unsigned name_part(char *name, unsigned process) { return append_number(name, 0, process); }

static unsigned name_directory(char *name, unsigned process, unsigned number) {
    return append_number(name, append(name, name_part(name, process), "/"), number);
}

static void prepare_pfind(unsigned processes) {
    char name[64];
    for (unsigned process = 0; process < processes; process++) {
        name_part(name, process);
        make_directory(name);
        for (unsigned number = 0; number < DIRECTORIES; number++) {
            name_directory(name, process, number);
            make_directory(name);
            for (unsigned file = 0; file < FILES; file++) {
                append_number(name, append(name, name_directory(name, process, number), "/"), file);
                must_close(must_open(name, O_CREAT | O_WRONLY));
            }
        }
    }
}

// How many entries a directory has, its own and its parent's among them.
static unsigned entries(const char *name) {
    static char bytes[4096];
    unsigned count = 0;
    long file = must_open(name, O_RDONLY | O_DIRECTORY), read;
    while ((read = must("getdents", call(__NR_getdents64, file, (long)bytes, sizeof bytes, 0, 0, 0))) > 0)
        // An entry's length stands behind its inode and offset.
        for (long at = 0; at < read; count++)
            at += *(uint16_t *)(void *)(bytes + at + 16);
    must_close(file);
    return count;
}

static void pfind(unsigned process, unsigned long number) {
    char name[64];
    unsigned directory = number % (DIRECTORIES + 1);
    bool all = directory == DIRECTORIES;
    if (all)
        name_part(name, process);
    else
        name_directory(name, process, directory);
    if (entries(name) != (all ? DIRECTORIES : FILES) + 2)
        fail("entries of a directory", 0);
    loiter_work_end(process);
}

// ---- exim: messages ----

static void prepare_exim(unsigned processes) {
    char name[64];
    make_directory("spool");
    for (unsigned number = 0; number < SPOOL_DIRECTORIES; number++) {
        append_number(name, append(name, 0, "spool/"), number);
        make_directory(name);
    }
    make_directory("mail");
    for (unsigned process = 0; process < processes; process++) {
        append_number(name, append(name, 0, "mail/"), process);
        must_close(must_open(name, O_CREAT | O_WRONLY));
    }
    must_close(must_open("log", O_CREAT | O_WRONLY));
}

static void append_to(const char *name, const char *bytes, long count) {
    long file = must_open(name, O_WRONLY | O_APPEND);
    must_write(file, bytes, count);
    must_close(file);
}

static void __attribute__((noreturn)) take_message(unsigned process, unsigned long number) {
    static char message[MESSAGE_BYTES];
    char spooled[64], mailbox[64];
    // Messages one after another are in directories one after another.
    unsigned at = append_number(spooled, append(spooled, 0, "spool/"), (process + number) % SPOOL_DIRECTORIES);
    append_number(spooled, append(spooled, at, "/"), process);
    append_number(mailbox, append(mailbox, 0, "mail/"), process);
    long file = must_open(spooled, O_CREAT | O_EXCL | O_WRONLY);
    must_write(file, message, sizeof message);
    must_close(file);
    for (unsigned delivery = 0; delivery < DELIVERIES; delivery++) {
        if (fork_process() == 0) {
            if (delivery == 0)
                append_to(mailbox, message, sizeof message);
            leave(0);
        }
        wait_for_child();
        loiter_work_end(process);
    }
    must("unlink", call(__NR_unlinkat, AT_FDCWD, (long)spooled, 0, 0, 0, 0));
    append_to("log", message, 32);
    leave(0);
}

static void exim(unsigned process, unsigned long number) {
    if (fork_process() == 0)
        take_message(process, number);
    wait_for_child();
    loiter_work_end(process);
}

// ---- all of them ----

static const struct workload {
    const char *name, *directory;
    void (*prepare)(unsigned processes), (*operation)(unsigned process, unsigned long number);
} workloads[] = {
    {"fops", "/tmp/manycore", prepare_fops, fops},
    {"mempop", "/tmp/manycore", prepare_mempop, mempop},
    // On the disk's file system: it reads directories from the page cache, as a memory file system does not.
    {"pfind", "/var/manycore", prepare_pfind, pfind},
    {"exim", "/tmp/manycore", prepare_exim, exim},
};

static void stay_on(unsigned cpu) {
    uint64_t cpus[MOST_CPUS / 64] = {0};
    cpus[cpu / 64] = UINT64_C(1) << cpu % 64;
    must("sched_setaffinity", call(__NR_sched_setaffinity, 0, sizeof cpus, (long)cpus, 0, 0, 0));
}

static void __attribute__((noreturn)) work(const struct workload *workload, unsigned process, unsigned long operations) {
    stay_on(process);
    __atomic_fetch_add(&shared->ready, 1, __ATOMIC_RELEASE);
    // FUTEX_WAIT: each sleeps, so that the first ones do not keep their CPU from work that is still to be done.
    while (!__atomic_load_n(&shared->go, __ATOMIC_ACQUIRE))
        call(__NR_futex, (long)&shared->go, 0, 0, 0, 0, 0);
    for (unsigned long number = 0; operations == 0 || number < operations; number++)
        workload->operation(process, number);
    leave(0);
}

static bool same(const char *one, const char *other) {
    while (*one && *one == *other)
        one++, other++;
    return *one == *other;
}

static unsigned long number_of(const char *word) {
    unsigned long value = 0;
    for (; *word >= '0' && *word <= '9'; word++)
        value = value * 10 + (unsigned long)(*word - '0');
    return *word ? 0 : value;
}

static const struct workload *named(const char *word) {
    for (unsigned at = 0; at < sizeof workloads / sizeof *workloads; at++)
        if (same(word, workloads[at].name))
            return &workloads[at];
    return 0;
}

// Called with the stack as the kernel has it: the count of words, and they.
void __attribute__((noreturn)) begin(long *stack);
void __attribute__((noreturn)) begin(long *stack) {
    char **words = (char **)(stack + 1);
    const struct workload *workload = stack[0] > 1 ? named(words[1]) : 0;
    unsigned long processes = stack[0] > 2 ? number_of(words[2]) : 0;
    unsigned long operations = stack[0] > 3 ? number_of(words[3]) : 0;
    if (!workload || processes < 1 || processes > MOST_CPUS || stack[0] > 4 || (stack[0] == 4 && !operations)) {
        static const char usage[] = "usage: manycore fops|mempop|pfind|exim CPUS [OPERATIONS]\n";
        call(__NR_write, 2, (long)usage, sizeof usage - 1, 0, 0, 0);
        leave(2);
    }
    shared = (void *)map_shared(sizeof *shared);
    make_directory(workload->directory);
    must("chdir", call(__NR_chdir, (long)workload->directory, 0, 0, 0, 0, 0));
    workload->prepare((unsigned)processes);
    for (unsigned process = 0; process < processes; process++)
        if (fork_process() == 0)
            work(workload, process, operations);
    while (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) < processes)
        call(__NR_sched_yield, 0, 0, 0, 0, 0, 0);
    loiter_roi_begin();
    __atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
    // FUTEX_WAKE.
    must("futex", call(__NR_futex, (long)&shared->go, 1, MOST_CPUS, 0, 0, 0));
    for (unsigned long ended = 0; ended < processes; ended++)
        wait_for_child();
    loiter_roi_end();
    leave(0);
}

__asm__(".globl _start\n_start:\n.option push\n.option norelax\nlla gp, __global_pointer$\n.option pop\nmv a0, sp\nandi sp, sp, -16\ncall begin\n");
