"""Saved runs: the same bytes each time, every changed byte found, and nothing that grows as it is read."""

import hashlib
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulate.cluster.saved_run import MAGIC, format_saved_run, parse_saved_run, read_saved_run
from topo.budget import SAVED_RUN_ARRAYS, SAVED_RUN_BYTES
from topo.errors import HeddleError

ARRAYS = {
    "plan": np.frombuffer(b"ClusterPlan()", np.uint8),
    "run.real": np.array([[0.1, np.nan], [np.inf, -0.0]]),
    "state.moves": np.zeros(3, np.dtype([("due", "f8"), ("left", "i4"), ("right", "i4")])),
    "empty": np.zeros((0, 4), np.int64),
}
SAVED = format_saved_run(ARRAYS)
SPOILT = r"no saved run|damaged or incomplete"


def forged(**members: bytes) -> bytes:
    """A file with these members and the digest that belongs to them."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return MAGIC + hashlib.sha256(out.getvalue()).digest() + out.getvalue()


def npy(array: np.ndarray, **options: bool) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **options)
    return out.getvalue()


def test_comes_back_to_the_last_bit() -> None:
    back = parse_saved_run(SAVED, "x")
    assert list(back) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
        assert back[name].tobytes() == array.tobytes()
    assert format_saved_run(back) == SAVED


@given(at=st.integers(0, len(SAVED) - 1), flip=st.integers(1, 255))
def test_every_changed_byte_is_found(at: int, flip: int) -> None:
    spoilt = bytearray(SAVED)
    spoilt[at] ^= flip
    with pytest.raises(HeddleError, match=SPOILT):
        parse_saved_run(bytes(spoilt), "x")


@given(length=st.integers(0, len(SAVED) - 1))
def test_what_is_cut_off_is_found(length: int) -> None:
    with pytest.raises(HeddleError, match=SPOILT):
        parse_saved_run(SAVED[:length], "x")


def test_nothing_grows_as_it_is_read() -> None:
    far = npy(np.zeros(2)).replace(b"(2,)", b"(2e9,)").replace(b"(2,)", b"(9,)")
    huge = npy(np.zeros(1, np.uint8)).replace(b"'shape': (1,), }          ", b"'shape': (10000000000,), }")
    assert huge != npy(np.zeros(1, np.uint8))
    members = {f"{number}.npy": npy(np.zeros(0)) for number in range(SAVED_RUN_ARRAYS.limit + 1)}
    pickled = npy(np.array([{}], object), allow_pickle=True)
    for data in (forged(a=far), forged(a=huge), forged(a=b"junk"), forged(**members), forged(a=pickled)):
        with pytest.raises(HeddleError, match="holds something other"):
            parse_saved_run(data, "x")


def test_refuses_a_bomb_unread() -> None:
    """Zeros that say they are more than may be, in a few bytes: refused by what the archive says of them."""
    bomb = bytearray(forged(a=bytes(2**16)))
    central = bomb.rindex(b"PK\x01\x02")
    bomb[central + 24 : central + 28] = (SAVED_RUN_BYTES.limit + 1).to_bytes(4, "little")
    start = len(MAGIC) + 32
    bomb[len(MAGIC) : start] = hashlib.sha256(bomb[start:]).digest()
    with pytest.raises(HeddleError, match="holds something other"):
        parse_saved_run(bytes(bomb), "x")


def test_reads_files_only(tmp_path: Path) -> None:
    (tmp_path / "run").write_bytes(SAVED)
    assert list(read_saved_run(tmp_path / "run")) == list(ARRAYS)
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "sparse").open("wb") as stream:
        stream.truncate(SAVED_RUN_BYTES.limit + 1)
    for name, says in (
        ("pipe", "found a pipe; expected a regular file"),
        ("", "found a folder; expected a regular file"),
        ("sparse", "budget saved-run-bytes"),
        ("no", "found no such file; expected a readable file"),
    ):
        with pytest.raises(HeddleError, match=says):
            read_saved_run(tmp_path / name)
