// What a hart with guests does, printed case by case: registers, instructions, traps and translation, in every mode. A simulator
// and an emulator that agree print the same.
#include <string.h>

#include "loiter.h"

// Written by enter.S, in this order.
struct attempt {
    uint64_t handler, cause, value, status, guest, instruction, hstatus;
    uint64_t mcause, mvalue, mstatus, mguest, minstruction;
    uint64_t sp, result;
};

void enter(struct attempt *attempt, uint64_t pc, uint64_t a0, uint64_t a1);
extern char in_supervisor[], in_guest[];

#define READ(csr) __extension__({ uint64_t v_; __asm__ volatile("csrr %0, " #csr : "=r"(v_)); v_; })
#define WRITE(csr, v) __asm__ volatile("csrw " #csr ", %0" : : "r"((uint64_t)(v)) : "memory")

#define MPRV (1ul << 17)
#define SUM (1ul << 18)
#define MXR (1ul << 19)
#define TVM (1ul << 20)
#define TW (1ul << 21)
#define TSR (1ul << 22)
#define MPV (1ul << 39)
#define MGVA (1ul << 38)

enum mode { IN_M, IN_HS, IN_U, IN_VS, IN_VU, MODES };
static const char *const names[] = {"m", "hs", "u", "vs", "vu"};

// A page for code that is written as it is needed, and one for data.
static uint32_t code[1024] __attribute__((aligned(4096)));
static uint64_t data[512] __attribute__((aligned(4096)));
static struct attempt last __attribute__((aligned(4096)));

static uint64_t own_root[512] __attribute__((aligned(4096)));
static uint64_t own_middle[512] __attribute__((aligned(4096)));
static uint64_t own_last[512] __attribute__((aligned(4096)));
static uint64_t memory_root[2048] __attribute__((aligned(16384)));
static uint64_t memory_middle[512] __attribute__((aligned(4096)));
static uint64_t memory_last[512] __attribute__((aligned(4096)));

#define V 1ul
#define R 2ul
#define W 4ul
#define X 8ul
#define U 16ul
#define A 64ul
#define D 128ul
#define RAM_BASE 0x80000000ul
// Where the guest sees the page of data, and where that lies in its memory.
#define SEEN 0x20c0000000ul
#define PLACE 0x3000000000ul

static uint64_t entry(const void *page, uint64_t bits) {
    return ((uint64_t)page >> 12) << 10 | bits;
}

static void mode_status(enum mode mode) {
    uint64_t status = READ(mstatus) & ~(3ul << 11 | MPV);
    static const uint64_t previous[] = {3, 1, 0, 1, 0};
    WRITE(mstatus, status | previous[mode] << 11 | (mode >= IN_VS ? MPV : 0));
}

// Runs the instructions of `code` in a mode, up to an ecall behind them.
static void run(enum mode mode, uint64_t a0, uint64_t a1) {
    memset(&last, 0, sizeof last);
    mode_status(mode);
    __asm__ volatile("fence.i\n\tsfence.vma" ::: "memory");
    enter(&last, (uint64_t)code, a0, a1);
}

static void put(uint32_t instruction) {
    code[0] = instruction;
    code[1] = 0x00000073; // ecall
}

// What has come of it: the cause, and who handled it.
static void tell(void) {
    uint64_t own = last.mcause;
    bool ended = own == 8 || own == 9 || own == 10 || own == 11;
    if (last.handler != 0) {
        loiter_print(" %c%lx/%lx", last.handler == 1 ? 's' : 'g', last.cause, last.value);
        if (last.handler == 1) {
            // SPV, SPVP, GVA; SPP.
            loiter_print("/%lx:%lx:%lx:%lx", last.hstatus >> 6 & 7, last.status >> 8 & 1, last.guest,
                         last.cause >= 20 ? last.instruction & 0x3020 : 0);
        } else {
            loiter_print("/%lx", last.status >> 8 & 1);
        }
    } else if (ended) {
        loiter_print(" ok");
    } else {
        loiter_print(" m%lx/%lx/%lx:%lx:%lx", own, last.mvalue, last.mstatus >> 38 & 3, last.mstatus >> 11 & 3, last.mguest);
    }
}

