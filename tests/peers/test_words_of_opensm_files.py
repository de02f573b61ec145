"""OpenSM and ibsim beside each word of the files that we write for them: a renamed one is noticed, or listed here.

`PASSED_OVER` names the words that the programs skip; `docs/validation/exports.md` says so, and the last test holds it
to that. A second reader (`tests/plan/export/test_contracts.py`) notices these, too.
"""

import re
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from helpers.strategies import nightly, tree
from plan.opensm_lab import ibsim
from plan.opensm_lab.ibsim import SEARCH, simulated
from routing.opensm.files import opensm_files
from routing.opensm.guid2lid import format_guid2lid
from routing.routed import Routed
from topo.dumps.ibnetdiscover import format_ibnetdiscover
from topo.errors import HeddleError, ToolError
from topo.fabric import Role
from topo.spec.base import TrafficClass

pytestmark = pytest.mark.peer("ibsim", "opensm", "ibnetdiscover", "usr/lib/*/umad2sim/libumad2sim.so")

CASE = tree(2, storage=1)
STORAGE = {"0x0a1629aab58ae601", "0x0a6b1f11c79bd801"}
PASSED_OVER = {
    "qos-policy.conf": {"class-other", *STORAGE},
    "partitions.conf": {"Default", "defmember", "ipoib"},
    "lfts": {"Lid", "lids", "of", "switch", "leaf0", "leaf1", "spine0", "spine1"} | {f"0x000{n}" for n in range(1, 9)},
    "io_guids": STORAGE,
    "fabric.ibnetdiscover": {"sysimgguid", '"S-', '"H-', "lmc"},
}
"""A level that no rule names; GUIDs of ports that are not there; words between those that a line is known by; LIDs of
entries that have a GUID; of ibsim, what it makes itself."""


@cache
def written() -> dict[str, str]:
    """The folder for OpenSM, of a fabric with storage and two classes of traffic."""
    other = TrafficClass(name="other", sl=0, vl=1, weight=64)
    classes = (other, TrafficClass(name="io", sl=1, vl=2, weight=64, roles=(Role.STORAGE,)))
    files = opensm_files(Routed(replace(CASE.fabric, traffic=classes), CASE.tables))
    texts = {name: (data if isinstance(data, bytes) else b"".join(data)).decode() for name, data in files.items()}
    return texts | {NAMES: texts[NAMES].replace('"', '"our ')}


def words_of(name: str) -> list[str]:
    """Words and numbers of a file without its comments."""
    body = re.sub(r"^#.*| # (?!portguid).*", "", written()[name], flags=re.MULTILINE)
    return sorted(set(re.findall(r"0x[0-9a-f]+|[A-Za-z][\w-]*", body)))


def rename(text: str, word: str) -> list[str]:
    """Give a word another letter at its end, or a number another last digit: where it stands first, and everywhere."""
    other = re.sub(".$", lambda last: "d" if last[0] == "e" else "e", word) if word.startswith("0x") else f"{word}x"
    return [re.sub(rf"(?<![\w-]){word}(?![\w-])", other, text, count=count) for count in (1, 0)]


ENGINES = {"root_guids": "updn", "cn_guids": "ftree", "io_guids": "ftree"}
"""That read lists; all other files are read whatever the engine."""


def sweep(name: str, text: str) -> Any:
    """What OpenSM says, and what then stands in the fabric, with a file of its own."""
    files = {key: data.encode() for key, data in (written() | {name: text}).items() if key != "opensm.conf"}
    if name == "lfts":  # with other LIDs, so that entries are told apart by their GUIDs
        guids, lids = CASE.fabric.end_guid.tolist(), CASE.tables.lid.tolist()
        files["guid2lid"] = format_guid2lid(zip(guids, lids[::-1], [1] * len(lids), strict=True)).encode()
    with TemporaryDirectory() as folder, simulated(CASE.fabric, Path(folder)) as subnet:
        try:
            run = subnet.opensm(ENGINES.get(name, "file"), files, options=["-Q"])
            if errors := run.errors:
                return [re.sub(r"/\S+/", "", line) for line in errors]
            told = [run.tables.lid.tolist(), run.tables.lft.tolist(), (run.folder / "opensm-sl2vl.dump").read_text()]
            told += [path.read_text() for path in sorted(run.folder.glob("opensm-*-*.dump")) if name in ENGINES]
            queries = [["ibnetdiscover", "--node-name-map", f"{folder}/files/node-name-map"]] if name == NAMES else []
            if name == "partitions.conf":
                queries = [["smpquery", "pkeys", str(lid)] for lid in run.tables.lid[CASE.fabric.n_switches :]]
            for lines in (subnet.run(query).splitlines() for query in queries):
                told.append([line for line in lines if not line.startswith(("ibwarn", "#"))])
            return told
        except HeddleError as error:
            return re.sub(r"/\S+/|\[\d+\]", "", str(error))


