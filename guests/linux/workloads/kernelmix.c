// kernelmix: processes that spend their time in the kernel and meet in its locks.
//
//     kernelmix PROCESSES [ROUNDS | forever] [shared | apart | narrow]
//
// Every process does in every round, in an order drawn by lot, what a web server's processes do: looks files up, opens,
// reads, writes and locks them, makes and removes some, passes bytes through pipes and sockets, wakes others by eventfd
// and futex, maps memory and gives it back. PROCESSES may be more than there are CPUs; they are spread over them.
//
// `shared`, as it is without a word: directory, pipe, record lock and futex are everybody's, so that the kernel's locks
// of them are contended and processes sleep for each other. `apart`: only files that are read, and the eventfd, are
// everybody's, as with the processes of a web server, each of which has its own request; processes of one CPU take turns
// by passing a message round, so that CPUs have work at all times. Nothing is renamed, as in a web server. `narrow`: they do
// nothing but write to the eventfd, which each process watches by an epoll of its own: who writes tells all of them, and
// holds the eventfd's one spin lock meanwhile.
//
// What all processes together must have left is known beforehand, and is checked.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Steps of a round; the last four are notices.
enum { FIRST_NOTICE = 6, STEPS = 10 };
enum { FILES = 16, FILE_BYTES = 4096, MAPPED_BYTES = 64 << 10, MOST_PROCESSES = 500 };

// Probes of guests/runtime/loiter_probe.h: the region of interest, and one piece of work.
#define PROBE(number, value) __asm__ volatile("slti x0, %0, %1" : : "r"((uint64_t)(value)), "i"(number) : "memory")
#define ROI_BEGIN 0x01
#define ROI_END 0x02
#define WORK_BEGIN 0x03
#define WORK_END 0x04

// What a process takes locks of: what all share, or its own.
struct guarded {
    // 0 free, 1 held, 2 held and somebody sleeps (Drepper, "Futexes Are Tricky", 2011, mutex 2).
    atomic_uint lock;
    uint64_t under_lock;
};

struct shared {
    struct guarded guarded;
    atomic_ullong under_locks;
    atomic_uint ready, go;
};

static struct shared *shared;
static struct guarded own, *guarded;
static bool apart, narrow;
// Where the files are that all read.
static const char *where = "";
static int notice, record, ends[2];
// Sockets of process i: where it receives, and where its predecessor sends.
static int (*inbox)[2];

static void fail(const char *what) {
    fprintf(stderr, "kernelmix: %s: %s\n", what, strerror(errno));
    exit(1);
}