// ---- registers ------------------------------------------------------------------------------------------------------

static const uint16_t registers[] = {
    0x100, 0x104, 0x105, 0x106, 0x10a, 0x140, 0x141, 0x142, 0x143, 0x144, 0x180, 0x200, 0x204, 0x205, 0x240, 0x241, 0x242,
    0x243, 0x244, 0x280, 0x300, 0x302, 0x303, 0x304, 0x344, 0x34a, 0x34b, 0x600, 0x602, 0x603, 0x604, 0x605, 0x606, 0x607,
    0x643, 0x644, 0x645, 0x64a, 0x680, 0xe12, 0xc00, 0xc02,
};

static void reset_state(void) {
    WRITE(medeleg, 0);
    WRITE(mideleg, 0);
    WRITE(mie, 0);
    WRITE(hedeleg, 0);
    WRITE(hideleg, 0);
    WRITE(hvip, 0);
    WRITE(hstatus, 0);
    WRITE(hcounteren, -1);
    WRITE(mcounteren, -1);
    WRITE(scounteren, -1);
    WRITE(htimedelta, 0);
    WRITE(hgatp, 0);
    WRITE(vsatp, 0);
    WRITE(satp, 0);
    WRITE(vsstatus, 3ul << 13);
    WRITE(mstatus, 3ul << 13 | 3ul << 11);
    WRITE(stvec, in_supervisor);
    WRITE(vstvec, in_guest);
    // menvcfg and henvcfg: accessed and dirty bits are set by the hart, where that is a choice.
    __asm__ volatile("csrs 0x30a, %0; csrs 0x60a, %0" : : "r"(1ul << 61));
}

// Bits that a write of all ones, and one of none, leaves set.
static void registers_keep(void) {
    static const uint16_t kept[] = {0x302, 0x303, 0x304, 0x600, 0x602, 0x603, 0x604, 0x605, 0x606, 0x607,
                                    0x643, 0x644, 0x645, 0x200, 0x204, 0x205, 0x240, 0x241, 0x244, 0x34b};
    for (unsigned n = 0; n < sizeof kept / sizeof *kept; n++) {
        reset_state();
        WRITE(hideleg, -1);
        code[0] = (uint32_t)kept[n] << 20 | 10 << 15 | 1 << 12 | 0 << 7 | 0x73; // csrw
        code[1] = (uint32_t)kept[n] << 20 | 2 << 12 | 10 << 7 | 0x73;           // csrr a0
        code[2] = 0x00000073;
        run(IN_M, -1ul, 0);
        uint64_t ones = last.result;
        run(IN_M, 0, 0);
        loiter_print("keeps %x: %lx %lx\n", kept[n], ones, last.result);
    }
}

static void registers_by_mode(void) {
    for (unsigned n = 0; n < sizeof registers / sizeof *registers; n++) {
        for (unsigned setting = 0; setting < 3; setting++) {
            reset_state();
            if (setting == 1) {
                WRITE(hstatus, 1ul << 20); // VTVM
                WRITE(hcounteren, 0);
            } else if (setting == 2) {
                WRITE(mstatus, READ(mstatus) | TVM);
                WRITE(mcounteren, 0);
                WRITE(scounteren, 0);
            }
            loiter_print("csr %x/%u:", registers[n], setting);
            for (enum mode mode = IN_HS; mode < MODES; mode++) {
                put((uint32_t)registers[n] << 20 | 2 << 12 | 6 << 7 | 0x73); // csrr t1
                run(mode, 0, 0);
                tell();
            }
            loiter_print("\n");
        }
    }
}

