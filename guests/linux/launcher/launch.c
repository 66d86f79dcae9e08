// Starts the program of `loiter exec` in the guest, and tells the simulator where it begins and when it has ended.
//
//     launch run PROGRAM [ARGS]        becomes the program
//     launch process PROGRAM [ARGS]    starts it; the region of interest begins at its first instruction in user mode
//     launch main PROGRAM [ARGS]       the same, but at its function main
//
// It traces the program only until then: execve stops a traced child before it executes anything. The region ends when
// the program and all its threads have. The exit status is the program's; a signal that ended it ends us. As shells do,
// 127 says that there is no such program and 126 that it cannot be run; 125 is a fault of ours.
//
// Linked without a C library, so that it starts at once and fits any root file system.

#define _GNU_SOURCE // AT_FDCWD
#include <asm/ptrace.h>
#include <asm/unistd.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "loiter_probe.h"

enum { OURS = 125, CANNOT_RUN = 126, NOT_FOUND = 127 };

// Requests of ptrace, as linux/ptrace.h has them; the C library's header declares them for its own function.
enum { TRACE_ME = 0, PEEK_TEXT = 1, POKE_TEXT = 4, CONTINUE = 7, DETACH = 17, GET_REGISTERS = 0x4204 };

#define MAX_PATH 4096
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static long call(long number, long a, long b, long c, long d, long e) {
    register long a7 __asm__("a7") = number;
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a3 __asm__("a3") = d;
    register long a4 __asm__("a4") = e;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4) : "memory");
    return a0;
}

static void __attribute__((noreturn)) leave(int status) {
    for (;;)
        call(__NR_exit_group, status, 0, 0, 0, 0);
}

static size_t length(const char *text) {
    size_t count = 0;
    while (text[count])
        count++;
    return count;
}

static bool same(const char *one, const char *other) {
    while (*one && *one == *other)
        one++, other++;
    return *one == *other;
}

// Copies a text behind the first `at` letters of another; how many there are then.
static size_t append(char *to, size_t at, const char *text) {
    do
        to[at++] = *text;
    while (*text++);
    return at - 1;
}

static void say(const char *text) { call(__NR_write, 2, (long)text, (long)length(text), 0, 0); }

static void __attribute__((noreturn)) fail(int status, const char *program, const char *problem) {
    say(program);
    say(": ");
    say(problem);
    say("\n");
    leave(status);
}

// --- the program -----------------------------------------------------------------------------------------------------

static const char *variable(char **environment, const char *name) {
    size_t count = length(name);
    for (; *environment; environment++) {
        size_t at = 0;
        while (at < count && (*environment)[at] == name[at])
            at++;
        if (at == count && (*environment)[at] == '=')
            return *environment + at + 1;
    }
    return NULL;
}

static bool is_file(const char *path) {
    struct stat facts;
    return call(__NR_newfstatat, AT_FDCWD, (long)path, (long)&facts, 0, 0) == 0 && S_ISREG(facts.st_mode);
}

static bool is_executable(const char *path) { return call(__NR_faccessat, AT_FDCWD, (long)path, 1, 0, 0) == 0; }

// The file of a program. A name without a slash is looked for in PATH.
static const char *find(const char *program, char **environment) {
    static char path[MAX_PATH];
    for (const char *at = program; *at; at++)
        if (*at == '/')
            return program;
    const char *places = variable(environment, "PATH");
    bool there = false;
    for (const char *at = places ? places : DEFAULT_PATH; *at;) {
        size_t count = 0;
        while (at[count] && at[count] != ':')
            count++;
        if (count + 1 + length(program) < MAX_PATH) {
            size_t to = 0;
            for (; to < count; to++)
                path[to] = at[to];
            path[to++] = '/';
            append(path, to, program);
            if (is_file(path) && is_executable(path))
                return path;
            there = there || is_file(path);
        }
        at += count + (at[count] == ':');
    }
    if (there)
        fail(CANNOT_RUN, program, "Permission denied");
    fail(NOT_FOUND, program, "not found in the guest; a program of yours is given as ./PROGRAM, or put there by --put");
}

