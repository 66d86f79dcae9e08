// kernelmix: processes that spend their time in the kernel and meet in its locks.
//
//     kernelmix PROCESSES [ROUNDS | forever]
//
// Every process does in every round what a web server's processes do: looks files up, opens, reads, writes and locks
// them, makes and removes some in a directory that all share, passes bytes through pipes and sockets, wakes others by
// eventfd and futex, maps memory and gives it back. Files, directory, eventfd, pipe, record lock and futex are shared, so
// that the kernel's locks of them are contended. PROCESSES may be more than there are CPUs; they are spread over them.
//
// What all processes together must have left is known beforehand, and is checked.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 16, FILE_BYTES = 4096, MAPPED_BYTES = 64 << 10, MOST_PROCESSES = 4096 };

// Probes of guests/runtime/loiter_probe.h: the region of interest, and one piece of work.
#define PROBE(number, value) __asm__ volatile("slti x0, %0, %1" : : "r"((uint64_t)(value)), "i"(number) : "memory")
#define ROI_BEGIN 0x01
#define ROI_END 0x02
#define WORK_BEGIN 0x03
#define WORK_END 0x04

struct shared {
    // 0 free, 1 held, 2 held and somebody sleeps (Drepper, "Futexes Are Tricky", 2011, mutex 2).
    atomic_uint lock;
    uint64_t under_lock;
    atomic_uint ready, go;
};

static struct shared *shared;
static int notice, record, ends[2];

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
    if (atomic_compare_exchange_strong(&shared->lock, &seen, 1))
        return;
    if (seen != 2)
        seen = atomic_exchange(&shared->lock, 2);
    while (seen != 0) {
        futex(&shared->lock, FUTEX_WAIT, 2);
        seen = atomic_exchange(&shared->lock, 2);
    }
}

static void unlock(void) {
    if (atomic_fetch_sub(&shared->lock, 1) != 1) {
        atomic_store(&shared->lock, 0);
        futex(&shared->lock, FUTEX_WAKE, 1);
    }
}

static void name_file(char *name, unsigned number) { sprintf(name, "file%02u", number % FILES); }

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
    MUST(rename(name, other));
    MUST(unlink(other));
}

static void lock_record(void) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    MUST(fcntl(record, F_SETLKW, &whole));
    whole.l_type = F_UNLCK;
    MUST(fcntl(record, F_SETLK, &whole));
}

// A byte is written before one is read, so that nobody waits for ever.
static void pass_on(const int *own) {
    char bytes[64] = {0};
    int waiting;
    MUST(write(ends[1], bytes, 1));
    MUST(read(ends[0], bytes, 1));
    MUST(send(own[0], bytes, sizeof bytes, 0));
    MUST(ioctl(own[1], FIONREAD, &waiting));
    struct pollfd ready = {.fd = own[1], .events = POLLIN};
    MUST(poll(&ready, 1, -1));
    if (waiting != sizeof bytes || MUST(recv(own[1], bytes, sizeof bytes, MSG_WAITALL)) != sizeof bytes)
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
    shared->under_lock++;
    unlock();
}

static void round_of(unsigned process, unsigned number, const int *own) {
    PROBE(WORK_BEGIN, number);
    look_up(process + number);
    read_file(process * 7 + number);
    for (unsigned i = 0; i < 4; i++)
        notify();
    make_and_remove(process, number);
    lock_record();
    pass_on(own);
    map_and_touch();
    PROBE(WORK_END, number);
}

static void work(unsigned process, unsigned long rounds) {
    int own[2];
    cpu_set_t cpus;
    // One CPU each as long as there are enough; nobody is moved after that.
    MUST(sched_getaffinity(0, sizeof cpus, &cpus));
    unsigned skip = process % (unsigned)CPU_COUNT(&cpus), cpu = 0;
    while (!CPU_ISSET(cpu, &cpus) || skip-- > 0)
        cpu++;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    MUST(sched_setaffinity(0, sizeof cpus, &cpus));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, own));
    atomic_fetch_add(&shared->ready, 1);
    while (!atomic_load(&shared->go))
        futex(&shared->go, FUTEX_WAIT, 0);
    for (unsigned long number = 0; rounds == 0 || number < rounds; number++)
        round_of(process, (unsigned)number, own);
    exit(0);
}

static void prepare(void) {
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
    record = MUST(open("record", O_CREAT | O_RDWR, 0600));
    MUST(pipe(ends));
}

int main(int count, char **words) {
    unsigned long processes = count > 1 ? strtoul(words[1], NULL, 10) : 0, rounds = 100;
    if (count > 2)
        rounds = strcmp(words[2], "forever") == 0 ? 0 : strtoul(words[2], NULL, 10);
    if (processes < 1 || processes > MOST_PROCESSES || count > 3 || (count > 2 && rounds == 0 && strcmp(words[2], "forever"))) {
        fprintf(stderr, "usage: kernelmix PROCESSES [ROUNDS | forever]; at most %d processes\n", MOST_PROCESSES);
        return 2;
    }
    prepare();
    for (unsigned process = 0; process < processes; process++)
        if (MUST(fork()) == 0)
            work(process, rounds);
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
    if (noticed != wanted || shared->under_lock != wanted) {
        fprintf(stderr, "kernelmix: %llu notices and %llu under the lock, not %llu\n", (unsigned long long)noticed,
                (unsigned long long)shared->under_lock, (unsigned long long)wanted);
        return 1;
    }
    printf("kernelmix: %lu processes, %lu rounds each, right\n", processes, rounds);
    return 0;
}
