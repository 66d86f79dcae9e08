#include "matrix.h"

#include "fame.h"

uint64_t matrix_side(uint64_t kib, uint64_t element_bytes) {
    uint64_t elements = kib * 1024 / element_bytes, per_line = LINE_BYTES / element_bytes;
    uint64_t lines = 1;
    while (lines * lines * per_line * per_line < elements)
        lines += 2;
    return lines * per_line;
}

uint64_t matrix_reach(uint64_t side, uint64_t element_bytes, uint64_t per_repetition) {
    uint64_t reach, least = EXCEEDS_EVERY_L2_KIB * UINT64_C(1024) / (side * element_bytes) + 1;
    if (__builtin_mul_overflow(per_repetition, fame_most_repetitions(), &reach) || reach > side)
        return side;
    return reach < least ? least : reach;
}
