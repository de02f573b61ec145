"""Mutators: what becomes of a good file in the hands of bad disks, careless people and hostile ones."""

import copy
import gzip
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML

NUMBERS = [
    *(b"0", b"-1", b"1", b"255", b"256", b"65535", b"49152", b"2147483648", b"-2147483649", b"18446744073709551616"),
    *(b"9" * 40, b"1e309", b"1e-320", b"nan", b".inf", b"0x", b"0x0", b"00001", b"1_000", "\u0663".encode()),
]
TEXTS = [
    *(b"", b" ", b"\x00", b"\x1b[2J\x1b]0;x\x07", b"\r", b"\t", b"\x7f", b"\xff\xfe", "\x85".encode()),
    *("\u2028".encode(), b"=1+1", b"../../x", b"~", b"yes", b"null", b"a: b", b"- ", b"'", b'"', b"#", b"{", b"["),
    *(b"*a", b"&a ", b"!!python/object:os.system ", b"%s%n", b"x" * 5000),
]
NUMBER = re.compile(rb"\d+")
WORD = re.compile(rb"[A-Za-z_]{2,}")
HEX = re.compile(rb"[0-9a-f]{6,16}")


def spliced(data: bytes, start: int, end: int, new: bytes) -> bytes:
    """Put something in the place of a part."""
    return data[:start] + new + data[end:]


def another_number(data: bytes, rng: random.Random) -> bytes:
    """Change a number to one that is at an edge, or to another of the file."""
    found = list(NUMBER.finditer(data))
    if not found:
        return data
    match = rng.choice(found)
    return spliced(
        data,
        match.start(),
        match.end(),
        rng.choice([*NUMBERS, rng.choice(found)[0], b"%d" % rng.getrandbits(rng.randrange(1, 70))]),
    )


def another_word(data: bytes, rng: random.Random) -> bytes:
    """Put one word of the file, or a text made to be misread, in the place of another."""
    found = list((HEX if rng.random() < 0.3 else WORD).finditer(data))
    if not found:
        return data
    match = rng.choice(found)
    return spliced(data, match.start(), match.end(), rng.choice([rng.choice(found)[0], rng.choice(TEXTS)]))


def inserted(data: bytes, rng: random.Random) -> bytes:
    """Put a text made to be misread anywhere."""
    at = rng.randrange(len(data) + 1)
    return spliced(data, at, at, rng.choice(TEXTS))


def flipped(data: bytes, rng: random.Random) -> bytes:
    """Change some bytes at random."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def lines_moved(data: bytes, rng: random.Random) -> bytes:
    """Delete, repeat, swap or indent lines."""
    lines = data.split(b"\n")
    a, b = sorted(rng.randrange(len(lines) + 1) for _ in range(2))
    some = lines[a : min(b, a + rng.choice([1, 1, 3, 40]))]
    to = rng.randrange(len(lines) + 1)
    kind = rng.randrange(4)
    if kind == 0:
        lines[a : a + len(some)] = []
    elif kind == 1:
        lines[to:to] = some * rng.choice([1, 2, 50])
    elif kind == 2:
        lines[a : a + len(some)] = []
        lines[to:to] = some
    else:
        lines[a : a + len(some)] = [b"  " * rng.randrange(3) + line.strip() for line in some]
    return b"\n".join(lines)


def cut(data: bytes, rng: random.Random) -> bytes:
    """End it somewhere, or begin it later."""
    at = rng.randrange(len(data) + 1)
    return data[:at] if rng.random() < 0.7 else data[at:]


def swollen(data: bytes, rng: random.Random) -> bytes:
    """Repeat a part very often."""
    a = rng.randrange(len(data) + 1)
    part = data[a : a + rng.choice([1, 1, 7, 80])] or b"\n"
    return spliced(data, a, a, part * rng.choice([100, 3000, 20_000]))


ODD: list[Any] = [None, "", [], {}, True, 0, -1, 10**30, 1e308, -0.5, "nan", "1e3 B", [[[[]]]], {"": None}, "../../etc"]
"""Values that a schema may not expect."""


def reshaped(data: bytes, rng: random.Random) -> bytes:
    """Change the tree of a document of YAML or JSON: its values, keys and lists; other files stay as they are."""
    try:
        tree = YAML(typ="safe", pure=True).load(data) if len(data) < 50_000 else None
    except Exception:
        return data
    places = list(_places(tree))
    if not places:
        return data
    for holder, key in rng.choices(places, k=rng.choice([1, 1, 2, 4])):
        other, at = rng.choice(places)
        try:
            value = copy.deepcopy(rng.choice([rng.choice(ODD), other[at], [holder[key]], {"name": holder[key]}]))
            kind = rng.randrange(5)
            if kind == 0:
                del holder[key]
            elif kind == 1 and isinstance(holder, dict):
                holder[str(at)] = holder.pop(key)
            elif kind == 2 and isinstance(holder, list):
                holder.extend([holder[key]] * rng.choice([1, 3, 300]))
            else:
                holder[key] = value
        except (KeyError, IndexError):
            continue  # a change before has taken it away
    return json.dumps(tree, default=str).encode()  # JSON is YAML, too


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each holder of a value, with the value's key."""
    for key in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield tree, key
        yield from _places(tree[key])


def packed(data: bytes, rng: random.Random) -> bytes:
    """Pack it, perhaps not all of it, perhaps behind a mass of nothing."""
    whole = gzip.compress(data + rng.choice([b"", b"", b"\n" * 1_000_000, bytes(1_000_000)]), 1)
    return whole if rng.random() < 0.6 else whole[: rng.randrange(len(whole))]


def crossed(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Go on with another file of the kind."""
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


MUTATORS: Mapping[Callable[[bytes, random.Random], bytes], float] = {
    another_number: 8, another_word: 6, inserted: 4, flipped: 2, lines_moved: 5, cut: 1, swollen: 0.5, packed: 0.3,
    reshaped: 4,
}  # fmt: skip
"""Each with how often it is taken, relative to the others."""


def mutated(seeds: list[bytes], rng: random.Random) -> bytes:
    """Return one of some good files after a few changes."""
    data = rng.choice(seeds)
    if rng.random() < 0.05:
        data = crossed(data, rng.choice(seeds), rng)
    for change in rng.choices(list(MUTATORS), list(MUTATORS.values()), k=rng.choice([1, 1, 1, 2, 3, 6])):
        data = change(data, rng)
    return data