// Becomes the program. A file that is no program is a script of the shell, as shells have it.
static void __attribute__((noreturn)) become(const char *path, char **arguments, char **environment) {
    static const char *shell[MAX_PATH];
    const char *program = arguments[0];
    long error = -call(__NR_execve, (long)path, (long)arguments, (long)environment, 0, 0);
    if (error == ENOEXEC) {
        size_t count = 0;
        shell[count++] = "sh";
        shell[count++] = path;
        for (char **each = arguments + 1; *each && count < MAX_PATH - 1; each++)
            shell[count++] = *each;
        error = -call(__NR_execve, (long)"/bin/sh", (long)shell, (long)environment, 0, 0);
    }
    if (error == ENOENT && is_file(path))
        fail(NOT_FOUND, program, "its interpreter or dynamic linker is not in the guest");
    if (error == ENOENT || error == ENOTDIR)
        fail(NOT_FOUND, program, "no such file in the guest; a program of yours is given as ./PROGRAM");
    if (error == EACCES)
        fail(CANNOT_RUN, program, is_file(path) ? "Permission denied" : "not a file");
    if (error == E2BIG)
        fail(CANNOT_RUN, program, "Argument list too long");
    fail(CANNOT_RUN, program, "cannot be run");
}

// --- where it begins -------------------------------------------------------------------------------------------------

static long child;

static long trace(long request, unsigned long address, unsigned long data) {
    return call(__NR_ptrace, request, child, (long)address, (long)data, 0);
}

// Waits until the child stops, or has ended; its wait status.
static int await(void) {
    int status = 0;
    while (call(__NR_wait4, child, (long)&status, 0, 0, 0) == -EINTR)
        ;
    return status;
}

static bool has_stopped(int status) { return (status & 0xff) == 0x7f; }

// Eight bytes of the child's memory.
static bool peek(uint64_t address, uint64_t *value) { return trace(PEEK_TEXT, address, (unsigned long)value) == 0; }

static bool program_counter(uint64_t *address) {
    struct user_regs_struct registers;
    struct {
        void *base;
        size_t bytes;
    } where = {&registers, sizeof registers};
    if (trace(GET_REGISTERS, NT_PRSTATUS, (unsigned long)&where) != 0)
        return false;
    *address = registers.pc;
    return true;
}

// The address at which the child's own code begins, behind the dynamic linker: AT_ENTRY of its auxiliary vector.
static bool entry(uint64_t *address) {
    char path[64], digits[24];
    size_t count = 0, to = append(path, 0, "/proc/");
    for (long left = child; left; left /= 10)
        digits[count++] = (char)('0' + left % 10);
    while (count)
        path[to++] = digits[--count];
    append(path, to, "/auxv");
    long file = call(__NR_openat, AT_FDCWD, (long)path, O_RDONLY, 0, 0);
    uint64_t entry_of_vector[2];
    bool found = false;
    while (!found && call(__NR_read, file, (long)entry_of_vector, sizeof entry_of_vector, 0, 0) ==
                         (long)sizeof entry_of_vector)
        found = entry_of_vector[0] == AT_ENTRY;
    call(__NR_close, file, 0, 0, 0, 0);
    *address = entry_of_vector[1];
    return found;
}

// Lets the child run until it comes to an address. False if it ends before; `status` has how.
static bool run_to(uint64_t address, int *status) {
    const uint64_t breakpoint = 0x9002; // c.ebreak
    uint64_t original, at = 0;
    if (!program_counter(&at) || at == address)
        return at == address;
    if (!peek(address, &original) || trace(POKE_TEXT, address, (original & ~(uint64_t)0xffff) | breakpoint) != 0)
        return false;
    unsigned long signal = 0;
    do {
        trace(CONTINUE, 0, signal);
        *status = await();
        if (!has_stopped(*status))
            return false;
        signal = (unsigned long)*status >> 8 & 0xff;
    } while (signal != SIGTRAP || !program_counter(&at) || at != address);
    return trace(POKE_TEXT, address, original) == 0;
}

static int64_t upper(uint32_t instruction) { return (int32_t)(instruction & 0xfffff000); }

static int64_t lower(uint32_t instruction) { return (int32_t)instruction >> 20; }

