// sort: recursive quicksort of an array of random 64-bit keys, the same ones in every repetition.
#include "fame.h"
#include "random.h"

LOITER_ARGUMENT(footprint, "footprint_kib", 80, "sort: the array");

struct array {
    uint64_t *keys;
    uint64_t *unsorted; // what `keys` is filled from
    uint64_t count;
    uint64_t sum;
};

// Hoare's partition around the middle element; [low, high], both inside.
static void quicksort(uint64_t *low, uint64_t *high) {
    uint64_t pivot = low[(high - low) / 2];
    uint64_t *left = low, *right = high;

    while (left <= right) {
        while (*left < pivot)
            left++;
        while (*right > pivot)
            right--;
        if (left <= right) {
            uint64_t key = *left;
            *left++ = *right;
            *right-- = key;
        }
    }
    if (low < right)
        quicksort(low, right);
    if (left < high)
        quicksort(left, high);
}

static void prepare(void *state) {
    struct array *array = state;
    for (uint64_t i = 0; i < array->count; i++)
        array->keys[i] = array->unsorted[i];
}

static void repeat(void *state) {
    struct array *array = state;
    quicksort(array->keys, array->keys + array->count - 1);
}

static uint64_t finish(void *state) {
    const struct array *array = state;
    uint64_t sum = array->keys[0];
    for (uint64_t i = 1; i < array->count; i++) {
        if (array->keys[i - 1] > array->keys[i])
            loiter_fail("sort: keys %llu and %llu are out of order\n", (unsigned long long)i - 1,
                        (unsigned long long)i);
        sum += array->keys[i];
    }
    if (sum != array->sum)
        loiter_fail("sort: keys were lost\n");
    return sum;
}

LOITER_TASK(sort) {
    uint64_t bytes = loiter_value_at_least(&footprint, 1) * 1024, random = 88172645463325252;
    struct array array = {.keys = loiter_allocate(bytes, 4096),
                          .unsorted = loiter_allocate(bytes, 4096),
                          .count = bytes / sizeof(uint64_t)};
    for (uint64_t i = 0; i < array.count; i++)
        array.sum += array.unsorted[i] = random_next(&random);

    fame_run(&(struct fame_work){.state = &array, .repeat = repeat, .prepare = prepare, .finish = finish});
}
