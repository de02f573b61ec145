"""qos-policy.conf is read back as it was written, and what is not understood is refused with its line."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.lanes.policy import MatchRule, PortGroup, QosPolicy
from routing.opensm import qos_policy
from routing.opensm.qos_policy import format_qos_policy, parse_qos_policy
from topo.budget import POLICY_MEMBERS
from topo.errors import FormatError

NAMES = st.lists(st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,12}", fullmatch=True), min_size=1, max_size=60, unique=True)


@st.composite
def policies(draw: st.DrawFn) -> QosPolicy:
    names = draw(NAMES)
    guids = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=30).map(tuple)
    groups = tuple(PortGroup(name, draw(guids)) for name in names)
    levels = tuple((f"level-{sl}", sl) for sl in draw(st.lists(st.integers(1, 15), max_size=5, unique=True)))
    some = st.lists(st.sampled_from(names), max_size=50, unique=True).map(tuple)
    words = st.sampled_from(["DEFAULT", *(name for name, _ in levels)])
    rules = draw(st.lists(st.builds(MatchRule, words, some, some), max_size=6))
    return QosPolicy(levels, groups, tuple(rules))


@given(policies())
def test_what_is_written_is_read_back(policy: QosPolicy) -> None:
    text = format_qos_policy(policy)
    assert parse_qos_policy(text) == policy
    assert max(map(len, text.splitlines())) < 4096


WHOLE = format_qos_policy(
    QosPolicy((("gold", 2),), (PortGroup("storage", (1, 2)),), (MatchRule("gold", ("storage",)),))
)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (WHOLE.replace("port-guid: ", "port-name: "), 2, "found 'port-name'"),
        (WHOLE.replace("0x0000000000000002", "0x1-0x9"), 2, "single port GUIDs"),
        (WHOLE.replace("sl: 2", "sl: 16"), 12, "the SL '16'"),
        (WHOLE.replace("source: storage", "source: nobody"), 18, "'nobody', which nothing defines"),
        (WHOLE.replace("qos-level-name: gold", "qos-level-name: iron"), 18, "'iron', which nothing defines"),
        (WHOLE.replace("source: storage", "service-id: 0x1"), 18, "found 'service-id'"),
        (WHOLE.replace("    end-qos-level\n", "", 1), 11, "found 'qos-level'; expected 'key: value' or end-qos-level"),
        (WHOLE[: WHOLE.rindex("end-qos-match-rules")], 0, "ends inside qos-match-rules"),
        (WHOLE.replace("sl: 0", "sl: 3"), 0, "no level DEFAULT with the SL 0"),
        ("qos-ulps\n    default : 0\nend-qos-ulps\n", 1, "found 'qos-ulps'"),
        ("Switch 41\n", 1, "found 'Switch 41'"),
        ("", 0, "no level DEFAULT"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(text: str, line: int, says: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_qos_policy(text, "policy")
    assert says in str(caught.value)
    assert caught.value.line == line


def test_remarks_and_comments_mean_nothing() -> None:
    text = WHOLE.replace("name: storage", "name: storage # ours\n        use: all that stores")
    assert parse_qos_policy(f"# by hand\n\n{text}") == parse_qos_policy(WHOLE)


def test_members_of_all_lists_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = QosPolicy((("gold", 2),), (PortGroup("storage", (1, 2, 3)),), (MatchRule("gold", ("storage",)),))
    text = format_qos_policy(policy)
    values = [line.partition("#")[0].partition(":")[2] for line in text.splitlines() if ":" in line.partition("#")[0]]
    members = sum(len(value.split(",")) for value in values)
    monkeypatch.setattr(qos_policy, "POLICY_MEMBERS", replace(POLICY_MEMBERS, limit=members))
    assert parse_qos_policy(text) == policy
    monkeypatch.setattr(qos_policy, "POLICY_MEMBERS", replace(POLICY_MEMBERS, limit=members - 1))
    with pytest.raises(FormatError, match=f"more than {members - 1} members"):
        parse_qos_policy(text)
