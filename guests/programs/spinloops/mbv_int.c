// mbv_int: matrix by vector in 32-bit integers (Cakarevic et al., WIOSCA 2008), in a highly non-sequential order: column
// after column of a matrix that lies in memory row by row, so each access is a whole row away from the last. By default it
// has four times the elements of mbv_fp, as in the paper: twice the bytes. The paper gives no shape; a square is assumed.
#include "fame.h"
#include "matrix.h"

LOITER_ARGUMENT(columns, "iterations", 16, "mbv_int: columns in a repetition; a line holds 16");
LOITER_ARGUMENT(footprint, "footprint_kib", 131072, "mbv_int: the matrix, at least 16384, which exceeds every L2");

struct product {
    int32_t *matrix, *vector, *result;
    uint64_t side, columns;
    uint64_t column; // the next one to do
    uint64_t done;
};

static int32_t matrix_element(uint64_t row, uint64_t column) { return (int32_t)((row * 7 + column * 13) & 127) - 64; }
static int32_t vector_element(uint64_t column) { return (int32_t)(column * 3 & 31) - 11; }

static void repeat(void *state) {
    struct product *product = state;
    for (uint64_t count = 0; count < product->columns; count++) {
        const int32_t *element = product->matrix + product->column;
        int32_t factor = product->vector[product->column];
        for (uint64_t row = 0; row < product->side; row++) {
            product->result[row] += *element * factor;
            element += product->side;
        }
        product->done++;
        product->column = product->column + 1 == product->side ? 0 : product->column + 1;
    }
}

// Two rows, worked out anew without the matrix.
static uint64_t finish(void *state) {
    const struct product *product = state;
    const uint64_t rows[] = {1, product->side - 1};
    uint32_t sum = 0;
    for (unsigned i = 0; i < 2; i++) {
        uint32_t expected = 0;
        for (uint64_t column = 0; column < product->done; column++) {
            uint64_t wrapped = column % product->side;
            expected += (uint32_t)(matrix_element(rows[i], wrapped) * vector_element(wrapped));
        }
        uint32_t result = (uint32_t)product->result[rows[i]];
        if (result != expected)
            loiter_fail("mbv_int: row %llu gives 0x%x instead of 0x%x\n", (unsigned long long)rows[i], result,
                        expected);
        sum = sum * 31 + result;
    }
    return sum;
}

static void initialise(struct product *product) {
    uint64_t reach = matrix_reach(product->side, sizeof(int32_t), product->columns);
    for (uint64_t row = 0; row < product->side; row++)
        for (uint64_t column = 0; column < reach; column++)
            product->matrix[row * product->side + column] = matrix_element(row, column);
    for (uint64_t column = 0; column < product->side; column++)
        product->vector[column] = vector_element(column);
}

LOITER_TASK(mbv_int) {
    struct product product = {.columns = loiter_value_at_least(&columns, 1)};
    product.side = matrix_side(loiter_value_at_least(&footprint, EXCEEDS_EVERY_L2_KIB), sizeof(int32_t));
    product.matrix = loiter_allocate(product.side * product.side * sizeof(int32_t), 4096);
    product.vector = loiter_allocate(product.side * sizeof(int32_t), 4096);
    product.result = loiter_allocate(product.side * sizeof(int32_t), 4096);
    initialise(&product);

    fame_run(&(struct fame_work){.state = &product, .repeat = repeat, .finish = finish});
}
