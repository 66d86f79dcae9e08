// Preloaded by the workload spim: the program asks for its timer after every instruction it simulates, and would spend
// nine tenths of its time in that system call. To it, the timer never ends.
#include <string.h>
#include <sys/time.h>

int getitimer(__itimer_which_t which, struct itimerval *value) {
    (void)which;
    memset(value, 0, sizeof *value);
    value->it_value.tv_sec = 1;
    return 0;
}
