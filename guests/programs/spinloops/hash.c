// hash: random integers are inserted into a table of two dimensions (Cakarevic et al., WIOSCA 2008). A 32-bit hash of
// the number, made of integer divisions, chooses the row. The row is crossed entry by entry, comparing the less
// significant bits of the number, up to the entry that matches or is free; in a full row without a match the oldest
// entry gives way.
//
// The paper says no more. Assumed: the hash is a polynomial over a prime field (Carter and Wegman 1979), a division for
// each byte (`digit_bits`), and one more for the row; rows of 10 entries; 16 bits are compared; the table is full when it
// is measured, so that all repetitions are alike.
#include "fame.h"
#include "random.h"

LOITER_ARGUMENT(insertions, "iterations", 4000, "hash: insertions in a repetition");
LOITER_ARGUMENT(entries, "entries", 100000, "hash: entries of the table, of 20 bytes each");
LOITER_ARGUMENT(digit_bits, "digit_bits", 8, "hash: bits of the number for each division of the hash, 1 to 32");
LOITER_ARGUMENT(columns, "columns", 10, "hash: entries of a row, 4 to 255");

enum { LOW_BITS = 0xffff, MOST_COLUMNS = 255, RECENT = 16 };

struct entry {
    uint32_t uses; // 0 = free
    uint32_t number;
    uint32_t hash;
    uint32_t inserted, matched; // serial numbers of the insertions that wrote it and that last matched it
};

struct table {
    struct entry *entries;
    uint8_t *oldest; // of each row: the column to give away next
    uint64_t row_count, column_count;
    uint64_t base, prime; // of the hash. Not constants: compilers divide by those without a division.
    unsigned digit_bits;
    uint32_t *numbers;    // to be inserted in a repetition
    uint64_t insertions;
    uint64_t random;
    uint64_t used, matched, replaced, attempts; // attempts = used + matched + replaced
    uint32_t recent[RECENT];
};

static uint32_t hash_of(const struct table *table, uint32_t number) {
    uint64_t hash = 0;
    uint64_t rest = number, digit = (1ull << table->digit_bits) - 1;
    for (unsigned bits = 0; bits < 32; bits += table->digit_bits, rest >>= table->digit_bits)
        hash = (hash * table->base + (rest & digit) + 1) % table->prime;
    return (uint32_t)hash;
}

static bool matches(const struct entry *entry, uint32_t number) { return ((entry->number ^ number) & LOW_BITS) == 0; }

static void insert(struct table *table, uint32_t number) {
    uint32_t hash = hash_of(table, number), serial = (uint32_t)table->attempts;
    uint64_t row = hash % table->row_count;
    struct entry *first = table->entries + row * table->column_count, *end = first + table->column_count;
    struct entry *entry = first;

    table->recent[table->attempts++ % RECENT] = number;
    for (; entry < end && entry->uses; entry++)
        if (matches(entry, number)) {
            entry->uses++;
            entry->matched = serial;
            table->matched++;
            return;
        }
    if (entry == end) {
        uint8_t column = table->oldest[row];
        table->oldest[row] = column == table->column_count - 1 ? 0 : column + 1;
        entry = first + column;
        table->replaced++;
    } else {
        table->used++;
    }
    *entry = (struct entry){1, number, hash, serial, serial};
}

static uint32_t next_number(struct table *table) { return (uint32_t)(random_next(&table->random) >> 32); }

static void prepare(void *state) {
    struct table *table = state;
    for (uint64_t i = 0; i < table->insertions; i++)
        table->numbers[i] = next_number(table);
}

static void repeat(void *state) {
    struct table *table = state;
    for (uint64_t i = 0; i < table->insertions; i++)
        insert(table, table->numbers[i]);
}

// Brings the whole table to where it stays, the L2: a single pass over its lines.
static void warm_up(void *state) {
    struct table *table = state;
    const volatile char *byte = (const volatile char *)table->entries;
    for (uint64_t i = 0; i < table->row_count * table->column_count * sizeof(struct entry); i += 64)
        (void)byte[i];
}

static bool holds(const struct table *table, uint32_t number) {
    const struct entry *row = table->entries + hash_of(table, number) % table->row_count * table->column_count;
    for (unsigned column = 0; column < table->column_count && row[column].uses; column++)
        if (matches(row + column, number))
            return true;
    return false;
}

// The last few numbers are far fewer than it takes for one of them to be the oldest of its row.
static uint64_t finish(void *state) {
    const struct table *table = state;
    if (table->used + table->matched + table->replaced != table->attempts)
        loiter_fail("hash: insertions were lost\n");
    if (table->used > table->row_count * table->column_count)
        loiter_fail("hash: more entries were used than the table has\n");
    for (unsigned i = 0; i < RECENT; i++)
        if (!holds(table, table->recent[i]))
            loiter_fail("hash: %u was inserted and is not in the table\n", table->recent[i]);
    return table->used << 48 ^ table->matched << 24 ^ table->replaced;
}

LOITER_TASK(hash) {
    static struct table table = {.random = 88172645463325252, .base = 2654435761, .prime = 4294967291};
    table.column_count = loiter_value_at_least(&columns, 4);
    table.digit_bits = (unsigned)loiter_value_at_least(&digit_bits, 1);
    if (table.digit_bits > 32)
        loiter_refuse("hash: argument digit_bits=%u is more than the 32 bits of a number\n", table.digit_bits);
    if (table.column_count > MOST_COLUMNS)
        loiter_refuse("hash: a row has at most %u columns\n", MOST_COLUMNS);
    table.row_count = (loiter_value_at_least(&entries, 1000) + table.column_count - 1) / table.column_count;
    table.insertions = loiter_value_at_least(&insertions, 1);
    table.entries = loiter_allocate(table.row_count * table.column_count * sizeof(struct entry), 4096);
    table.oldest = loiter_allocate(table.row_count, 4096);
    table.numbers = loiter_allocate(table.insertions * sizeof *table.numbers, 4096);
    // Numbers fall on rows at random: twice as many as there are entries fill all but one row in two hundred.
    for (uint64_t number = 0; number < 2 * table.row_count * table.column_count; number++)
        insert(&table, next_number(&table));

    fame_run(&(struct fame_work){
        .state = &table, .repeat = repeat, .prepare = prepare, .warm_up = warm_up, .finish = finish});
}
