"""Inputs of the workloads that are made, not written: the same bytes every time, from seeds that stand here.

The programs that read them, and the inputs that are written, are in guests/linux/workloads.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

# Assumed: as long as the text that SPECint95's compress made for itself, in its short form.
TEXT_BYTES = 1 << 20
TEXT_WORDS = 4000
# Assumed: a compilation of about the length of the other workloads' rounds.
FUNCTIONS = 40

_ONSETS = ("b", "br", "c", "ch", "d", "f", "g", "gr", "h", "l", "m", "n", "p", "qu", "r", "s", "st", "t", "th", "v")
_VOWELS = ("a", "e", "i", "o", "u", "ea", "ou")
_CODAS = ("", "", "l", "m", "n", "nd", "r", "s", "st", "t")


def inputs() -> dict[str, bytes]:
    """The files by their names."""
    return {"text": text().encode(), "program.c": program().encode()}


def text() -> str:
    """Words as often as in a language: the n-th commonest 1/n times as often as the first (Zipf)."""
    source = random.Random(20020101)
    words = sorted({_word(source) for _ in range(2 * TEXT_WORDS)})
    source.shuffle(words)
    words = words[:TEXT_WORDS]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    lines: list[str] = []
    length = 0
    while length < TEXT_BYTES:
        line = " ".join(source.choices(words, weights, k=source.randint(8, 14)))
        if source.random() < 0.2:
            line = line.capitalize() + "."
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines) + "\n"


def _word(source: random.Random) -> str:
    parts = (
        source.choice(_ONSETS) + source.choice(_VOWELS) + source.choice(_CODAS) for _ in range(source.randint(1, 3))
    )
    return "".join(parts)


def program() -> str:
    """A program in C of many functions, which prints one number. Arithmetic is without sign, so that it is defined."""
    source = random.Random(19950101)
    body = [line for number in range(FUNCTIONS) for line in _function(source, number)]
    calls = [f"    sum = sum * 31 + function_{number}(sum, {number}u);" for number in range(FUNCTIONS)]
    head = ["extern int printf(const char *, ...);", "struct pair { unsigned first, second; };", ""]
    main = ["int main(void)", "{", "    unsigned sum = 1;", *calls, '    printf("%u\\n", sum);', "    return 0;", "}"]
    return "\n".join([*head, *body, *main]) + "\n"


def _function(source: random.Random, number: int) -> Iterator[str]:
    def constant() -> int:
        return source.randrange(1, 1 << 16)

    size = source.choice((8, 16, 32))
    yield f"unsigned function_{number}(unsigned a, unsigned b)"
    yield "{"
    yield f"    unsigned table[{size}], c = a ^ {constant()}u, d = b + {constant()}u;"
    yield "    struct pair pair = { a, b };"
    yield f"    for (unsigned i = 0; i < {size}; i++)"
    yield f"        table[i] = (a + i * {constant()}u) ^ (b >> (i % 7));"
    yield f"    for (unsigned i = 0; i < {size}; i++) {{"
    yield f"        switch ((table[i] + c) % {source.randint(5, 9)}) {{"
    for case in range(source.randint(3, 5)):
        yield f"        case {case}: {_statement(source, size)} break;"
    yield f"        default: {_statement(source, size)} break;"
    yield "        }"
    yield f"        if (pair.first % {source.randint(3, 11)} == {source.randint(0, 2)}) {{"
    yield f"            {_statement(source, size)}"
    yield "        } else {"
    yield f"            {_statement(source, size)}"
    yield "        }"
    yield "    }"
    if number:
        yield f"    if (d % {source.randint(13, 29)} == 0)"
        yield f"        c += function_{source.randrange(number)}(d >> 3, c >> 5);"
    yield "    return c ^ d ^ pair.first ^ pair.second;"
    yield "}"
    yield ""


def _statement(source: random.Random, size: int) -> str:
    constant = source.randrange(1, 1 << 16)
    return source.choice(
        (
            f"c = c * {constant}u + table[i];",
            f"d ^= table[(i + c) % {size}] >> {source.randint(1, 15)};",
            f"table[i] += c / {constant}u;",
            f"pair.first += d * {constant}u; pair.second ^= pair.first >> {source.randint(1, 15)};",
            f"c = (c << {source.randint(1, 31)}) | (d >> {source.randint(1, 31)});",
            f"pair.second += table[d % {size}] - {constant}u;",
        )
    )
