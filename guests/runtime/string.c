// The four functions that a freestanding compiler may call. Built without the optimisation that would turn their loops
// into calls of themselves.
#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    unsigned char *t = to;
    const unsigned char *f = from;
    while (bytes--)
        *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t bytes) {
    unsigned char *t = to;
    const unsigned char *f = from;
    if (t < f)
        for (size_t i = 0; i < bytes; i++)
            t[i] = f[i];
    else
        while (bytes--)
            t[bytes] = f[bytes];
    return to;
}

void *memset(void *to, int byte, size_t bytes) {
    unsigned char *t = to;
    while (bytes--)
        *t++ = (unsigned char)byte;
    return to;
}

int memcmp(const void *a, const void *b, size_t bytes) {
    const unsigned char *x = a, *y = b;
    for (; bytes; bytes--, x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}
