// What a program for `loiter explore` has: thread(n) runs on each hart; setup() before, check() afterwards, by themselves.
// There is no runtime and no I/O. A program fails where an assertion does, or when its harts wait for one another for ever.
#ifndef LOITER_EXPLORE_H
#define LOITER_EXPLORE_H

#define EXPLORE_ASSERT(condition) ((condition) ? (void)0 : __builtin_trap())

void setup(unsigned long harts);
void thread(unsigned long hart);
void check(unsigned long harts);

#endif