NAMES = "node-name-map"
BY_DAY = ("qos-policy.conf", "guid2lid", "root_guids")
FILES = ("qos-policy.conf", "partitions.conf", "lfts", "guid2lid", "node-name-map", *ENGINES)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name if name in BY_DAY else nightly(name) for name in FILES])
def test_opensm_notices_each_renamed_word(name: str) -> None:
    as_written = sweep(name, written()[name])
    assert as_written == sweep(name, written()[name]) and isinstance(as_written[0], list), "no error"
    text = written()[name]
    missed = {word for word in words_of(name) if all(sweep(name, one) == as_written for one in rename(text, word))}
    assert missed == PASSED_OVER.get(name, set())


def options(text: str, folder: Path) -> tuple[set[str], dict[str, str]]:
    """Options of a file that OpenSM does not know, and all of its own as it has read them."""
    (folder / "given").write_text(text)
    done = subprocess.run(
        ["opensm", "-F", "given", "-c", "taken"], cwd=folder, env={"PATH": SEARCH}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    rows = [line.partition(" ")[::2] for line in (folder / "taken").read_text().splitlines() if line[:1].isalpha()]
    return set(re.findall(r'Unrecognized token: "(\w+)"', done.stdout)), dict(rows)


def test_opensm_takes_each_option_and_names_each_renamed_one(tmp_path: Path) -> None:
    text = written()["opensm.conf"]
    given = dict(line.split(" ", 1) for line in text.splitlines() if line[:1].isalpha())
    unknown, taken = options(text, tmp_path)
    assert unknown == set() and {key: taken[key] for key in given} == given
    unknown, _ = options(re.sub(r"^(\w+) ", r"\1x ", text, flags=re.MULTILINE), tmp_path)
    assert unknown == {f"{key}x" for key in given}


WORDS_OF_DUMP = (
    "vendid", "devid", "sysimgguid", "switchguid", "caguid", "Switch", "Ca", '"S-', '"H-', "enhanced", "lid", "lmc",
    "4xHDR", '"leaf0', '"host0-0 mlx5_0',
)  # fmt: skip


def found_on(text: str) -> list[str] | str:
    """What the real ibnetdiscover finds on a fabric that ibsim has read from a file."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(ibsim, "format_ibnetdiscover", lambda fabric: text)
        try:
            with simulated(CASE.fabric, Path(folder), timeout_s=5) as subnet:
                return [line for line in subnet.ibnetdiscover().splitlines() if not line.startswith("#")]
        except ToolError as error:
            return str(error)


@pytest.mark.slow
def test_ibsim_notices_each_renamed_word() -> None:
    text = format_ibnetdiscover(CASE.fabric)
    as_written = found_on(text)
    assert as_written == found_on(text) and len(as_written) > 40
    assert all(word in text for word in WORDS_OF_DUMP)
    renamed = {word: re.sub("[A-Za-z0-9]", "z", word, count=1) for word in WORDS_OF_DUMP}
    missed = {word for word, other in renamed.items() if found_on(text.replace(word, other)) == as_written}
    assert missed == PASSED_OVER["fabric.ibnetdiscover"]


def test_the_page_says_what_is_passed_over(repository: Path) -> None:
    page = (repository / "docs/validation/exports.md").read_text(encoding="utf-8")
    said = set(re.findall(r"`([^`]+)`", page.partition("pass over")[2].partition("\n\n")[0]))
    assert said >= {word.strip('"') for words in PASSED_OVER.values() for word in words if not re.search(r"\d", word)}
