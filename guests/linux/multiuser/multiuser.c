// So many users, each of whom does one job after the other: the mixes of Re-aim, which is the AIM Multiuser Benchmark
// (Suite VII), written anew. Which jobs there are, how often a mix has each of them and how much a job does are
// Re-aim's (github.com/davidlohr/areaim at 584705b, data/workfile.* and src/).
//
//     multiuser MIX|JOB USERS [JOBS [FILE_KIB]]
//
//     compute   arithmetic and numerics, some files
//     dbase     files that are read and updated, shared memory, sorting
//     fserver   large files that are written, read and removed, directories, sockets
//     shared    processes and shells, small files, messages
//
// Each user is a process, and draws its jobs at random, each as often as the mix has it. All work in the present
// directory, on files of the size that the mix's file names: so much for each user, and so much that all share. The
// region of interest begins when all are ready. A job is a piece of work, whose probe tells the user. Without JOBS, or
// with 0, they work for ever. A job that finds a wrong result ends the program with status 1. With the name of a job
// all do only that one.

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loiter_probe.h"
#include "multiuser.h"

enum { MOST_USERS = 1024, MOST_JOBS = 64, FILE_KIB_OF_ONE_JOB = 64 };

struct share {
    const char *job;
    unsigned weight;
};

static const struct mix {
    const char *name;
    // Of a file, and what is divided among all users in addition.
    unsigned long file_kib, pool_kib;
    struct share shares[MOST_JOBS];
} mixes[] = {
    {"compute",
     100,
     250 << 10,
     {{"add_double", 50}, {"add_int", 30}, {"add_long", 30}, {"array_rtns", 10}, {"disk_cp", 10}, {"disk_rd", 30},
      {"disk_src", 10}, {"disk_wrt", 20}, {"div_double", 40}, {"div_int", 30}, {"matrix_rtns", 50},
      {"mem_rtns_1", 40}, {"mem_rtns_2", 40}, {"mul_double", 50}, {"mul_int", 30}, {"mul_long", 30}, {"new_raph", 40},
      {"num_rtns_1", 40}, {"page_test", 50}, {"series_1", 40}, {"shared_memory", 10}, {"sieve", 30},
      {"stream_pipe", 20}, {"string_rtns", 30}, {"trig_rtns", 40}, {"udp_test", 20}}},
    {"dbase",
     1 << 10,
     25 << 10,
     {{"add_int", 20}, {"add_long", 20}, {"add_short", 20}, {"disk_rd", 40}, {"disk_rr", 40}, {"div_int", 10},
      {"div_long", 10}, {"div_short", 10}, {"jmp_test", 10}, {"mem_rtns_1", 40}, {"mem_rtns_2", 40}, {"mul_int", 10},
      {"mul_long", 10}, {"mul_short", 10}, {"page_test", 40}, {"ram_copy", 20}, {"shared_memory", 40}, {"sieve", 30},
      {"sort_rtns_1", 30}, {"stream_pipe", 10}, {"string_rtns", 30}, {"sync_disk_rw", 30}, {"sync_disk_update", 30}}},
    {"fserver",
     10 << 10,
     20 << 10,
     {{"add_int", 20}, {"add_long", 20}, {"add_short", 20}, {"creat_clo", 20}, {"dir_rtns_1", 20}, {"disk_cp", 30},
      {"disk_rd", 30}, {"disk_rr", 30}, {"disk_rw", 30}, {"disk_src", 30}, {"disk_wrt", 30}, {"div_int", 10},
      {"div_long", 10}, {"div_short", 10}, {"jmp_test", 10}, {"link_test", 20}, {"mem_rtns_1", 40},
      {"mem_rtns_2", 10}, {"misc_rtns_1", 20}, {"mul_int", 10}, {"mul_long", 10}, {"mul_short", 10}, {"ram_copy", 20},
      {"signal_test", 10}, {"sort_rtns_1", 30}, {"string_rtns", 30}, {"sync_disk_cp", 5}, {"sync_disk_rw", 5},
      {"sync_disk_wrt", 5}, {"tcp_test", 10}, {"udp_test", 40}}},
    {"shared",
     1 << 10,
     10 << 10,
     {{"add_double", 30}, {"add_float", 30}, {"add_int", 30}, {"add_long", 30}, {"add_short", 30}, {"array_rtns", 10},
      {"brk_test", 10}, {"creat_clo", 10}, {"dgram_pipe", 10}, {"dir_rtns_1", 10}, {"disk_cp", 20}, {"disk_rd", 20},
      {"disk_rr", 20}, {"disk_rw", 20}, {"disk_src", 20}, {"disk_wrt", 20}, {"div_double", 10}, {"div_float", 10},
      {"div_int", 10}, {"div_long", 10}, {"div_short", 10}, {"exec_test", 20}, {"fork_test", 10}, {"jmp_test", 10},
      {"link_test", 10}, {"matrix_rtns", 10}, {"mem_rtns_1", 10}, {"mem_rtns_2", 10}, {"misc_rtns_1", 10},
      {"mul_double", 20}, {"mul_float", 20}, {"mul_int", 20}, {"mul_long", 20}, {"mul_short", 20}, {"new_raph", 10},
      {"num_rtns_1", 10}, {"page_test", 10}, {"pipe_cpy", 10}, {"ram_copy", 10}, {"series_1", 10},
      {"shared_memory", 10}, {"shell_rtns_1", 20}, {"sieve", 10}, {"signal_test", 10}, {"sort_rtns_1", 10},
      {"stream_pipe", 10}, {"string_rtns", 30}, {"sync_disk_cp", 10}, {"sync_disk_rw", 10}, {"sync_disk_wrt", 10},
      {"tcp_test", 10}, {"trig_rtns", 10}, {"udp_test", 10}}},
};

