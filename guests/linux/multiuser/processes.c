// Jobs on processes, signals, messages and memory that processes share.
#define _GNU_SOURCE // POSIX, beside C; signal() as BSD has it
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "multiuser.h"

enum { MESSAGE_BYTES = 4096, JUMP_DEPTH = 10 };

// ---- signals and jumps ----

static volatile sig_atomic_t signals;

static void count_signal(int number) {
    (void)number;
    signals++;
}

static void signal_test(struct task *task) {
    (void)task;
    signals = 0;
    if (signal(SIGUSR2, count_signal) == SIG_ERR)
        fail("signal");
    for (int n = 0; n < 1000; n++)
        must("kill", kill(getpid(), SIGUSR2));
    if (signals != 1000)
        fail("signal_test");
}

static jmp_buf place;

static int __attribute__((noinline)) jump_from(int depth) {
    KEEP(depth);
    if (depth < 0)
        return 0;
    if (depth == 0)
        longjmp(place, 1);
    return 1 + jump_from(depth - 1);
}

static void jmp_test(struct task *task) {
    (void)task;
    for (volatile int n = 0; n < 1000; n++)
        if (setjmp(place) == 0 && jump_from(JUMP_DEPTH) >= 0)
            fail("jmp_test");
}

// ---- processes ----

static void wait_for(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        fail("waitpid");
}

static void fork_test(struct task *task) {
    (void)task;
    for (int n = 0; n < 100; n++) {
        pid_t child = (pid_t)must("fork", fork());
        if (child == 0)
            _exit(0);
        wait_for(child);
    }
}

static void exec_test(struct task *task) {
    (void)task;
    for (int n = 0; n < 5; n++) {
        pid_t child = (pid_t)must("fork", fork());
        if (child == 0) {
            execl("/usr/bin/true", "true", (char *)0);
            _exit(1);
        }
        wait_for(child);
    }
}

// What is listed may be gone before it is looked at: the shell succeeds all the same.
static void shell_rtns_1(struct task *task) {
    (void)task;
    if (system("ls -l > /dev/null 2>&1; exit 0") != 0)
        fail("shell_rtns_1");
}

// What programs ask of a system.
static void misc_rtns_1(struct task *task) {
    (void)task;
    for (int n = 0; n < 10; n++) {
        struct utsname name;
        struct tms used;
        if (getuid() != geteuid() || getgid() != getegid() || getpid() == getppid() || !getpgrp())
            fail("misc_rtns_1");
        if (clock() == (clock_t)-1 || times(&used) == (clock_t)-1 || !getenv("PATH"))
            fail("misc_rtns_1");
        must("uname", uname(&name));
        (void)ttyname(STDIN_FILENO);
    }
}

// ---- messages ----

static size_t message_bytes(int n) {
    static const size_t bytes[] = {
        1, 3, 5, 7, 16, 32, 64, 512, 1024, 2048, 4096, 1, 3, 5, 7, 16, 32, 64, 512, 1024, 2048, 4096, 32, 32, 32, 32,
        32, 32, 512, 512, 512, 512, 512, 2048, 2048, 2048, 2048,
    };
    return bytes[(size_t)n % (sizeof bytes / sizeof *bytes)];
}

// Each message is read before the next one is written.
static void exchange(int messages, int to, int from) {
    static char buffer[MESSAGE_BYTES];
    for (int n = 1; n < messages; n++) {
        size_t bytes = message_bytes(n), got = 0;
        if (write(to, buffer, bytes) != (ssize_t)bytes)
            fail("write");
        while (got < bytes)
            got += (size_t)must("read", read(from, buffer + got, bytes - got));
    }
    must("close", close(to));
    must("close", close(from));
}

static void over_sockets(int kind, int messages) {
    int pair[2];
    must("socketpair", socketpair(AF_UNIX, kind, 0, pair));
    exchange(messages, pair[0], pair[1]);
}

static void stream_pipe(struct task *task) {
    (void)task;
    over_sockets(SOCK_STREAM, 100);
}

static void dgram_pipe(struct task *task) {
    (void)task;
    over_sockets(SOCK_DGRAM, 100);
}

static void pipe_cpy(struct task *task) {
    int ends[2];
    (void)task;
    must("pipe", pipe(ends));
    exchange(100, ends[1], ends[0]);
}

// A socket of this host's, at a port that the kernel chooses.
static int bound(int kind, struct sockaddr_in *address) {
    socklen_t bytes = sizeof *address;
    int made = (int)must("socket", socket(AF_INET, kind, 0));
    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must("bind", bind(made, (struct sockaddr *)address, sizeof *address));
    must("getsockname", getsockname(made, (struct sockaddr *)address, &bytes));
    return made;
}

static void udp_test(struct task *task) {
    struct sockaddr_in here, there;
    (void)task;
    int from = bound(SOCK_DGRAM, &here), to = bound(SOCK_DGRAM, &there);
    must("connect", connect(to, (struct sockaddr *)&here, sizeof here));
    exchange(100, to, from);
}

static void tcp_test(struct task *task) {
    struct sockaddr_in here;
    int on = 1;
    (void)task;
    int listening = bound(SOCK_STREAM, &here);
    must("listen", listen(listening, 5));
    int to = (int)must("socket", socket(AF_INET, SOCK_STREAM, 0));
    must("setsockopt", setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    must("connect", connect(to, (struct sockaddr *)&here, sizeof here));
    int from = (int)must("accept", accept(listening, 0, 0));
    exchange(90, to, from);
    must("close", close(listening));
}

// ---- shared memory ----

static void move_semaphore(int semaphore, short by) {
    struct sembuf step = {0, by, 0};
    must("semop", semop(semaphore, &step, 1));
}

static void shared_memory(struct task *task) {
    static char buffer[MESSAGE_BYTES];
    (void)task;
    int segment = (int)must("shmget", shmget(IPC_PRIVATE, MESSAGE_BYTES, 0600));
    int semaphore = (int)must("semget", semget(IPC_PRIVATE, 1, 0600));
    char *shared = shmat(segment, 0, 0);
    if (shared == (void *)-1)
        fail("shmat");
    must("semctl", semctl(semaphore, 0, SETVAL, 1));
    for (int n = 0; n < 100; n++) {
        move_semaphore(semaphore, -1);
        memcpy(shared, buffer, message_bytes(n));
        move_semaphore(semaphore, 1);
        move_semaphore(semaphore, -1);
        memcpy(buffer, shared, message_bytes(n));
        move_semaphore(semaphore, 1);
    }
    must("shmdt", shmdt(shared));
    must("shmctl", shmctl(segment, IPC_RMID, 0));
    must("semctl", semctl(semaphore, 0, IPC_RMID));
}

const struct job process_jobs[] = {
    {"signal_test", signal_test}, {"jmp_test", jmp_test}, {"fork_test", fork_test}, {"exec_test", exec_test},
    {"shell_rtns_1", shell_rtns_1}, {"misc_rtns_1", misc_rtns_1}, {"stream_pipe", stream_pipe},
    {"dgram_pipe", dgram_pipe}, {"pipe_cpy", pipe_cpy}, {"udp_test", udp_test}, {"tcp_test", tcp_test},
    {"shared_memory", shared_memory}, {0, 0},
};
