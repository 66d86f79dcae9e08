"""Symbols out of a kernel's `Image`: the table that the kernel itself uses (kallsyms).

The layout is that of scripts/kallsyms.c in Linux 6.4 to 6.12, in read-only data, each part at a multiple of 8:

    num_syms       u32
    names          for each symbol: length (a byte, or two with bit 7 of the first set), then token numbers
    markers        u32 for each 256 symbols: where in names they begin
    token_table    256 strings that end in NUL; the first letter of a symbol spelt out is its kind
    token_index    256 u16: where in the table each begins
    offsets        u32 for each symbol, from relative_base
    relative_base  u64

Nothing points to it from outside, so the digits of the token table are looked for, which stand for themselves in every
kernel, and each part is checked against the next.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_TOKENS = 256
_SYMBOLS_A_MARKER = 256
_DIGITS = b"".join(bytes([digit, 0]) for digit in b"0123456789")
# Where riscv64 kernels are linked: KERNEL_LINK_ADDR in arch/riscv/include/asm/pgtable.h. A relocatable kernel holds
# relative_base only as a relocation.
LINK_ADDRESS = 0xFFFF_FFFF_8000_0000


class NoSymbols(Exception):
    """The kernel has no table, or one of another form."""


@dataclass(frozen=True)
class Symbol:
    """A symbol as `System.map` has it."""

    address: int
    kind: str
    name: str


def read(data: bytes) -> list[Symbol]:
    """Every symbol of a raw `Image`, by address."""
    at = data.find(_DIGITS)
    while at >= 0:
        tokens = _token_table(data, at)
        if tokens is not None:
            return _symbols(data, tokens)
        at = data.find(_DIGITS, at + 1)
    raise NoSymbols("it has no table of symbols; was it built without CONFIG_KALLSYMS?")


@dataclass(frozen=True)
class _Tokens:
    begin: int
    texts: list[bytes]
    index_end: int


def _token_table(data: bytes, digits: int) -> _Tokens | None:
    """The token table whose digits are at `digits`, if its index, which follows it, agrees."""
    begin = digits
    for _ in range(ord("0")):
        begin = data.rfind(b"\0", 0, begin - 1) + 1
    texts = data[begin : begin + (1 << 16)].split(b"\0", _TOKENS)[:_TOKENS]
    ends = 0
    begins = []
    for text in texts:
        begins.append(ends)
        ends += len(text) + 1
    index = _aligned(begin + ends)
    if begin % 8 or len(texts) != _TOKENS or struct.unpack_from(f"<{_TOKENS}H", data, index) != tuple(begins):
        return None
    return _Tokens(begin, texts, index + 2 * _TOKENS)


def _symbols(data: bytes, tokens: _Tokens) -> list[Symbol]:
    markers_at, markers = _markers(data, tokens.begin)
    count, names_at = _names(data, markers_at, markers)
    offsets_at = _aligned(tokens.index_end)
    offsets = struct.unpack_from(f"<{count}I", data, offsets_at)
    (base,) = struct.unpack_from("<Q", data, _aligned(offsets_at + 4 * count))
    symbols = []
    at = names_at
    for offset in offsets:
        length, at = _length(data, at)
        text = b"".join(tokens.texts[token] for token in data[at : at + length]).decode()
        symbols.append(Symbol((base or LINK_ADDRESS) + offset, text[0], text[1:]))
        at += length
    return symbols


def _markers(data: bytes, end: int) -> tuple[int, list[int]]:
    """The markers that end where the token table begins, or one word before it."""
    at = end - 4
    if _word(data, at) == 0:
        at -= 4
    found = [_word(data, at)]
    while found[-1] != 0:
        at -= 4
        word = _word(data, at)
        if word >= found[-1]:
            raise NoSymbols("its table of symbols is of a form that is not known here")
        found.append(word)
    return at, found[::-1]


def _names(data: bytes, markers_at: int, markers: list[int]) -> tuple[int, int]:
    """Number of symbols and place of their names, which end where the markers begin."""
    least, most = _SYMBOLS_A_MARKER * (len(markers) - 1) + 1, _SYMBOLS_A_MARKER * len(markers)
    at = (markers_at - markers[-1]) // 8 * 8
    # What follows the last marker is at most so many names of the greatest length.
    lowest = max(8, at - _SYMBOLS_A_MARKER * 0x4000)
    while at >= lowest:
        count = _word(data, at - 8)
        if least <= count <= most and _word(data, at - 4) == 0 and _fits(data, at, count, markers_at, markers):
            return count, at
        at -= 8
    raise NoSymbols("its table of symbols is of a form that is not known here")


def _fits(data: bytes, at: int, count: int, end: int, markers: list[int]) -> bool:
    begin = at
    for number in range(count):
        if number % _SYMBOLS_A_MARKER == 0 and at - begin != markers[number // _SYMBOLS_A_MARKER]:
            return False
        length, at = _length(data, at)
        at += length
        if at > end:
            return False
    return _aligned(at) == end


def _length(data: bytes, at: int) -> tuple[int, int]:
    length = data[at]
    if length & 0x80:
        return length & 0x7F | data[at + 1] << 7, at + 2
    return length, at + 1


def _word(data: bytes, at: int) -> int:
    word: int = struct.unpack_from("<I", data, at)[0]
    return word


def _aligned(at: int) -> int:
    return (at + 7) // 8 * 8
