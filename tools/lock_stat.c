#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// guests/runtime/loiter_probe.h
#define PROBE(number) __asm__ volatile("slti x0, x0, %0" : : "i"(number) : "memory")

static atomic_int ready, done, go;
static int rounds;

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    if (fd < 0) return; // a kernel without LOCK_STAT
    if (write(fd, text, strlen(text)) < 0) perror(path);
    close(fd);
}

static void show(const char *path) {
    static char buffer[1 << 16];
    int fd = open(path, O_RDONLY);
    if (fd < 0) return;
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) fwrite(buffer, 1, n, stdout);
    close(fd);
}

static void *work(void *number) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/file%d", (int)(intptr_t)number);
    atomic_fetch_add(&ready, 1);
    while (!atomic_load(&go)) {}
    for (int n = 0; n < rounds; n++) {
        close(dup(0));
        if (n % 4 == 0) {
            close(open(path, O_CREAT | O_WRONLY, 0600));
            unlink(path);
        }
    }
    atomic_fetch_add(&done, 1);
    return NULL;
}

int main(int argc, char **argv) {
    int threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    pthread_t other[64];
    for (intptr_t n = 1; n < threads; n++) pthread_create(&other[n], NULL, work, (void *)n);
    while (atomic_load(&ready) < threads - 1) {}
    put("/proc/lock_stat", "0");
    PROBE(1);
    atomic_store(&go, 1);
    work(NULL);
    while (atomic_load(&done) < threads) {}
    PROBE(2);
    put("/proc/sys/kernel/lock_stat", "0");
    for (int n = 1; n < threads; n++) pthread_join(other[n], NULL);
    show("/proc/lock_stat");
}
