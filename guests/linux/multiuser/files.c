// Jobs on files and directories, in the directory in which all users work.
#define _GNU_SOURCE // POSIX, beside C
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "multiuser.h"

enum {
    BLOCK_BYTES = 1024,
    NAME_BYTES = 128,
    CREATED = 1000,
    LINKS = 7,
    LINK_ROUNDS = 9,
    ENTRIES_READ = 10000,
    // A search goes through so many files of the tree, and makes so many.
    SEARCHED = 57,
    MADE = 43,
    DEPTH = 6,
    DIRECTORIES_OF_A_LEVEL = 4,
};

static char block[BLOCK_BYTES];

static void name_of(char *name, const struct task *task, const char *what) {
    snprintf(name, NAME_BYTES, "%s%u", what, task->number);
}

static int must_open(const char *name, int flags) { return (int)must(name, open(name, flags, 0777)); }

static void must_close(int file) { must("close", close(file)); }

static void must_remove(const char *name) { must("unlink", unlink(name)); }

static void write_block(int file) {
    if (write(file, block, BLOCK_BYTES) != BLOCK_BYTES)
        fail("write");
}

static void read_block(int file) {
    if (read(file, block, BLOCK_BYTES) != BLOCK_BYTES)
        fail("read");
}

static void seek_block(int file, struct task *task, unsigned long blocks) {
    must("lseek", lseek(file, (off_t)(draw(task) % blocks * BLOCK_BYTES), SEEK_SET));
}

// By a command, as a user does it.
static void sync_all(void) {
    if (system("sync") != 0)
        fail("sync");
}

static void write_blocks(const char *name, int flags, unsigned long blocks) {
    int file = must_open(name, flags | O_WRONLY | O_CREAT | O_TRUNC);
    for (unsigned long n = 0; n < blocks; n++)
        write_block(file);
    must_close(file);
}

// ---- files that are written, read and removed ----

static void read_all(struct task *task, const char *what, bool at_random) {
    char name[NAME_BYTES];
    name_of(name, task, what);
    write_blocks(name, 0, task->file_kib);
    sync_all();
    int file = must_open(name, O_RDONLY);
    for (unsigned long n = 0; n < task->file_kib; n++) {
        if (at_random)
            seek_block(file, task, task->file_kib);
        read_block(file);
    }
    must_close(file);
    must_remove(name);
    sync_all();
}

static void disk_rd(struct task *task) { read_all(task, "rd", false); }

static void disk_rr(struct task *task) { read_all(task, "rr", true); }

static void write_at_random(struct task *task, const char *what, int flags, unsigned long blocks, bool reads) {
    char name[NAME_BYTES];
    name_of(name, task, what);
    write_blocks(name, 0, blocks);
    if (!flags)
        sync_all();
    int file = must_open(name, flags | O_RDWR);
    for (unsigned long n = 0; n < blocks; n++) {
        seek_block(file, task, blocks);
        if (reads)
            read_block(file);
        write_block(file);
    }
    must_close(file);
    must_remove(name);
    if (!flags)
        sync_all();
}

static void disk_rw(struct task *task) { write_at_random(task, "rw", 0, task->file_kib, false); }

static void disk_wrt(struct task *task) {
    char name[NAME_BYTES];
    name_of(name, task, "wrt");
    write_blocks(name, 0, task->file_kib);
    must_remove(name);
    sync_all();
}

static void copy(const struct task *task, const char *what, int flags, unsigned long blocks) {
    char name[NAME_BYTES];
    name_of(name, task, what);
    int from = must_open(COMMON_FILE, O_RDONLY), to = must_open(name, flags | O_WRONLY | O_CREAT | O_TRUNC);
    for (unsigned long n = 0; n < blocks; n++) {
        read_block(from);
        write_block(to);
    }
    must_close(from);
    must_close(to);
    must_remove(name);
}

static void disk_cp(struct task *task) {
    copy(task, "cp", 0, task->file_kib);
    sync_all();
}

// Half as many blocks, each of which is on the disk when its write returns.
static unsigned long synchronous_blocks(const struct task *task) { return 1 + task->file_kib / 2; }

static void sync_disk_cp(struct task *task) { copy(task, "scp", O_SYNC, synchronous_blocks(task)); }

static void sync_disk_rw(struct task *task) { write_at_random(task, "srw", O_SYNC, synchronous_blocks(task), false); }

