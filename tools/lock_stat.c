// Threads that duplicate and close files of their process, and make and remove files in one directory:
//
//     lock_stat THREADS ROUNDS
//
// Prints /proc/lock_stat of the region of interest, if the kernel has it.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Probes of guests/runtime/loiter_probe.h.
#define PROBE(number) __asm__ volatile("slti x0, x0, %0" : : "i"(number) : "memory")
#define ROI_BEGIN 0x01
#define ROI_END 0x02

enum { MOST_THREADS = 64, ROUNDS_A_FILE = 4 };

static atomic_int ready, done;
static atomic_bool go, over;
static int rounds;

// Waits without the kernel, whose locks count.
#define UNTIL(condition)                                                                                               \
    while (!(condition)) {                                                                                             \
    }

static void *work(void *number) {
    char path[32];
    snprintf(path, sizeof path, "/tmp/file%d", (int)(intptr_t)number);
    atomic_fetch_add(&ready, 1);
    UNTIL(atomic_load(&go));
    for (int round = 0; round < rounds; round++) {
        close(dup(STDIN_FILENO));
        if (round % ROUNDS_A_FILE == 0) {
            close(open(path, O_CREAT | O_WRONLY, 0600));
            unlink(path);
        }
    }
    atomic_fetch_add(&done, 1);
    UNTIL(atomic_load(&over));
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc == 3 ? atoi(argv[1]) : 0;
    if (threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "usage: lock_stat THREADS ROUNDS\n");
        return 2;
    }
    rounds = atoi(argv[2]);
    // A kernel without LOCK_STAT has neither.
    int counts = open("/proc/lock_stat", O_WRONLY), is_on = open("/proc/sys/kernel/lock_stat", O_WRONLY);
    pthread_t others[MOST_THREADS];
    for (intptr_t number = 0; number < threads; number++) pthread_create(&others[number], NULL, work, (void *)number);
    UNTIL(atomic_load(&ready) == threads);
    if (counts >= 0 && write(counts, "0", 1) != 1) return 1;
    PROBE(ROI_BEGIN);
    atomic_store(&go, 1);
    UNTIL(atomic_load(&done) == threads);
    PROBE(ROI_END);
    if (is_on >= 0 && write(is_on, "0", 1) != 1) return 1;
    atomic_store(&over, 1);
    for (int number = 0; number < threads; number++) pthread_join(others[number], NULL);
    // It has the statistics of when it was opened.
    counts = open("/proc/lock_stat", O_RDONLY);
    static char buffer[1 << 16];
    for (ssize_t bytes; counts >= 0 && (bytes = read(counts, buffer, sizeof buffer)) > 0;)
        fwrite(buffer, 1, bytes, stdout);
    return 0;
}
