// A mix of integer work: sort, hash, crc in a working set of 17 KiB.
#ifndef MIX_H
#define MIX_H

#include "loiter.h"

enum { KEYS = 1024, SLOTS = 2048, BLOCK_BYTES = 4096 };

struct mix {
    uint32_t keys[KEYS];
    uint32_t slots[SLOTS]; // open addressing; 0 = free
    uint8_t block[BLOCK_BYTES];
    uint32_t crc_table[256];
    uint32_t random;
};

static uint32_t next_random(struct mix *mix) { return mix->random = mix->random * 1664525 + 1013904223; }

static void fill(struct mix *mix) {
    for (unsigned i = 0; i < KEYS; i++)
        mix->keys[i] = next_random(mix) | 1;
}

// Shell's sort with Ciura's gaps.
static void sort(uint32_t *keys) {
    static const unsigned gaps[] = {701, 301, 132, 57, 23, 10, 4, 1};
    for (unsigned g = 0; g < sizeof gaps / sizeof *gaps; g++) {
        unsigned gap = gaps[g];
        for (unsigned i = gap; i < KEYS; i++) {
            uint32_t key = keys[i];
            unsigned j = i;
            for (; j >= gap && keys[j - gap] > key; j -= gap)
                keys[j] = keys[j - gap];
            keys[j] = key;
        }
    }
    for (unsigned i = 1; i < KEYS; i++)
        if (keys[i - 1] > keys[i])
            loiter_fail("intmix: keys %u and %u are out of order\n", i - 1, i);
}

static uint32_t *find_slot(struct mix *mix, uint32_t key) {
    unsigned at = key * 2654435769u >> 21; // 32 - log2(SLOTS)
    while (mix->slots[at] && mix->slots[at] != key)
        at = (at + 1) % SLOTS;
    return &mix->slots[at];
}

static void hash(struct mix *mix) {
    for (unsigned i = 0; i < SLOTS; i++)
        mix->slots[i] = 0;
    for (unsigned i = 0; i < KEYS; i++)
        *find_slot(mix, mix->keys[i]) = mix->keys[i];
    for (unsigned i = 0; i < KEYS; i++)
        if (*find_slot(mix, mix->keys[i]) != mix->keys[i])
            loiter_fail("intmix: key %u is lost\n", i);
}

// CRC-32 (IEEE 802.3), a byte at a time.
static void make_crc_table(uint32_t table[256]) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
        table[i] = crc;
    }
}

static uint32_t crc(const struct mix *mix, const uint8_t *bytes, unsigned count) {
    uint32_t crc = ~UINT32_C(0);
    for (unsigned i = 0; i < count; i++)
        crc = mix->crc_table[(crc ^ bytes[i]) & 255] ^ crc >> 8;
    return ~crc;
}

// One round, about 340 k instructions; its checksum.
static uint32_t run_round(struct mix *mix) {
    fill(mix);
    for (unsigned i = 0; i < BLOCK_BYTES; i++)
        mix->block[i] = (uint8_t)(mix->keys[i % KEYS] >> i / KEYS * 8);
    sort(mix->keys);
    hash(mix);
    return crc(mix, mix->block, BLOCK_BYTES);
}

// Data of a hart's own.
static struct mix *make_mix(void) {
    struct mix *mix = loiter_allocate(sizeof *mix, LOITER_APART);
    mix->random = 1;
    make_crc_table(mix->crc_table);
    if (crc(mix, (const uint8_t *)"123456789", 9) != 0xcbf43926) // the check value of the standard
        loiter_fail("intmix: the CRC is wrong\n");
    return mix;
}

#endif
