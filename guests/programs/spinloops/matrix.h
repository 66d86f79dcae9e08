// What the two matrix-by-vector programs share: a square matrix that exceeds every L2, of which only that part is
// initialised and walked that a run can reach. A repetition goes on where the last one stopped, so no line comes back
// before all the others have been used.
#ifndef MATRIX_H
#define MATRIX_H

#include <stdint.h>

enum { LINE_BYTES = 64, EXCEEDS_EVERY_L2_KIB = 16 * 1024 };

// Side of a square matrix of about `kib`. A row has an odd number of whole lines: a column then spreads over all sets.
uint64_t matrix_side(uint64_t kib, uint64_t element_bytes);

// Rows (or columns) out of `side` to initialise, for runs that use `per_repetition` in one repetition: all that can be
// reached, and so much that the first of them has left the L2 when the last is written.
uint64_t matrix_reach(uint64_t side, uint64_t element_bytes, uint64_t per_repetition);

#endif
