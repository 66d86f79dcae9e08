// Arguments of tasks: `key=value` words of the command line.
#include "internal.h"

extern struct loiter_argument *const __loiter_arguments_start[];
extern struct loiter_argument *const __loiter_arguments_end[];

bool loiter_same_word(const char *start, const char *end, const char *name) {
    while (start < end && *name && *start == *name)
        start++, name++;
    return start == end && !*name;
}

static int digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

bool loiter_read_number(const char **at, const char *end, uint64_t *number) {
    const char *p = *at;
    int base = 10;
    if (end - p > 2 && p[0] == '0' && (p[1] | 0x20) == 'x') {
        base = 16;
        p += 2;
    }
    if (p == end || digit(*p) >= base)
        return false;
    uint64_t value = 0;
    for (; p < end && digit(*p) < base; p++)
        if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit(*p), &value))
            return false;
    *number = value;
    *at = p;
    return true;
}

static bool read_value(const char *at, const char *end, uint64_t *value) {
    if (!loiter_read_number(&at, end, value))
        return false;
    uint64_t unit = 1;
    if (at < end && (*at == 'k' || *at == 'M'))
        unit = *at++ == 'k' ? 1024 : 1024 * 1024;
    return at == end && !__builtin_mul_overflow(*value, unit, value);
}

void loiter_set_argument(const char *word, const char *equals, const char *end) {
    bool known = false;
    for (struct loiter_argument *const *link = __loiter_arguments_start; link < __loiter_arguments_end; link++) {
        if (!loiter_same_word(word, equals, (*link)->key))
            continue;
        known = true;
        if (!read_value(equals + 1, end, &(*link)->value))
            loiter_refuse("argument %.*s: the value must be an unsigned number, optionally with k (x 1024) or M after it\n",
                          (int)(end - word), word);
    }
    if (!known) {
        loiter_print("Arguments of this program:\n");
        loiter_list_arguments();
        loiter_refuse("no task of this program has an argument '%.*s'\n", (int)(equals - word), word);
    }
}

void loiter_list_arguments(void) {
    for (struct loiter_argument *const *link = __loiter_arguments_start; link < __loiter_arguments_end; link++)
        loiter_print("  %s=%llu  %s\n", (*link)->key, (unsigned long long)(*link)->value, (*link)->help);
}

uint64_t loiter_value(const struct loiter_argument *argument) { return argument->value; }

uint64_t loiter_value_at_least(const struct loiter_argument *argument, uint64_t least) {
    if (argument->value < least)
        loiter_refuse("argument %s=%llu is too small for task %s: at least %llu\n", argument->key,
                      (unsigned long long)argument->value, loiter_own_task()->name, (unsigned long long)least);
    return argument->value;
}