static void sync_disk_update(struct task *task) {
    write_at_random(task, "sup", O_SYNC, synchronous_blocks(task), true);
}

static void sync_disk_wrt(struct task *task) {
    char name[NAME_BYTES];
    name_of(name, task, "swrt");
    write_blocks(name, O_SYNC, synchronous_blocks(task));
    must_remove(name);
}

// ---- directories ----

static void creat_clo(struct task *task) {
    char name[NAME_BYTES];
    name_of(name, task, "creat");
    for (int n = 0; n < CREATED; n++)
        must_close(must_open(name, O_WRONLY | O_CREAT | O_TRUNC));
    must_remove(name);
}

static void link_test(struct task *task) {
    char first[NAME_BYTES], links[LINKS][NAME_BYTES];
    name_of(first, task, "link");
    must_close(must_open(first, O_WRONLY | O_CREAT | O_TRUNC));
    for (int at = 0; at < LINKS; at++) {
        snprintf(links[at], NAME_BYTES, "link%u-%d", task->number, at);
        must("link", link(first, links[at]));
    }
    for (int n = 0; n < LINK_ROUNDS; n++)
        for (int at = 0; at < LINKS; at++) {
            must_remove(links[at]);
            must("link", link(first, links[at]));
        }
    for (int at = 0; at < LINKS; at++)
        must_remove(links[at]);
    must_remove(first);
}

static void dir_rtns_1(struct task *task) {
    DIR *directory = opendir("/usr/bin");
    (void)task;
    if (!directory)
        fail("opendir");
    bool one = false;
    for (int n = 0; n < ENTRIES_READ; n++) {
        if (readdir(directory))
            one = true;
        else
            rewinddir(directory);
    }
    if (!one)
        fail("readdir");
    must("closedir", closedir(directory));
}

// A directory of the tree, at one of its depths.
static void directory_of(char *name, unsigned at) {
    int end = snprintf(name, NAME_BYTES, "tree");
    for (unsigned depth = 0; depth < at % DEPTH; depth++)
        end += snprintf(name + end, (size_t)(NAME_BYTES - end), "/d%u", (at / DEPTH + depth) % DIRECTORIES_OF_A_LEVEL);
}

static void searched_file(char *name, unsigned at) {
    directory_of(name, at);
    size_t end = strlen(name);
    snprintf(name + end, NAME_BYTES - end, "/file%u", at);
}

void make_common_files(unsigned long kib) {
    char name[NAME_BYTES];
    write_blocks(COMMON_FILE, 0, kib);
    for (unsigned at = 0; at < SEARCHED + MADE; at++) {
        directory_of(name, at);
        for (char *end = name;; end++)
            if (*end == '/' || *end == 0) {
                char letter = *end;
                *end = 0;
                (void)mkdir(name, 0777); // may be there
                *end = letter;
                if (letter == 0)
                    break;
            }
    }
    for (unsigned at = 0; at < SEARCHED; at++) {
        searched_file(name, at);
        write_blocks(name, 0, 1);
    }
}

// Looks for files all over a tree, and makes some that are removed at once.
static void disk_src(struct task *task) {
    unsigned first = (unsigned)draw(task);
    for (unsigned n = 0; n < SEARCHED; n++) {
        char name[NAME_BYTES];
        struct stat found;
        searched_file(name, (first + n) % SEARCHED);
        must("stat", stat(name, &found));
        if (n >= MADE)
            continue;
        directory_of(name, first % SEARCHED + n);
        size_t end = strlen(name);
        snprintf(name + end, NAME_BYTES - end, "/made%u", task->number);
        must_close(must_open(name, O_WRONLY | O_CREAT | O_TRUNC));
        must_remove(name);
    }
}

const struct job file_jobs[] = {
    {"disk_rd", disk_rd}, {"disk_rr", disk_rr}, {"disk_rw", disk_rw}, {"disk_wrt", disk_wrt}, {"disk_cp", disk_cp},
    {"disk_src", disk_src}, {"sync_disk_rw", sync_disk_rw}, {"sync_disk_wrt", sync_disk_wrt},
    {"sync_disk_cp", sync_disk_cp}, {"sync_disk_update", sync_disk_update}, {"creat_clo", creat_clo},
    {"link_test", link_test}, {"dir_rtns_1", dir_rtns_1}, {0, 0},
};
