// Console (16550 UART), a small printf, and the end of the run (sifive_test finisher).
#include <stdarg.h>

#include "internal.h"

static volatile uint8_t *const uart = (volatile uint8_t *)0x10000000;
enum { UART_DATA = 0, UART_LINE_STATUS = 5, UART_CAN_TAKE_BYTE = 1 << 5 };

static volatile uint32_t *const finisher = (volatile uint32_t *)0x100000;
enum { FINISHER_PASS = 0x5555, FINISHER_FAIL = 0x3333 };

static uint32_t console_busy;

static void put(char c) {
    while (!(uart[UART_LINE_STATUS] & UART_CAN_TAKE_BYTE)) {
    }
    uart[UART_DATA] = (uint8_t)c;
}

struct conversion {
    bool zero_padded, is_long, has_precision;
    int width, precision;
};

static void put_padding(int count, char c) {
    while (count-- > 0)
        put(c);
}

static void put_text(const struct conversion *how, const char *text) {
    int length = 0;
    while (text[length] && !(how->has_precision && length == how->precision))
        length++;
    put_padding(how->width - length, ' ');
    for (int i = 0; i < length; i++)
        put(text[i]);
}

static void put_number(const struct conversion *how, uint64_t value, bool negative, unsigned base) {
    char digits[20];
    int count = 0;
    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);

    int padding = how->width - count - negative;
    if (!how->zero_padded)
        put_padding(padding, ' ');
    if (negative)
        put('-');
    if (how->zero_padded)
        put_padding(padding, '0');
    while (count)
        put(digits[--count]);
}

static int read_int(const char **at) {
    int value = 0;
    for (; **at >= '0' && **at <= '9'; ++*at)
        value = value * 10 + (**at - '0');
    return value;
}

// `at` is behind the per cent sign; returns where the conversion letter stands.
static const char *read_conversion(const char *at, struct conversion *how, va_list *arguments) {
    if (*at == '0') {
        how->zero_padded = true;
        at++;
    }
    how->width = read_int(&at);
    if (*at == '.') {
        how->has_precision = true;
        at++;
        if (*at == '*') {
            how->precision = va_arg(*arguments, int);
            at++;
        } else {
            how->precision = read_int(&at);
        }
    }
    while (*at == 'l' || *at == 'z') {
        how->is_long = true; // l, ll and z are all 64 bits here
        at++;
    }
    return at;
}

static void convert(char letter, const struct conversion *how, va_list *arguments) {
    if (letter == 'c') {
        put((char)va_arg(*arguments, int));
    } else if (letter == 's') {
        put_text(how, va_arg(*arguments, const char *));
    } else if (letter == 'd') {
        int64_t value = how->is_long ? va_arg(*arguments, int64_t) : va_arg(*arguments, int);
        put_number(how, value < 0 ? -(uint64_t)value : (uint64_t)value, value < 0, 10);
    } else if (letter == 'u' || letter == 'x') {
        uint64_t value = how->is_long ? va_arg(*arguments, uint64_t) : va_arg(*arguments, unsigned);
        put_number(how, value, false, letter == 'u' ? 10 : 16);
    } else if (letter == 'p') {
        put('0');
        put('x');
        put_number(how, (uintptr_t)va_arg(*arguments, const void *), false, 16);
    } else {
        put(letter); // %%
    }
}

static void print(const char *format, va_list *arguments) {
    for (; *format; format++) {
        if (*format != '%') {
            put(*format);
            continue;
        }
        struct conversion how = {0};
        format = read_conversion(format + 1, &how, arguments);
        convert(*format, &how, arguments);
    }
}

static void take_console(void) {
    while (__atomic_exchange_n(&console_busy, 1, __ATOMIC_ACQUIRE)) {
    }
}

void loiter_print(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    take_console();
    print(format, &arguments);
    __atomic_store_n(&console_busy, 0, __ATOMIC_RELEASE);
    va_end(arguments);
}

static void __attribute__((noreturn)) end_with_error(unsigned code, const char *format, va_list *arguments) {
    take_console(); // and keeps it: an error is the last thing a run says
    static const char prefix[] = "error: ";
    for (const char *c = prefix; *c; c++)
        put(*c);
    print(format, arguments);
    loiter_exit(code);
}

void loiter_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    end_with_error(1, format, &arguments);
}

void loiter_refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    end_with_error(2, format, &arguments);
}

void loiter_exit(unsigned code) {
    __asm__ volatile("fence rw, o" : : : "memory");
    *finisher = code ? code << 16 | FINISHER_FAIL : FINISHER_PASS;
    loiter_park();
}
