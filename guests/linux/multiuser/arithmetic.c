// Jobs that add, multiply and divide: so many loops of twelve operations, each of which needs the one before. Twelve
// lead back to where the numbers were.
#include "multiuser.h"

enum { PAIRS = 6 };

// (a, b) -> (a + b, -a) is the identity when done six times.
#define ADD(name, type, keep, start, loops)                                                                            \
    static void name(struct task *task) {                                                                              \
        type a = start, b = -(start);                                                                                  \
        (void)task;                                                                                                    \
        for (long loop = 0; loop < loops; loop++)                                                                      \
            for (int pair = 0; pair < PAIRS; pair++) {                                                                 \
                a = (type)(a + b);                                                                                     \
                keep(a);                                                                                               \
                b = (type)(b - a);                                                                                     \
                keep(b);                                                                                               \
            }                                                                                                          \
        if (a != (type)(start) || b != (type)-(start))                                                                 \
            fail(#name);                                                                                               \
    }

#define MULTIPLY(name, type, keep, start, loops)                                                                       \
    static void name(struct task *task) {                                                                              \
        type a = start, b = 1;                                                                                         \
        (void)task;                                                                                                    \
        keep(b);                                                                                                       \
        for (long loop = 0; loop < loops; loop++)                                                                      \
            for (int pair = 0; pair < PAIRS; pair++) {                                                                 \
                a = (type)(a * b);                                                                                     \
                keep(a);                                                                                               \
                b = (type)(b * b);                                                                                     \
                keep(b);                                                                                               \
            }                                                                                                          \
        if (a != (type)(start))                                                                                        \
            fail(#name);                                                                                               \
    }

#define DIVIDE(name, type, keep, start, by, loops)                                                                     \
    static void name(struct task *task) {                                                                              \
        type a = start, b = by, c = (type)(1 / (by));                                                                  \
        (void)task;                                                                                                    \
        keep(b);                                                                                                       \
        keep(c);                                                                                                       \
        for (long loop = 0; loop < loops; loop++)                                                                      \
            for (int pair = 0; pair < PAIRS; pair++) {                                                                 \
                a = (type)(a / b);                                                                                     \
                keep(a);                                                                                               \
                a = (type)(a / c);                                                                                     \
                keep(a);                                                                                               \
            }                                                                                                          \
        if (a != (type)(start))                                                                                        \
            fail(#name);                                                                                               \
    }

ADD(add_double, double, KEEP_FLOAT, 3.5, 1500000)
ADD(add_float, float, KEEP_FLOAT, 3.5F, 1000000)
ADD(add_long, long, KEEP, 3, 5000000)
ADD(add_int, int, KEEP, 3, 5000000)
ADD(add_short, short, KEEP, 3, 2000000)
MULTIPLY(mul_double, double, KEEP_FLOAT, 3.5, 1000000)
MULTIPLY(mul_float, float, KEEP_FLOAT, 3.5F, 1000000)
MULTIPLY(mul_long, long, KEEP, 12345678, 20000)
MULTIPLY(mul_int, int, KEEP, 12345678, 20000)
MULTIPLY(mul_short, short, KEEP, 12345, 25000)
DIVIDE(div_double, double, KEEP_FLOAT, 3.5, 4.0, 250000)
DIVIDE(div_float, float, KEEP_FLOAT, 3.5F, 4.0F, 250000)
DIVIDE(div_long, long, KEEP, 12345678, 1, 75000)
DIVIDE(div_int, int, KEEP, 12345678, 1, 75000)
DIVIDE(div_short, short, KEEP, 12345, 1, 75000)

#define JOB(name) {#name, name}

const struct job arithmetic_jobs[] = {
    JOB(add_double), JOB(add_float), JOB(add_long), JOB(add_int), JOB(add_short), JOB(mul_double), JOB(mul_float),
    JOB(mul_long), JOB(mul_int), JOB(mul_short), JOB(div_double), JOB(div_float), JOB(div_long), JOB(div_int),
    JOB(div_short), {0, 0},
};
