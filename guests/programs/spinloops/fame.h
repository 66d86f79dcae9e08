// FAME, fairly measuring multithreaded architectures (Vera et al., PACT 2007): a program is repeated until its
// accumulated average IPC has settled to within MAIV, the maximum allowable IPC variation.
#ifndef FAME_H
#define FAME_H

#include "loiter.h"

// A measured program. `state` is handed to every function.
struct fame_work {
    void *state;
    void (*repeat)(void *state);      // one repetition: all that is measured
    void (*prepare)(void *state);     // before each repetition, not measured; may be NULL
    void (*warm_up)(void *state);     // once, before the repetition that is not measured; may be NULL
    uint64_t (*finish)(void *state);  // after all: fails if the result is wrong, returns its checksum
};

// Most repetitions that a run can make, the one that is not measured included.
uint64_t fame_most_repetitions(void);

// The whole life of a measured task, once its data is initialised.
void fame_run(const struct fame_work *work);

#endif
