// Jobs of numerical mathematics.
#include <math.h>
#include <stdlib.h>

#include "multiuser.h"

enum { MOST_UNKNOWNS = 100, VECTOR = 4, MOST_STEPS = 100 };

// In [0, 1).
static double value(struct task *task) { return (double)(draw(task) >> 11) / (double)(1L << 53); }

static void num_rtns_1(struct task *task) {
    for (int n = 0; n < 100; n++) {
        double x = 20 * value(task) - 10, positive = 1e-3 + 10 * value(task), whole;
        int exponent;
        double sum = floor(exp(x)) + ceil(log10(positive));
        sum += modf(log(positive), &whole) + frexp(-positive, &exponent);
        sum += ldexp(x, abs(exponent)) + fabs(fmod(5 * x, positive)) + sqrt(pow(positive, x));
        srand((unsigned)exponent);
        sum += (double)labs(-rand() + n);
        if (isnan(sum))
            fail("num_rtns_1");
    }
}

static void trig_rtns(struct task *task) {
    for (int n = 0; n < 10000; n++) {
        double x = 20 * value(task) - 10;
        double sum = acos(cos(asin(sin(x)))) + tanh(atan(tan(x))) + atan2(sinh(x), cosh(x));
        if (isnan(sum))
            fail("trig_rtns");
    }
}

// Roots of a cubic that rises everywhere, by Newton's method.
static void new_raph(struct task *task) {
    (void)task;
    for (int n = 0; n < 200; n++) {
        double x = 0.05 * n, step = 1;
        for (int tries = 0; fabs(step) >= 1e-12; tries++) {
            if (tries == MOST_STEPS)
                fail("new_raph");
            step = (x * x * x + x - 1) / (3 * x * x + 1);
            x -= step;
        }
        if (fabs(x - 0.6823278038280193) > 1e-9)
            fail("new_raph");
    }
}

static void matrix_rtns(struct task *task) {
    double sum = 0;
    for (int n = 0; n < 100; n++) {
        double point[VECTOR], matrix[VECTOR][VECTOR];
        for (int row = 0; row < VECTOR; row++)
            point[row] = value(task);
        for (int row = 0; row < VECTOR; row++)
            for (int column = 0; column < VECTOR; column++)
                matrix[row][column] = value(task);
        for (int row = 0; row < VECTOR; row++)
            for (int column = 0; column < VECTOR; column++)
                sum += matrix[row][column] * point[column];
    }
    if (!(sum > 0))
        fail("matrix_rtns");
}

// Systems of 5, 10, ... 100 equations whose solution is 1, 2, 3 ..., by Gauss with pivots.
static void solve(struct task *task, int unknowns) {
    static double a[MOST_UNKNOWNS][MOST_UNKNOWNS + 1];
    for (int row = 0; row < unknowns; row++) {
        a[row][unknowns] = 0;
        for (int column = 0; column < unknowns; column++) {
            a[row][column] = value(task) + (row == column) * unknowns;
            a[row][unknowns] += a[row][column] * (column + 1);
        }
    }
    for (int at = 0; at < unknowns; at++) {
        int pivot = at;
        for (int row = at + 1; row < unknowns; row++)
            if (fabs(a[row][at]) > fabs(a[pivot][at]))
                pivot = row;
        for (int column = at; column <= unknowns; column++) {
            double other = a[pivot][column];
            a[pivot][column] = a[at][column];
            a[at][column] = other;
        }
        for (int row = 0; row < unknowns; row++) {
            double factor = row == at ? 0 : a[row][at] / a[at][at];
            for (int column = at; column <= unknowns; column++)
                a[row][column] -= factor * a[at][column];
        }
    }
    for (int row = 0; row < unknowns; row++)
        if (fabs(a[row][unknowns] / a[row][row] - (row + 1)) > 1e-6)
            fail("array_rtns");
}

static void array_rtns(struct task *task) {
    for (int unknowns = 5; unknowns <= MOST_UNKNOWNS; unknowns += 5)
        solve(task, unknowns);
}

// The sine by its series.
static void series_1(struct task *task) {
    for (int n = 0; n < 100; n++) {
        double x = value(task), term = x, sine = 0, before = 1;
        for (int at = 1; sine != before; at += 2) {
            before = sine;
            sine += term;
            term *= -x * x / ((at + 1) * (at + 2));
        }
        if (fabs(sine - sin(x)) > 1e-9)
            fail("series_1");
    }
}

const struct job numeric_jobs[] = {
    {"num_rtns_1", num_rtns_1}, {"trig_rtns", trig_rtns}, {"new_raph", new_raph}, {"matrix_rtns", matrix_rtns},
    {"array_rtns", array_rtns}, {"series_1", series_1}, {0, 0},
};
