// mbv_fp: matrix by vector in double precision (Cakarevic et al., WIOSCA 2008), more sequential than mbv_int: row after
// row, so the matrix comes in from memory in order. The paper gives no shape; a square is assumed.
#include "fame.h"
#include "matrix.h"

LOITER_ARGUMENT(rows, "iterations", 8, "mbv_fp: rows in a repetition");
LOITER_ARGUMENT(footprint, "footprint_kib", 65536, "mbv_fp: the matrix, at least 16384, which exceeds every L2");

struct product {
    double *matrix, *vector, *result;
    uint64_t side, rows;
    uint64_t row, last; // the next one to do, the one done last
};

// Eighths below 8: sums and products are exact, so that the order of additions cannot matter.
static unsigned matrix_eighths(uint64_t row, uint64_t column) { return (row * 31 + column * 17) & 63; }
static unsigned vector_eighths(uint64_t column) { return (column * 5 + 3) & 63; }

static void repeat(void *state) {
    struct product *product = state;
    for (uint64_t count = 0; count < product->rows; count++) {
        const double *row = product->matrix + product->row * product->side;
        double sum = 0;
        for (uint64_t column = 0; column < product->side; column++)
            sum += row[column] * product->vector[column];
        product->result[product->row] = sum;
        product->last = product->row;
        product->row = product->row + 1 == product->side ? 0 : product->row + 1;
    }
}

static uint64_t finish(void *state) {
    const struct product *product = state;
    uint64_t expected = 0;
    for (uint64_t column = 0; column < product->side; column++)
        expected += (uint64_t)matrix_eighths(product->last, column) * vector_eighths(column);
    uint64_t sum = (uint64_t)(product->result[product->last] * 64);
    if (sum != expected)
        loiter_fail("mbv_fp: row %llu gives %llu / 64 instead of %llu / 64\n", (unsigned long long)product->last,
                    (unsigned long long)sum, (unsigned long long)expected);
    return sum;
}

static void initialise(struct product *product) {
    double eighths[64];
    for (unsigned i = 0; i < 64; i++)
        eighths[i] = i / 8.0;
    uint64_t reach = matrix_reach(product->side, sizeof(double), product->rows);
    for (uint64_t row = 0; row < reach; row++)
        for (uint64_t column = 0; column < product->side; column++)
            product->matrix[row * product->side + column] = eighths[matrix_eighths(row, column)];
    for (uint64_t column = 0; column < product->side; column++)
        product->vector[column] = eighths[vector_eighths(column)];
}

LOITER_TASK(mbv_fp) {
    struct product product = {.rows = loiter_value_at_least(&rows, 1)};
    product.side = matrix_side(loiter_value_at_least(&footprint, EXCEEDS_EVERY_L2_KIB), sizeof(double));
    product.matrix = loiter_allocate(product.side * product.side * sizeof(double), 4096);
    product.vector = loiter_allocate(product.side * sizeof(double), 4096);
    product.result = loiter_allocate(product.side * sizeof(double), 4096);
    initialise(&product);

    fame_run(&(struct fame_work){.state = &product, .repeat = repeat, .finish = finish});
}