// A guest sees its own registers under the names of others.
static void registers_of_guest(void) {
    reset_state();
    static const struct {
        uint16_t name, own;
    } pairs[] = {{0x105, 0x205}, {0x140, 0x240}, {0x141, 0x241}, {0x142, 0x242}, {0x143, 0x243}, {0x104, 0x204}, {0x144, 0x244}};
    WRITE(hideleg, 0x444);
    for (unsigned n = 0; n < sizeof pairs / sizeof *pairs; n++) {
        code[0] = (uint32_t)pairs[n].name << 20 | 10 << 15 | 1 << 12 | 10 << 7 | 0x73; // csrrw a0, name, a0
        code[1] = 0x00000073;
        run(IN_VS, 0x5a5a5a5a5a5a5222, 0);
        code[0] = (uint32_t)pairs[n].own << 20 | 2 << 12 | 10 << 7 | 0x73;
        run(IN_M, 0, 0);
        loiter_print("guest's %x is %lx\n", pairs[n].name, last.result);
        if (pairs[n].name == 0x105) {
            WRITE(vstvec, in_guest);
        }
    }
}

// ---- instructions ---------------------------------------------------------------------------------------------------

static void instructions(void) {
    static const struct {
        const char *name;
        uint32_t bits;
    } all[] = {
        {"sret", 0x10200073}, {"mret", 0x30200073}, {"sfence", 0x12000073}, {"hfence.v", 0x22000073},
        {"hfence.g", 0x62000073}, {"hlv.b", 0x60054373}, {"hlv.hu", 0x64154373}, {"hlvx.wu", 0x68354373},
        {"hlv.d", 0x6c054373}, {"hsv.b", 0x62054073}, {"hsv.d", 0x6e054073}, {"ebreak", 0x00100073},
        {"illegal", 0xffffffff}, {"fadd", 0x02007053},
    };
    for (unsigned n = 0; n < sizeof all / sizeof *all; n++) {
        for (unsigned setting = 0; setting < 5; setting++) {
            loiter_print("%s/%u:", all[n].name, setting);
            for (enum mode mode = IN_HS; mode < MODES; mode++) {
                reset_state();
                switch (setting) {
                case 1: WRITE(hstatus, 1ul << 20 | 1ul << 22); break;         // VTVM, VTSR
                case 2: WRITE(mstatus, READ(mstatus) | TVM | TSR); break;
                case 3: WRITE(hstatus, 1ul << 9); WRITE(vsstatus, 0); break;  // HU; no floating point in guests
                case 4: WRITE(mstatus, READ(mstatus) & ~(3ul << 13)); break;
                default: break;
                }
                WRITE(sepc, &code[1]);
                WRITE(vsepc, &code[1]);
                put(all[n].bits);
                run(mode, (uint64_t)data, 0);
                tell();
            }
            loiter_print("\n");
        }
    }
}

// ---- traps ----------------------------------------------------------------------------------------------------------

static void traps(void) {
    static const uint32_t raising[] = {0x00000073, 0x00100073, 0xffffffff, 0x30002373 /* csrr t1, mstatus */, 0x60002373};
    for (unsigned n = 0; n < sizeof raising / sizeof *raising; n++) {
        for (unsigned setting = 0; setting < 3; setting++) {
            loiter_print("trap %x/%u:", raising[n], setting);
            for (enum mode mode = IN_HS; mode < MODES; mode++) {
                reset_state();
                // Calls of supervisors end an attempt.
                WRITE(medeleg, setting >= 1 ? -1ul & ~(1ul << 9 | 1ul << 10) : 0);
                WRITE(hedeleg, setting == 2 ? -1ul : 0);
                put(raising[n]);
                run(mode, 0, 0);
                tell();
            }
            loiter_print("\n");
        }
    }
}

static void interrupts(void) {
    for (unsigned bit = 2; bit <= 10; bit += 4) {
        for (unsigned setting = 0; setting < 8; setting++) {
            loiter_print("interrupt %u/%u:", bit, setting);
            for (enum mode mode = IN_HS; mode < MODES; mode++) {
                reset_state();
                WRITE(mie, setting & 1 ? 0x444 : 0);
                WRITE(hideleg, setting & 2 ? -1ul : 0);
                if (setting & 4) {
                    WRITE(mstatus, READ(mstatus) | 2);
                    WRITE(vsstatus, READ(vsstatus) | 2);
                }
                WRITE(hvip, 1ul << bit);
                put(0x00000013); // nop
                run(mode, 0, 0);
                tell();
            }
            loiter_print("\n");
        }
    }
}

