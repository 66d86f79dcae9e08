// Preloaded after the library of `loiter native wrap`: a wait for a condition begins late, so that a signal which can be lost is.
// slow_wait.map gives it the version by which the library looks for the C library's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *);
    if (!real)
        *(void **)&real = dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_wait");
    (void)usleep(50);
    return real(condition, mutex);
}
