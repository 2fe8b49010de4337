"""Damaged copies of small files, and a limit on the memory that reading one may ask for."""

import re
from contextlib import contextmanager

from hypothesis import strategies as st

NUMBER = re.compile(rb"-?\d+")
NUMBERS = (b"0", b"-1", b"255", b"65536", b"2147483648", b"4294967295", b"9" * 30, b"1e999", b"nan", b"0.5", b"")
WORDS = (b"\0", b"\r", b"\n", b"\n\n", b" ", b"\t", b'"', b"'", b"(", b")", b"[", b"{", b"=", b",", b"?", b"\x80",
         "\u00e4".encode(), b"\xff\xff\xff\xff", b"\x00\x00\x00\x00")


@st.composite
def damaged(draw, raw, most=4):
    """`raw` after one to `most` changes: bytes replaced, cut off, put in, doubled or taken out, numbers swapped or replaced."""
    for _ in range(draw(st.integers(1, most))):
        raw = draw(st.sampled_from(CHANGES))(draw, raw)
    return raw


def _place(draw, raw):
    return draw(st.integers(0, max(0, len(raw) - 1)))


def _flip(draw, raw):
    if not raw:
        return raw
    at = _place(draw, raw)
    return raw[:at] + bytes([raw[at] ^ draw(st.integers(1, 255))]) + raw[at + 1:]


def _cut(draw, raw):
    return raw[:_place(draw, raw)]


def _put_in(draw, raw):
    at = _place(draw, raw)
    return raw[:at] + draw(st.one_of(st.sampled_from(WORDS), st.binary(min_size=1, max_size=20))) + raw[at:]


def _slice(draw, raw):
    start = _place(draw, raw)
    return start, min(len(raw), start + draw(st.integers(1, 60)))


def _double(draw, raw):
    start, end = _slice(draw, raw)
    at = _place(draw, raw)
    return raw[:at] + raw[start:end] * draw(st.integers(1, 3)) + raw[at:]


def _take_out(draw, raw):
    start, end = _slice(draw, raw)
    return raw[:start] + raw[end:]


def _swap_numbers(draw, raw):
    found = list(NUMBER.finditer(raw))
    if len(found) < 2:
        return raw
    i, j = sorted(draw(st.lists(st.integers(0, len(found) - 1), min_size=2, max_size=2)))
    a, b = found[i], found[j]
    return raw if i == j else raw[:a.start()] + b[0] + raw[a.end():b.start()] + a[0] + raw[b.end():]


def _other_number(draw, raw):
    found = list(NUMBER.finditer(raw))
    if not found:
        return raw
    number = draw(st.sampled_from(found))
    return raw[:number.start()] + draw(st.sampled_from(NUMBERS)) + raw[number.end():]


CHANGES = (_flip, _cut, _put_in, _double, _take_out, _swap_numbers, _other_number)


@contextmanager
def memory_limit(extra):
    """Whoever asks for more than `extra` bytes beyond what the process has now gets a MemoryError (where Linux counts it)."""
    try:
        import resource
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
    except (ImportError, OSError):
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + extra
    resource.setrlimit(resource.RLIMIT_AS, (limit if before[1] < 0 else min(limit, before[1]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