// ---- translation ----------------------------------------------------------------------------------------------------

// Identity for the program, in both translations, and a page of data of its own in each.
static void map(uint64_t own, uint64_t memory) {
    own_root[RAM_BASE >> 30] = entry((void *)RAM_BASE, V | R | W | X | A | D);
    own_root[SEEN >> 30 & 511] = entry(own_middle, V);
    own_middle[0] = entry(own_last, V);
    own_last[0] = entry((void *)PLACE, own);
    memory_root[RAM_BASE >> 30] = entry((void *)RAM_BASE, V | R | W | X | U | A | D);
    memory_root[PLACE >> 30] = entry(memory_middle, V);
    memory_middle[0] = entry(memory_last, V);
    memory_last[0] = entry(data, memory);
}

static void translation(void) {
    static const uint64_t owns[] = {0, V | R | A | D, V | R | W | A | D, V | X | A | D, V | R | X | A | D, V | R | W | X | A | D,
                                    V | R | W | U | A | D, V | R | W | X | U | A | D, V | R | W, V | R | W | A, V | W | A | D};
    static const uint64_t memories[] = {0, V | R | U | A | D, V | R | W | U | A | D, V | X | U | A | D, V | R | W | X | U | A | D,
                                        V | R | W | A | D, V | R | W | U, V | R | W | U | A};
    static const uint32_t accesses[] = {
        0x00053303 /* ld t1, 0(a0) */, 0x00653023 /* sd t1, 0(a0) */, 0x1005332f /* lr.d */, 0x6c054373 /* hlv.d t1, (a0) */,
        0x68354373 /* hlvx.wu */, 0x6e654073 /* hsv.d t1, (a0) */,
    };
    for (unsigned own = 0; own < sizeof owns / sizeof *owns; own++) {
        for (unsigned memory = 0; memory < sizeof memories / sizeof *memories; memory++) {
            for (unsigned setting = 0; setting < 8; setting++) {
                loiter_print("pages %lx %lx/%u:", owns[own], memories[memory], setting);
                for (unsigned access = 0; access < sizeof accesses / sizeof *accesses; access++) {
                    reset_state();
                    map(owns[own], memories[memory]);
                    bool hypervisor = access >= 3;
                    WRITE(vsatp, 8ul << 60 | (uint64_t)own_root >> 12);
                    WRITE(hgatp, 8ul << 60 | (uint64_t)memory_root >> 12);
                    WRITE(hstatus, 1ul << 8); // SPVP: as the guest's supervisor
                    uint64_t bits = (setting & 1 ? SUM : 0) | (setting & 2 ? MXR : 0);
                    WRITE(vsstatus, READ(vsstatus) | bits);
                    WRITE(mstatus, READ(mstatus) | (setting & 4 ? MXR : 0));
                    // Also where HS handles what the guest raises.
                    WRITE(medeleg, setting & 1 ? -1ul & ~(1ul << 9 | 1ul << 10) : 0);
                    WRITE(hedeleg, setting & 2 ? -1ul : 0);
                    put(accesses[access]);
                    __asm__ volatile(".word 0x22000073, 0x62000073" ::: "memory");
                    run(hypervisor ? IN_HS : IN_VS, SEEN, 0);
                    tell();
                    loiter_print(":%lx:%lx", own_last[0] & 0xff, memory_last[0] & 0xff);
                }
                loiter_print("\n");
            }
        }
    }
}

