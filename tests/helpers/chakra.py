"""Writes Chakra traces byte by byte, so that the reader is not tested against itself."""


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number: int, payload: bytes | int) -> bytes:
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def node(number: int, kind: int, deps: tuple[int, ...] = (), us: int = 0, **attributes: int | str | bool) -> bytes:
    values = {bool: 27, int: 9, str: 29}
    attrs = b"".join(
        field(
            10,
            field(1, name.encode())
            + field(values[type(value)], value.encode() if isinstance(value, str) else int(value)),
        )
        for name, value in attributes.items()
    )
    packed = b"".join(map(varint, deps[1:]))
    body = field(1, number) + field(2, f"n{number}".encode()) + field(3, kind) + field(6, 99) + field(7, us)
    return body + (field(4, deps[0]) if deps else b"") + field(5, packed) + field(8, field(1, b"x")) + attrs


def trace(*nodes: bytes) -> bytes:
    return b"".join(varint(len(message)) + message for message in (field(1, b"0.0.4"), *nodes))
