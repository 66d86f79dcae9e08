// Runs a program, and says how long that took on how many CPUs. Also the init of a Linux guest that QEMU has under KVM, whose initramfs
// need hold nothing else but the program: then it powers off at the end.
//
//     guest PROGRAM [WORD...]
//
// As init: `-append "... -- PROGRAM [WORD...]"`.
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void) {
    struct timespec time;
    // Not by the C library, which reads the clock in user mode: QEMU 10.0 starts the first CPU with a `scounteren` of 0 (it writes that
    // by KVM_SET_ONE_REG), and Linux leaves that as it is, so `rdtime` is illegal there.
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

// Whether Linux has found Zawrs, and so naps where it waits.
static bool naps(void) {
    FILE *info = fopen("/proc/cpuinfo", "r");
    if (info == NULL)
        return false;
    char line[1024];
    bool found = false;
    while (fgets(line, sizeof line, info) != NULL)
        found |= strncmp(line, "isa", 3) == 0 && strstr(line, "_zawrs") != NULL;
    fclose(info);
    return found;
}

static int run(char **words) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execv(words[0], words);
        perror(words[0]);
        _exit(127);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 126;
    return WEXITSTATUS(status);
}

int main(int count, char **words) {
    bool init = getpid() == 1;
    if (init) {
        mkdir("/proc", 0555);
        mkdir("/tmp", 0777);
        if (mount("proc", "/proc", "proc", 0, NULL) != 0 || mount("tmp", "/tmp", "tmpfs", 0, NULL) != 0 || chdir("/tmp") != 0)
            perror("guest: /proc, /tmp");
    }
    puts("guest: begins");
    double begun_ms = now_ms();
    int status = count > 1 ? run(words + 1) : 0;
    double took_ms = now_ms() - begun_ms;
    printf("guest: cpus=%ld naps=%d status=%d wall_ms=%.1f\n", sysconf(_SC_NPROCESSORS_ONLN), naps(), status, took_ms);
    fflush(stdout);
    if (init)
        reboot(RB_POWER_OFF);
    return status;
}
