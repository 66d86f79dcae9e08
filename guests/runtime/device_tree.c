// A reader for what a program wants from the flattened device tree: command line, RAM, harts, what these know.
// Format: Devicetree Specification v0.4, chapter 5.
#include "internal.h"

static const uint32_t magic = 0xd00dfeed;
enum { BEGIN_NODE = 1, END_NODE = 2, PROPERTY = 3, NOP = 4, END = 9 };

// Big-endian words of the header that are used here.
enum { HEADER_MAGIC = 0, HEADER_TOTAL_SIZE = 1, HEADER_STRUCTURE = 2, HEADER_STRINGS = 3 };

extern const char __image_end[];

enum node { OTHER, ROOT, CHOSEN, MEMORY, CPUS, CPU };

struct property {
    const char *name;
    const uint32_t *value;
    uint32_t bytes;
};

struct reader {
    struct machine *machine;
    enum node node;
    unsigned depth;
    bool below_cpus;
    uint32_t address_cells, size_cells;
};

static uint32_t big_endian(uint32_t word) {
    return word >> 24 | (word >> 8 & 0xff00) | (word << 8 & 0xff0000) | word << 24;
}

static bool same(const char *a, const char *b) {
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

// The node's name without its unit address.
static bool named(const char *node, const char *name) {
    while (*name && *node == *name)
        node++, name++;
    return !*name && (!*node || *node == '@');
}

static enum node classify(const struct reader *reader, const char *name) {
    if (reader->depth == 1)
        return ROOT;
    if (reader->depth == 2)
        return named(name, "chosen") ? CHOSEN : named(name, "memory") ? MEMORY : named(name, "cpus") ? CPUS : OTHER;
    return reader->depth == 3 && reader->below_cpus && named(name, "cpu") ? CPU : OTHER;
}

static uint64_t cells(const uint32_t *word, uint32_t count) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < count; i++)
        value = value << 32 | big_endian(word[i]);
    return value;
}

static void read_memory(const struct reader *reader, const struct property *property) {
    uint32_t address_cells = reader->address_cells, size_cells = reader->size_cells;
    uint32_t words = property->bytes / 4, entry = address_cells + size_cells;

    for (uint32_t at = 0; entry && at + entry <= words; at += entry) {
        uint64_t start = cells(property->value + at, address_cells);
        uint64_t end = start + cells(property->value + at + address_cells, size_cells);
        uint64_t image = (uintptr_t)__image_end;
        if (start < image && image <= end) {
            reader->machine->ram_start = start;
            reader->machine->ram_end = end;
        }
    }
}

static void read_property(struct reader *reader, const struct property *property) {
    if (reader->node == ROOT && same(property->name, "#address-cells"))
        reader->address_cells = big_endian(*property->value);
    else if (reader->node == ROOT && same(property->name, "#size-cells"))
        reader->size_cells = big_endian(*property->value);
    else if (reader->node == CHOSEN && same(property->name, "bootargs"))
        reader->machine->bootargs = (const char *)property->value;
    else if (reader->node == MEMORY && same(property->name, "reg"))
        read_memory(reader, property);
    else if (reader->node == CPU && same(property->name, "riscv,isa"))
        reader->machine->isa = (const char *)property->value;
    else if (reader->node == CPU && same(property->name, "reg")) {
        uint64_t hart = cells(property->value, property->bytes / 4);
        if (hart < LOITER_MAX_HARTS)
            reader->machine->hart_exists[hart] = true;
    }
}

static const uint32_t *skip(const uint32_t *at, uint64_t bytes) { return at + (bytes + 3) / 4; }

static void walk(struct reader *reader, const uint32_t *at, const char *strings) {
    for (;;) {
        uint32_t token = big_endian(*at++);
        if (token == BEGIN_NODE) {
            const char *name = (const char *)at;
            size_t length = 0;
            while (name[length])
                length++;
            at = skip(at, length + 1);
            reader->depth++;
            reader->node = classify(reader, name);
            if (reader->depth == 2)
                reader->below_cpus = reader->node == CPUS;
        } else if (token == END_NODE) {
            // Properties come before the nodes below, so none can follow here.
            reader->depth--;
            reader->node = OTHER;
        } else if (token == PROPERTY) {
            struct property property = {strings + big_endian(at[1]), at + 2, big_endian(at[0])};
            read_property(reader, &property);
            at = skip(at + 2, property.bytes);
        } else if (token == END) {
            return;
        } else if (token != NOP) {
            loiter_fail("device tree: unknown token 0x%x at %p\n", token, (const void *)(at - 1));
        }
    }
}

void loiter_read_device_tree(const void *tree, struct machine *machine) {
    const uint32_t *header = tree;
    if (!tree || (uintptr_t)tree % 4 || big_endian(header[HEADER_MAGIC]) != magic)
        loiter_fail("no flattened device tree at %p (register a1 at the entry)\n", tree);

    const char *base = tree;
    struct reader reader = {.machine = machine, .address_cells = 2, .size_cells = 1};
    machine->bootargs = machine->isa = "";
    machine->tree_start = (uintptr_t)tree;
    machine->tree_end = (uintptr_t)tree + big_endian(header[HEADER_TOTAL_SIZE]);
    walk(&reader, (const uint32_t *)(const void *)(base + big_endian(header[HEADER_STRUCTURE])),
         base + big_endian(header[HEADER_STRINGS]));

    if (!machine->ram_end)
        loiter_fail("device tree: no memory node holds the program, which ends at %p\n", (const void *)__image_end);
}