// Where the tables of the guest themselves lie in memory that does not grant all.
static void tables(void) {
    static const uint64_t memories[] = {0, V | R | U | A | D, V | R | W | U | A | D, V | X | U | A | D, V | R | W | A | D};
    for (unsigned n = 0; n < sizeof memories / sizeof *memories; n++) {
        for (unsigned marked = 0; marked < 2; marked++) {
            loiter_print("table %lx/%u:", memories[n], marked);
            for (unsigned stores = 0; stores < 2; stores++) {
                reset_state();
                map(V | R | W | (marked ? A | D : 0), V | R | W | U | A | D);
                // The last table of the guest is seen through a page of its own.
                own_middle[0] = entry((void *)(PLACE + 4096), V);
                memory_last[1] = entry(own_last, memories[n]);
                WRITE(vsatp, 8ul << 60 | (uint64_t)own_root >> 12);
                WRITE(hgatp, 8ul << 60 | (uint64_t)memory_root >> 12);
                WRITE(medeleg, -1ul & ~(1ul << 9 | 1ul << 10));
                put(stores ? 0x00653023 : 0x00053303);
                __asm__ volatile(".word 0x22000073, 0x62000073" ::: "memory");
                run(IN_VS, SEEN, 0);
                tell();
                loiter_print(":%lx:%lx", own_last[0] & 0xff, memory_last[1] & 0xff);
            }
            loiter_print("\n");
        }
    }
}

// Addresses that no table can hold, a guest without tables of its own, and one without translated memory.
static void edges(void) {
    static const uint64_t addresses[] = {SEEN, 0x1ffffffffff, 0x20000000000, 0x4000000000, 0xffffffc000000000,
                                         0x8000000000000000};
    for (unsigned n = 0; n < sizeof addresses / sizeof *addresses; n++) {
        for (unsigned setting = 1; setting < 4; setting++) {
            reset_state();
            map(V | R | W | A | D, V | R | W | U | A | D);
            WRITE(vsatp, setting & 1 ? 8ul << 60 | (uint64_t)own_root >> 12 : 0);
            WRITE(hgatp, setting & 2 ? 8ul << 60 | (uint64_t)memory_root >> 12 : 0);
            WRITE(medeleg, -1ul & ~(1ul << 9 | 1ul << 10));
            put(0x00053303);
            __asm__ volatile(".word 0x22000073, 0x62000073" ::: "memory");
            run(IN_VS, addresses[n], 0);
            loiter_print("address %lx/%u:", addresses[n], setting);
            tell();
            loiter_print("\n");
        }
    }
}

// Machine mode accesses as what it has come from.
static void lent(void) {
    for (enum mode mode = IN_HS; mode < MODES; mode++) {
        reset_state();
        map(V | R | W | A | D, V | R | W | U | A | D);
        data[0] = 0x1122334455667788;
        WRITE(vsatp, 8ul << 60 | (uint64_t)own_root >> 12);
        WRITE(hgatp, 8ul << 60 | (uint64_t)memory_root >> 12);
        __asm__ volatile(".word 0x22000073, 0x62000073" ::: "memory");
        code[0] = 0x30059073; // csrw mstatus, a1
        code[1] = 0x00053503; // ld a0, 0(a0)
        code[2] = 0x00000073; // ecall
        static const uint64_t previous[] = {3, 1, 0, 1, 0};
        run(IN_M, SEEN, 3ul << 13 | MPRV | previous[mode] << 11 | (mode >= IN_VS ? MPV : 0));
        loiter_print("as %s: %lx", names[mode], last.mcause == 11 ? last.result : 0);
        tell();
        loiter_print("\n");
        WRITE(mstatus, READ(mstatus) & ~MPRV);
    }
}

LOITER_TASK(hypervisor) {
    loiter_start_together();
    if (!(READ(misa) & 1ul << 7)) {
        loiter_refuse("this hart cannot have guests: put h into hart.isa\n");
    }
    // All of memory is open to all modes.
    __asm__ volatile("csrw pmpaddr0, %0; csrw pmpcfg0, %1" : : "r"(-1ul), "r"(0x1ful));
    registers_keep();
    registers_by_mode();
    registers_of_guest();
    instructions();
    traps();
    interrupts();
    translation();
    tables();
    edges();
    lent();
}