static const struct job *const kinds[] = {arithmetic_jobs, numeric_jobs, memory_jobs, file_jobs, process_jobs};

uint64_t draw(struct task *task) {
    task->random ^= task->random << 13;
    task->random ^= task->random >> 7;
    task->random ^= task->random << 17;
    return task->random;
}

void fail(const char *what) {
    perror(what);
    exit(1);
}

long must(const char *what, long result) {
    if (result < 0)
        fail(what);
    return result;
}

static const struct job *job_named(const char *name) {
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (const struct job *job = kinds[kind]; job->name; job++)
            if (strcmp(job->name, name) == 0)
                return job;
    return 0;
}

static const struct mix *mix_named(const char *name) {
    for (size_t at = 0; at < sizeof mixes / sizeof *mixes; at++)
        if (strcmp(mixes[at].name, name) == 0)
            return &mixes[at];
    return 0;
}

// The jobs of a mix, each found once.
struct bag {
    const struct job *jobs[MOST_JOBS];
    unsigned up_to[MOST_JOBS], kinds;
};

static void fill(struct bag *bag, const struct share *shares) {
    unsigned total = 0;
    for (bag->kinds = 0; bag->kinds < MOST_JOBS && shares[bag->kinds].job; bag->kinds++) {
        bag->jobs[bag->kinds] = job_named(shares[bag->kinds].job);
        bag->up_to[bag->kinds] = total += shares[bag->kinds].weight;
    }
}

static const struct job *next_job(const struct bag *bag, struct task *task) {
    unsigned drawn = (unsigned)(draw(task) % bag->up_to[bag->kinds - 1]), at = 0;
    while (drawn >= bag->up_to[at])
        at++;
    return bag->jobs[at];
}

// `gate` has an end when all are ready.
static void __attribute__((noreturn))
work(struct task *task, const struct bag *bag, unsigned long jobs, int ready, int gate) {
    char nothing = 0;
    // Where one fails, all end.
    must("prctl", prctl(PR_SET_PDEATHSIG, SIGKILL));
    if (write(ready, &nothing, 1) != 1 || read(gate, &nothing, 1) != 0)
        fail("gate");
    for (unsigned long n = 0; jobs == 0 || n < jobs; n++) {
        next_job(bag, task)->run(task);
        loiter_work_end(task->number);
    }
    exit(0);
}

static bool number_of(const char *word, unsigned long *value) {
    char *end;
    *value = strtoul(word, &end, 10);
    return *word >= '0' && *word <= '9' && *end == 0;
}

static void __attribute__((noreturn)) refuse(void) {
    fputs("usage: multiuser compute|dbase|fserver|shared|JOB USERS [JOBS [FILE_KIB]]; jobs are", stderr);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (const struct job *job = kinds[kind]; job->name; job++)
            fprintf(stderr, " %s", job->name);
    fputc('\n', stderr);
    exit(2);
}

int main(int count, char **words) {
    unsigned long users, jobs = 0, file_kib = 0;
    if (count < 3 || count > 5 || !number_of(words[2], &users) || users < 1 || users > MOST_USERS)
        refuse();
    if ((count > 3 && !number_of(words[3], &jobs)) || (count > 4 && (!number_of(words[4], &file_kib) || file_kib < 1)))
        refuse();
    const struct mix *mix = mix_named(words[1]);
    const struct share alone[] = {{words[1], 1}, {0, 0}};
    if (!mix && !job_named(words[1]))
        refuse();
    if (!file_kib)
        file_kib = mix ? mix->file_kib + mix->pool_kib / users : FILE_KIB_OF_ONE_JOB;
    struct bag bag;
    fill(&bag, mix ? mix->shares : alone);
    make_common_files(file_kib);

    int ready[2], gate[2];
    must("pipe", pipe(ready));
    must("pipe", pipe(gate));
    for (unsigned number = 0; number < users; number++) {
        struct task task = {number, 0x9e3779b97f4a7c15U * (number + 1), file_kib};
        if (must("fork", fork()) == 0) {
            close(gate[1]);
            work(&task, &bag, jobs, ready[1], gate[0]);
        }
    }
    char nothing;
    for (unsigned long n = 0; n < users; n++)
        if (read(ready[0], &nothing, 1) != 1)
            fail("ready");
    loiter_roi_begin();
    close(gate[1]);
    for (unsigned long n = 0; n < users; n++) {
        int status;
        if (wait(&status) < 0 || status != 0)
            exit(1);
    }
    loiter_roi_end();
    return 0;
}