// The address of main. The start code of a C library loads it into a0, the first argument of __libc_start_main
// (glibc's sysdeps/riscv/start.S): auipc or lui, then addi, or ld where main has its address in the global offset table.
static bool find_main(uint64_t start, uint64_t *address) {
    const uint32_t a0 = 10;
    uint64_t value = 0, pc = start;
    bool known = false;
    for (int count = 0; count < 32; count++) {
        uint64_t bytes;
        if (!peek(pc, &bytes))
            return false;
        uint32_t word = (uint32_t)bytes;
        if ((word & 3) != 3) {
            pc += 2;
            continue;
        }
        uint32_t opcode = word & 0x7f, rd = word >> 7 & 31, funct3 = word >> 12 & 7, rs1 = word >> 15 & 31;
        bool calls = opcode == 0x67 || opcode == 0x6f;
        if (calls && known)
            break;
        if (rd == a0 && opcode == 0x17) { // auipc
            value = pc + (uint64_t)upper(word);
        } else if (rd == a0 && opcode == 0x37) { // lui
            value = (uint64_t)upper(word);
        } else if (rd == a0 && rs1 == a0 && funct3 == 0 && opcode == 0x13) { // addi
            value += (uint64_t)lower(word);
            known = true;
        } else if (rd == a0 && rs1 == a0 && funct3 == 3 && opcode == 0x03) { // ld
            if (!peek(value + (uint64_t)lower(word), &value))
                return false;
            known = true;
        }
        pc += 4;
    }
    *address = value;
    return known && peek(value, &value);
}

// --- the life of the program -----------------------------------------------------------------------------------------

// Ends as the child has ended.
static void __attribute__((noreturn)) end_as(int status) {
    int signal = status & 0x7f;
    if (signal == 0)
        leave(status >> 8 & 0xff);
    // No core of ours beside that of the program.
    const struct {
        uint64_t now, most;
    } none = {0, 0};
    call(__NR_prlimit64, 0, 4 /* RLIMIT_CORE */, (long)&none, 0, 0);
    call(__NR_kill, call(__NR_getpid, 0, 0, 0, 0, 0), signal, 0, 0, 0);
    leave(128 + signal);
}

static void __attribute__((noreturn)) give_up(const char *program, const char *problem) {
    call(__NR_kill, child, SIGKILL, 0, 0, 0);
    await();
    fail(OURS, program, problem);
}

static void __attribute__((noreturn)) start(const char *path, bool from_main, char **arguments, char **environment) {
    child = call(__NR_clone, SIGCHLD, 0, 0, 0, 0);
    if (child < 0)
        fail(OURS, arguments[0], "the guest has no room for another process");
    if (child == 0) {
        call(__NR_ptrace, TRACE_ME, 0, 0, 0, 0);
        become(path, arguments, environment);
    }
    int status = await();
    if (!has_stopped(status)) // It could not be run, and has said so.
        end_as(status);
    uint64_t begin;
    if (!program_counter(&begin))
        give_up(arguments[0], "cannot be traced");
    if (from_main) {
        uint64_t first;
        if (!entry(&first))
            give_up(arguments[0], "has no auxiliary vector");
        if (!run_to(first, &status)) {
            if (!has_stopped(status))
                end_as(status);
            give_up(arguments[0], "cannot be traced to its entry");
        }
        if (!find_main(first, &begin))
            give_up(arguments[0], "its function main is not found: it does not begin as C programs do; --roi process "
                                  "times it from its first instruction");
    }
    loiter_program_begin(begin);
    trace(DETACH, 0, 0);
    status = await();
    loiter_program_end();
    end_as(status);
}

__attribute__((used, noreturn)) static void launch(const uint64_t *stack) {
    char **arguments = (char **)(uintptr_t)(stack + 1);
    char **environment = arguments + stack[0] + 1;
    if (stack[0] < 3)
        fail(OURS, "launch", "usage: launch run|process|main PROGRAM [ARGS]");
    const char *mode = arguments[1];
    char **command = arguments + 2;
    const char *path = find(command[0], environment);
    if (same(mode, "run"))
        become(path, command, environment);
    start(path, same(mode, "main"), command, environment);
}

__asm__(".globl _start\n"
        "_start:\n"
        "    mv a0, sp\n"
        "    andi sp, sp, -16\n"
        "    tail launch\n");
