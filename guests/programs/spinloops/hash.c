// hash: insertions into a table of two dimensions. A 32-bit hash of the key chooses the row; the entry goes to the first
// free place along the row, or over the row's oldest entry when it is full.
#include "fame.h"
#include "random.h"

LOITER_ARGUMENT(insertions, "iterations", 4000, "hash: insertions in a repetition");
LOITER_ARGUMENT(entries, "entries", 100000, "hash: places in the table, of 20 bytes each");

enum { COLUMNS = 10, KEY_WORDS = 3, KEYS = 1 << 18, RECENT = 16 };

struct entry {
    uint32_t uses; // 0 = free
    uint32_t hash;
    uint32_t key[KEY_WORDS];
};

struct table {
    struct entry (*rows)[COLUMNS];
    uint8_t *oldest; // of each row: the column to give away next
    uint64_t row_count;
    uint64_t insertions;
    uint64_t random;
    uint64_t used, found, replaced, attempts; // attempts = used + found + replaced
    uint32_t recent[RECENT];
};

// Jenkins' one-at-a-time hash, over the bytes of the key.
static uint32_t hash_key(const uint32_t key[KEY_WORDS]) {
    const uint8_t *byte = (const uint8_t *)key;
    uint32_t hash = 0;
    for (unsigned i = 0; i < KEY_WORDS * sizeof *key; i++) {
        hash += byte[i];
        hash += hash << 10;
        hash ^= hash >> 6;
    }
    hash += hash << 3;
    hash ^= hash >> 11;
    return hash + (hash << 15);
}

static void make_key(uint32_t number, uint32_t key[KEY_WORDS]) {
    key[0] = number;
    key[1] = number ^ 0x5bd1e995;
    key[2] = number << 7;
}

static bool same_key(const uint32_t a[KEY_WORDS], const uint32_t b[KEY_WORDS]) {
    return a[0] == b[0] && a[1] == b[1] && a[2] == b[2];
}

// A hash is a fraction of 2^32; its part of the rows is the row. No division.
static uint64_t row_of(const struct table *table, uint32_t hash) { return hash * table->row_count >> 32; }

static void insert(struct table *table, uint32_t number) {
    uint32_t key[KEY_WORDS];
    make_key(number, key);
    uint32_t hash = hash_key(key);
    uint64_t row_number = row_of(table, hash);
    struct entry *row = table->rows[row_number], *entry = row;

    table->recent[table->attempts++ % RECENT] = number;
    for (; entry < row + COLUMNS && entry->uses; entry++)
        if (entry->hash == hash && same_key(entry->key, key)) {
            entry->uses++;
            table->found++;
            return;
        }
    if (entry == row + COLUMNS) {
        uint8_t column = table->oldest[row_number];
        table->oldest[row_number] = column == COLUMNS - 1 ? 0 : column + 1;
        entry = row + column;
        table->replaced++;
    } else {
        table->used++;
    }
    *entry = (struct entry){1, hash, {key[0], key[1], key[2]}};
}

static void repeat(void *state) {
    struct table *table = state;
    for (uint64_t i = 0; i < table->insertions; i++)
        insert(table, (uint32_t)(random_next(&table->random) % KEYS));
}

// Brings the whole table to where it stays, the L2: a single pass over its lines.
static void warm_up(void *state) {
    struct table *table = state;
    const volatile char *byte = (const volatile char *)table->rows;
    for (uint64_t i = 0; i < table->row_count * sizeof *table->rows; i += 64)
        (void)byte[i];
}

static bool holds(const struct table *table, uint32_t number) {
    uint32_t key[KEY_WORDS];
    make_key(number, key);
    const struct entry *row = table->rows[row_of(table, hash_key(key))];
    for (unsigned column = 0; column < COLUMNS && row[column].uses; column++)
        if (same_key(row[column].key, key))
            return true;
    return false;
}

// The last few keys are far fewer than it takes to push one of them out again.
static uint64_t finish(void *state) {
    const struct table *table = state;
    if (table->used + table->found + table->replaced != table->attempts)
        loiter_fail("hash: insertions were lost\n");
    for (unsigned i = 0; i < RECENT; i++)
        if (!holds(table, table->recent[i]))
            loiter_fail("hash: key %u was inserted and is not in the table\n", table->recent[i]);
    return table->used << 48 ^ table->found << 24 ^ table->replaced;
}

LOITER_TASK(hash) {
    static struct table table = {.random = 88172645463325252};
    table.row_count = (loiter_value_at_least(&entries, 1000) + COLUMNS - 1) / COLUMNS;
    table.insertions = loiter_value_at_least(&insertions, 1);
    table.rows = loiter_allocate(table.row_count * sizeof *table.rows, 4096);
    table.oldest = loiter_allocate(table.row_count, 4096);
    for (uint32_t number = 0; number < table.row_count * COLUMNS; number++)
        insert(&table, number);

    fame_run(&(struct fame_work){.state = &table, .repeat = repeat, .warm_up = warm_up, .finish = finish});
}