#define MUST(call)                                                                                                     \
    ({                                                                                                                 \
        __auto_type result_ = (call);                                                                                  \
        if (result_ == (__typeof__(result_))-1)                                                                        \
            fail(#call);                                                                                               \
        result_;                                                                                                       \
    })

static long futex(atomic_uint *word, int operation, unsigned value) {
    return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void lock(void) {
    unsigned seen = 0;
    if (atomic_compare_exchange_strong(&guarded->lock, &seen, 1))
        return;
    if (seen != 2)
        seen = atomic_exchange(&guarded->lock, 2);
    while (seen != 0) {
        futex(&guarded->lock, FUTEX_WAIT, 2);
        seen = atomic_exchange(&guarded->lock, 2);
    }
}

static void unlock(void) {
    if (atomic_fetch_sub(&guarded->lock, 1) != 1) {
        atomic_store(&guarded->lock, 0);
        futex(&guarded->lock, FUTEX_WAKE, 1);
    }
}

static void name_file(char *name, unsigned number) {
    sprintf(name, "%sfile%02u", where, number % FILES);
}

static void look_up(unsigned number) {
    struct stat facts;
    char name[16];
    for (unsigned i = 0; i < 4; i++) {
        name_file(name, number + i);
        MUST(stat(name, &facts));
    }
    if (stat("nothing", &facts) == 0)
        fail("a file that is not there");
}

static void read_file(unsigned number) {
    static char bytes[FILE_BYTES];
    char name[16];
    name_file(name, number);
    int file = MUST(open(name, O_RDWR));
    if (MUST(read(file, bytes, sizeof bytes)) != FILE_BYTES || bytes[number % FILE_BYTES] != 'a' + (char)(number % FILES))
        fail("what a file holds");
    MUST(pwrite(file, bytes, 256, 0));
    MUST(fcntl(file, F_GETFL));
    MUST(close(file));
}

static void make_and_remove(unsigned process, unsigned number) {
    char name[32], other[32];
    sprintf(name, "new%u.%u", process, number);
    sprintf(other, "old%u.%u", process, number);
    MUST(close(MUST(open(name, O_CREAT | O_EXCL | O_WRONLY, 0600))));
    // A rename takes a lock of the whole tree, for which all who look up a name wait.
    if (!apart)
        MUST(rename(name, other));
    MUST(unlink(apart ? name : other));
}

static void lock_record(void) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    MUST(fcntl(record, F_SETLKW, &whole));
    whole.l_type = F_UNLCK;
    MUST(fcntl(record, F_SETLK, &whole));
}

// A byte is written before one is read, so that nobody waits for ever.
static void pass_on(unsigned process, unsigned successor) {
    char bytes[64] = {0};
    int waiting, from = inbox[process][0];
    MUST(write(ends[1], bytes, 1));
    MUST(read(ends[0], bytes, 1));
    MUST(send(inbox[successor][1], bytes, sizeof bytes, 0));
    struct pollfd ready = {.fd = from, .events = POLLIN};
    MUST(poll(&ready, 1, -1));
    MUST(ioctl(from, FIONREAD, &waiting));
    if (waiting % sizeof bytes || !waiting || MUST(recv(from, bytes, sizeof bytes, MSG_WAITALL)) != sizeof bytes)
        fail("what a socket holds");
}

static void map_and_touch(void) {
    volatile char *bytes = MUST(mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (unsigned at = 0; at < MAPPED_BYTES; at += 16384)
        bytes[at] = 1;
    MUST(munmap((void *)bytes, MAPPED_BYTES));
}

static void notify(void) {
    uint64_t one = 1;
    MUST(write(notice, &one, sizeof one));
    lock();
    guarded->under_lock++;
    unlock();
}

static void step(unsigned which, unsigned process, unsigned successor, unsigned number) {
    switch (which) {
    case 0: return look_up(process + number);
    case 1: return read_file(process * 7 + number);
    case 2: return make_and_remove(process, number);
    case 3: return lock_record();
    case 4: return pass_on(process, successor);
    case 5: return map_and_touch();
    default: return notify();
    }
}

// A round has all steps, in an order drawn by lot: in step with each other, all CPUs would wait at the same time.
static void round_of(unsigned process, unsigned successor, unsigned number) {
    static uint64_t lot;
    unsigned char order[STEPS];
    PROBE(WORK_BEGIN, number);
    for (unsigned i = 0; i < STEPS; i++) {
        // xorshift64 (Marsaglia, "Xorshift RNGs", 2003).
        lot = lot ? lot : 0x9e3779b97f4a7c15 * (process + 1);
        lot ^= lot << 13;
        lot ^= lot >> 7;
        lot ^= lot << 17;
        unsigned other = (unsigned)(lot % (i + 1));
        order[i] = order[other];
        order[other] = (unsigned char)i;
    }
    for (unsigned i = 0; i < STEPS; i++)
        if (!narrow || order[i] >= FIRST_NOTICE)
            step(order[i], process, successor, number);
    PROBE(WORK_END, number);
}

static void open_own(unsigned process) {
    char name[16];
    sprintf(name, "own%u", process);
    MUST(mkdir(name, 0700));
    MUST(chdir(name));
    where = "../";
    record = MUST(open("record", O_CREAT | O_RDWR, 0600));
    MUST(pipe(ends));
    guarded = &own;
}

static void watch(void) {
    struct epoll_event all = {.events = EPOLLIN};
    MUST(epoll_ctl(MUST(epoll_create1(0)), EPOLL_CTL_ADD, notice, &all));
}

static void work(unsigned process, unsigned processes, unsigned long rounds) {
    cpu_set_t cpus;
    // One CPU each as long as there are enough; nobody is moved after that.
    MUST(sched_getaffinity(0, sizeof cpus, &cpus));
    unsigned count = (unsigned)CPU_COUNT(&cpus), skip = process % count, cpu = 0, successor = process;
    while (!CPU_ISSET(cpu, &cpus) || skip-- > 0)
        cpu++;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    MUST(sched_setaffinity(0, sizeof cpus, &cpus));
    if (apart) {
        open_own(process);
        if (narrow)
            watch();
        // The next one on this CPU.
        successor = process + count < processes ? process + count : process % count;
    }
    atomic_fetch_add(&shared->ready, 1);
    while (!atomic_load(&shared->go))
        futex(&shared->go, FUTEX_WAIT, 0);
    for (unsigned long number = 0; rounds == 0 || number < rounds; number++)
        round_of(process, successor, (unsigned)number);
    if (apart)
        atomic_fetch_add(&shared->under_locks, own.under_lock);
    exit(0);
}

static void prepare(unsigned long processes) {
    char directory[] = "/tmp/kernelmixXXXXXX", name[16], bytes[FILE_BYTES];
    if (mkdtemp(directory) == NULL)
        fail(directory);
    MUST(chdir(directory));
    for (unsigned number = 0; number < FILES; number++) {
        name_file(name, number);
        memset(bytes, 'a' + (int)number, sizeof bytes);
        int file = MUST(open(name, O_CREAT | O_WRONLY, 0600));
        MUST(write(file, bytes, sizeof bytes));
        MUST(close(file));
    }
    shared = MUST(mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    notice = MUST(eventfd(0, 0));
    guarded = &shared->guarded;
    record = MUST(open("record", O_CREAT | O_RDWR, 0600));
    MUST(pipe(ends));
    inbox = MUST(mmap(NULL, processes * sizeof *inbox, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (unsigned long process = 0; process < processes; process++)
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, inbox[process]));
}

int main(int count, char **words) {
    unsigned long processes = count > 1 ? strtoul(words[1], NULL, 10) : 0, rounds = 100;
    bool forever = count > 2 && strcmp(words[2], "forever") == 0;
    if (count > 2)
        rounds = forever ? 0 : strtoul(words[2], NULL, 10);
    narrow = count > 3 && strcmp(words[3], "narrow") == 0;
    apart = narrow || (count > 3 && strcmp(words[3], "apart") == 0);
    bool shares = count < 4 || strcmp(words[3], "shared") == 0;
    if (processes < 1 || processes > MOST_PROCESSES || count > 4 || (!rounds && !forever) || (!apart && !shares)) {
        fprintf(stderr, "usage: kernelmix PROCESSES [ROUNDS | forever] [shared | apart | narrow]; at most %d processes\n",
                MOST_PROCESSES);
        return 2;
    }
    prepare(processes);
    for (unsigned process = 0; process < processes; process++)
        if (MUST(fork()) == 0)
            work(process, (unsigned)processes, rounds);
    while (atomic_load(&shared->ready) < processes)
        sched_yield();
    PROBE(ROI_BEGIN, 0);
    atomic_store(&shared->go, 1);
    futex(&shared->go, FUTEX_WAKE, MOST_PROCESSES);
    int status;
    for (unsigned long ended = 0; ended < processes; ended++) {
        MUST(wait(&status));
        if (status != 0)
            return 1;
    }
    PROBE(ROI_END, 0);

    uint64_t noticed;
    MUST(read(notice, &noticed, sizeof noticed));
    uint64_t wanted = 4 * processes * rounds;
    uint64_t under_lock = shared->guarded.under_lock + shared->under_locks;
    if (noticed != wanted || under_lock != wanted) {
        fprintf(stderr, "kernelmix: %llu notices and %llu under the lock, not %llu\n", (unsigned long long)noticed,
                (unsigned long long)under_lock, (unsigned long long)wanted);
        return 1;
    }
    printf("kernelmix: %lu processes, %lu rounds each, right\n", processes, rounds);
    return 0;
}
