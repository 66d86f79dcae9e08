// Where a wrapped program's statistics go: a file that is mapped into it, so that they are there however it ends.
//
//     header | MOST_CLASSES classes | uses, as many as the header says        all little-endian words of 64 bits
//
// A class is all mutexes that were first seen at one place of the program, as the classes of /proc/lock_stat. A use is one
// thread's of one class. python/loiter/native/wrap.py reads the file.
#ifndef NATIVE_WRAP_STATISTICS_H
#define NATIVE_WRAP_STATISTICS_H

#include <dlfcn.h>
#include <sys/mman.h>

#include "probes.h"

#define STATISTICS_MAGIC UINT64_C(0x31706172774c) // "Lwrap1"
enum { MOST_CLASSES = 1024, MOST_USES = 65536, NAME_BYTES = 232, MOST_SLOTS = 4096 };

struct statistics_header {
    uint64_t magic, pid, class_count, use_count, overflows; // uses that found no room
    char program[4056];
};

struct lock_class {
    uint64_t site; // 0: not taken
    uint64_t is_left; // to the C library
    uint64_t mutexes;
    char name[NAME_BYTES];
};

struct class_use {
    uint64_t class_number, thread;
    struct lock_use use;
};

struct statistics {
    struct statistics_header header;
    struct lock_class classes[MOST_CLASSES];
    struct class_use uses[MOST_USES];
};

static struct statistics *statistics;
static char statistics_directory[4096 - 64];

// In this process's file; in a private mapping where there is none, as after the directory has gone.
static void map_statistics(void) {
    char path[4096];
    int file = -1;
    if (*statistics_directory) {
        (void)snprintf(path, sizeof path, "%s/%ld-%llx.stats", statistics_directory, (long)getpid(),
                       (unsigned long long)loiter_ticks());
        file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file >= 0 && ftruncate(file, sizeof *statistics)) {
            (void)close(file);
            file = -1;
        }
    }
    int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    // At the same place after a fork: pointers into it stay right.
    flags |= MAP_NORESERVE | (statistics ? MAP_FIXED : 0);
    void *mapped = mmap(statistics, sizeof *statistics, PROT_READ | PROT_WRITE, flags, file, 0);
    if (file >= 0)
        (void)close(file);
    if (mapped == MAP_FAILED)
        end_with(FAILED, "loiter native wrap: no memory for statistics");
    statistics = mapped;
    statistics->header.magic = STATISTICS_MAGIC;
    statistics->header.pid = (uint64_t)getpid();
    int name = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (name >= 0) {
        ssize_t length = read(name, statistics->header.program, sizeof statistics->header.program - 1);
        for (ssize_t n = 0; n + 1 < length; n++)
            if (!statistics->header.program[n])
                statistics->header.program[n] = ' ';
        (void)close(name);
    }
}

static void name_class(struct lock_class *class, const void *site) {
    Dl_info found;
    memset(&found, 0, sizeof found);
    if (!dladdr(site, &found) || !found.dli_fname) {
        (void)snprintf(class->name, NAME_BYTES, "%p", site);
        return;
    }
    const char *slash = strrchr(found.dli_fname, '/');
    const char *module = slash ? slash + 1 : found.dli_fname;
    uintptr_t offset = (uintptr_t)site - (uintptr_t)found.dli_fbase;
    if (found.dli_sname)
        (void)snprintf(class->name, NAME_BYTES, "%s+0x%lx (%s)", module, (unsigned long)offset, found.dli_sname);
    else
        (void)snprintf(class->name, NAME_BYTES, "%s+0x%lx", module, (unsigned long)offset);
}

// The number of the class of this place; the last one takes all for which there is no room.
static uint64_t class_of(const void *site, bool is_left) {
    uint64_t wanted = (uint64_t)(uintptr_t)site << 1 | is_left;
    for (uint64_t n = 0; n < MOST_CLASSES; n++) {
        struct lock_class *class = &statistics->classes[n];
        uint64_t seen = __atomic_load_n(&class->site, __ATOMIC_ACQUIRE);
        if (!seen && n + 1 < MOST_CLASSES) {
            // Whoever makes the place its own gives it a name; another that finds it only needs the number.
            if (__atomic_compare_exchange_n(&class->site, &seen, wanted, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
                class->is_left = is_left;
                name_class(class, site);
                (void)__atomic_fetch_add(&statistics->header.class_count, 1, __ATOMIC_RELAXED);
                return n;
            }
        }
        if (seen == wanted)
            return n;
    }
    (void)snprintf(statistics->classes[MOST_CLASSES - 1].name, NAME_BYTES, "others");
    return MOST_CLASSES - 1;
}

// ---- threads ---------------------------------------------------------------------------------------------------------

// Each thread has a number while it lives; the next one that gets it goes on in the same rows.
static uint32_t slots_taken[MOST_SLOTS];
static struct lock_use *(*uses_of)[MOST_CLASSES]; // of MOST_SLOTS
static struct class_use no_room;

struct own_thread {
    uint32_t number;
    bool has_number;
};

// Most of it is never touched.
static void map_uses(void) {
    size_t bytes = MOST_SLOTS * sizeof *uses_of;
    void *mapped = mmap(uses_of, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (uses_of ? MAP_FIXED : 0), -1, 0);
    if (mapped == MAP_FAILED)
        end_with(FAILED, "loiter native wrap: no memory for statistics");
    uses_of = mapped;
}

static void begin_statistics(const char *directory) {
    if (directory && strlen(directory) < sizeof statistics_directory)
        strcpy(statistics_directory, directory);
    map_statistics();
    map_uses();
}

// In the child of a fork: a file of its own, with the classes that locks know the numbers of.
static void restart_statistics(void) {
    static struct lock_class kept[MOST_CLASSES];
    memcpy(kept, statistics->classes, sizeof kept);
    uint64_t count = statistics->header.class_count;
    map_statistics();
    memcpy(statistics->classes, kept, sizeof kept);
    statistics->header.class_count = count;
    map_uses();
    memset(slots_taken, 0, sizeof slots_taken);
}

static uint32_t take_slot(void) {
    for (uint32_t n = 0; n < MOST_SLOTS - 1; n++) {
        uint32_t free = 0;
        if (!__atomic_load_n(&slots_taken[n], __ATOMIC_RELAXED) &&
            __atomic_compare_exchange_n(&slots_taken[n], &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return n;
    }
    end_with(FAILED, "loiter native wrap: more than %d threads at once", MOST_SLOTS - 1);
}

static void give_slot_back(uint32_t number) { __atomic_store_n(&slots_taken[number], 0, __ATOMIC_RELEASE); }

static struct lock_use *use_of(uint32_t thread, uint64_t class_number) {
    struct lock_use **use = &uses_of[thread][class_number];
    if (!*use) {
        uint64_t n = __atomic_fetch_add(&statistics->header.use_count, 1, __ATOMIC_RELAXED);
        struct class_use *row = n < MOST_USES ? &statistics->uses[n] : &no_room;
        if (row == &no_room)
            (void)__atomic_fetch_add(&statistics->header.overflows, 1, __ATOMIC_RELAXED);
        row->class_number = class_number;
        row->thread = thread;
        *use = &row->use;
    }
    return *use;
}

#endif
