// Jobs on memory: blocks, strings, sorting, and pages from the kernel.
#define _GNU_SOURCE // sbrk, beside C
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "multiuser.h"

enum {
    STRINGS = 100,
    SORTED = 10000,
    SIEVED = 1000000,
    PRIMES_BELOW_SIEVED = 78498,
    PAGE_BYTES = 4096,
    PAGES = 16,
    HEAP_BYTES = 1 << 20,
};

// Mostly small ones.
static const size_t block_bytes[] = {
    1, 3, 5, 7, 9, 11, 33, 65, 129, 1024, 1025, 1023, 8192, 4096, 4095, 11, 33, 65, 129, 1024,
};
enum { BLOCKS = sizeof block_bytes / sizeof *block_bytes };

static void mem_rtns_1(struct task *task) {
    static const char text[] = "Some words of about the length of a line in a log";
    (void)task;
    for (int n = 0; n < 100; n++) {
        char *blocks[3 * STRINGS];
        for (int at = 0; at < STRINGS; at++) {
            blocks[3 * at] = malloc(sizeof text);
            blocks[3 * at + 1] = malloc(block_bytes[at % BLOCKS]);
            blocks[3 * at + 2] = calloc(block_bytes[(at + 1) % BLOCKS], 1);
            if (!blocks[3 * at] || !blocks[3 * at + 1] || !blocks[3 * at + 2])
                fail("mem_rtns_1");
            if (strlen(strcpy(blocks[3 * at], text)) != sizeof text - 1)
                fail("mem_rtns_1");
        }
        for (int at = 0; at < 3 * STRINGS; at++)
            KEEP(*blocks[at]);
        for (int at = STRINGS - 1; at >= 0; at--) {
            free(blocks[3 * at]);
            free(blocks[3 * at + 2]);
            free(blocks[3 * at + 1]);
        }
    }
}

static void mem_rtns_2(struct task *task) {
    static char from[8192 + 8], to[8192 + 8];
    (void)task;
    for (int n = 0; n < 100; n++) {
        char *one = from + n % 8, *other = to + n / 8 % 8;
        size_t bytes = block_bytes[n % BLOCKS], at = (size_t)n % bytes;
        memset(one, 'A', bytes);
        memset(other, 'A', bytes);
        one[at] = 'Z';
        if (memchr(one, 'Z', bytes) != one + at || memcmp(one, other, bytes) <= 0)
            fail("mem_rtns_2");
        memcpy(other, one, bytes);
        memmove(from + n / 8 % 8, from + n % 8, bytes);
    }
}

static void ram_copy(struct task *task) {
    static const size_t bytes[] = {
        1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7, 8, 9, 11, 17, 33, 63, 7, 7, 7, 7, 7, 7, 127, 256, 1001, 1200, 1492, 1500,
        1024, 2048, 3172, 4096, 8192, 16384, 32768, 65536, 512, 7, 7,
    };
    static char from[65536 + 8], to[65536 + 8];
    (void)task;
    for (size_t n = 0; n < 100; n++) {
        memcpy(to + n % 8, from + n / 8 % 8, bytes[n % (sizeof bytes / sizeof *bytes)]);
        KEEP(to[n]);
    }
}

static int rising(const void *one, const void *other) { return *(const int *)one - *(const int *)other; }
static int falling(const void *one, const void *other) { return *(const int *)other - *(const int *)one; }

static void sort_rtns_1(struct task *task) {
    static int table[SORTED];
    (void)task;
    for (int at = 0; at < SORTED; at++)
        table[at] = at;
    for (int n = 0; n < 2; n++) {
        qsort(table, SORTED, sizeof *table, rising);
        qsort(table, SORTED, sizeof *table, falling);
        qsort(table, SORTED, sizeof *table, rising);
        int found = 0;
        for (int wanted = 0; wanted < 2 * SORTED; wanted += 10)
            found += bsearch(&wanted, table, SORTED, sizeof *table, rising) != 0;
        if (found != SORTED / 10)
            fail("sort_rtns_1");
    }
}

static void string_rtns(struct task *task) {
    char text[256], joined[1024];
    (void)task;
    for (int n = 0; n < 100; n++) {
        snprintf(text, sizeof text, "%g", n / 1000.0);
        if (atof(text) != strtod(text, 0))
            fail("string_rtns");
        snprintf(text, sizeof text, "%d", 10 * n);
        if (atol(text) != strtol(text, 0, 10) || atoi(text) != 10 * n)
            fail("string_rtns");
        int kinds = 0;
        for (int at = 1; at < 128; at++)
            kinds += !!isalnum(at) + !!isalpha(at) + !!iscntrl(at) + !!isdigit(at) + !!isgraph(at) + !!islower(at) +
                     !!isprint(at) + !!ispunct(at) + !!isspace(at) + !!isupper(at) + !!isxdigit(at);
        if (kinds != 62 + 52 + 32 + 10 + 94 + 26 + 95 + 32 + 6 + 26 + 22)
            fail("string_rtns");
        joined[0] = 0;
        while (strlen(joined) + strlen("Who waits?") < sizeof joined)
            if (strcmp(strcat(joined, "Who waits?"), "Who waits?") < 0)
                fail("string_rtns");
        if (strchr(joined, '?') != joined + 9 || strstr(joined, "waits") != joined + 4)
            fail("string_rtns");
    }
}

static void sieve(struct task *task) {
    char *composite = malloc(SIEVED);
    (void)task;
    if (!composite)
        fail("sieve");
    for (int n = 0; n < 5; n++) {
        int primes = 0;
        memset(composite, 0, SIEVED);
        for (int number = 2; number < SIEVED; number++)
            if (!composite[number]) {
                primes++;
                for (int multiple = 2 * number; multiple < SIEVED; multiple += number)
                    composite[multiple] = 1;
            }
        if (primes != PRIMES_BELOW_SIEVED)
            fail("sieve");
    }
    free(composite);
}

static void *move_break(long bytes) {
    void *before = sbrk(bytes);
    if (before == (void *)-1)
        fail("sbrk");
    return before;
}

// Gives memory back to the kernel and takes it again, page by page, which are written or not.
static void take_pages(int times, bool touched) {
    move_break(HEAP_BYTES);
    for (int n = 0; n < times; n++) {
        move_break(-(long)PAGES * PAGE_BYTES);
        for (int page = 0; page < PAGES; page++) {
            volatile char *taken = move_break(PAGE_BYTES);
            for (int at = 0; touched && at < PAGE_BYTES; at += 128)
                taken[at] = ' ';
        }
    }
    move_break(-(long)HEAP_BYTES);
}

static void page_test(struct task *task) {
    (void)task;
    take_pages(100, true);
}

static void brk_test(struct task *task) {
    (void)task;
    take_pages(1000, false);
}

const struct job memory_jobs[] = {
    {"mem_rtns_1", mem_rtns_1}, {"mem_rtns_2", mem_rtns_2}, {"ram_copy", ram_copy}, {"sort_rtns_1", sort_rtns_1},
    {"string_rtns", string_rtns}, {"sieve", sieve}, {"page_test", page_test}, {"brk_test", brk_test}, {0, 0},
};
