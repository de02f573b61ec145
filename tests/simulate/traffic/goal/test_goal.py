import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.goals import goals, same
from helpers.strategies import examples
from routing import route
from simulate import play
from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.flows import Flows
from simulate.traffic.goal.schedule import Goal, Op, flows_of_goal, goal_of_flows
from simulate.traffic.goal.text import format_goal, parse_goal, read_goal
from simulate.traffic.network import Network
from topo import preset
from topo.errors import FormatError

EXAMPLE = """\
// two ranks
num_ranks 2

rank 0 {
l1: send 1048576b to 1 tag 7
l2: calc 5000   // a comment
/* more
   of them */ l2 requires l1
}
rank 1 {
  in: recv 1048576b from -1 tag -1 cpu 2 nic 3
calc 7 cpu 1
}
"""


def parsed(text: str) -> Goal:
    return parse_goal(text.split("\n"), "f.goal")


def test_reads_the_grammar() -> None:
    goal = parsed(EXAMPLE)

    assert goal.n_ranks == 2
    assert goal.op.tolist() == [Op.SEND, Op.CALC, Op.RECV, Op.CALC]
    assert goal.rank.tolist() == [0, 0, 1, 1]
    assert goal.size.tolist() == [1048576, 5000, 1048576, 7]
    assert goal.peer.tolist() == [1, -1, -1, -1]
    assert goal.tag.tolist() == [7, 0, -1, 0]
    assert goal.cpu.tolist() == [0, 0, 2, 1]
    assert goal.nic.tolist() == [0, 0, 3, 0]
    assert goal.requires.tolist() == [[1, 0]]
    assert goal.line.tolist() == [5, 6, 11, 12]
    assert format_goal(goal) == (
        "num_ranks 2\n\nrank 0 {\nl1: send 1048576b to 1 tag 7\nl2: calc 5000\nl2 requires l1\n}\n\n"
        "rank 1 {\nl1: recv 1048576b from -1 tag -1 cpu 2 nic 3\nl2: calc 7 cpu 1\n}\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.goal:1: found an empty file; expected num_ranks"),
        ("rank 0 {\n}", 'f.goal:1: found "rank 0 {"; expected num_ranks and how many there are'),
        ("num_ranks 0", "f.goal:1: found num_ranks 0; expected 1 to 1000000"),
        ("num_ranks 99999999999999999999", "expected 1 to 1000000"),
        ("num_ranks 2\nl1: calc 5", 'f.goal:2: found "l1: calc 5"; expected rank and its number, then {'),
        ("num_ranks 2\nrank 2 {\n}", "f.goal:2: found rank 2; expected 0 to 1"),
        ("num_ranks 2\nrank 0 {\n}\nrank 0 {\n}", "f.goal:4: found rank 0 a second time"),
        ("num_ranks 2\nrank 0 {\nl1: calc 5", "f.goal:2: found rank 0 without } at its end"),
        ("num_ranks 2\nrank 0 {\nl1: send -5b to 1\n}", "f.goal:3: found size -5; expected 0 to 9007199254740992"),
        ("num_ranks 2\nrank 0 {\nl1: calc 5\nl1: calc 5\n}", "f.goal:4: found the label l1 a second time in rank 0"),
        ("num_ranks 2\nrank 0 {\nl1: send 5b to 2\n}", "f.goal:3: found rank 2; expected 0 to 1"),
        ("num_ranks 2\nrank 0 {\nl1: send 5b to -1\n}", "f.goal:3: found rank -1; expected 0 to 1"),
        ("num_ranks 2\nrank 0 {\nl1: send 5b from 1\n}", 'f.goal:3: found "l1: send 5b from 1"; expected send ... to'),
        ("num_ranks 2\nrank 0 {\nl1: sned 5b to 1\n}", "expected send, recv, calc, a dependency between labels, or }"),
        (
            "num_ranks 2\nrank 0 {\nup1: calc 5\nup1 requires up2\n}",
            "f.goal:4: found the label up2; .*, in rank 0. Did you mean `up1`",
        ),
        ("num_ranks 2\n/* rank 0", "f.goal:2: found /\\* without \\*/"),
    ],
)
def test_refuses_and_says_where(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message.replace("{", r"\{").replace("}", r"\}")):
        parsed(text)


@pytest.mark.parametrize(
    ("rank0", "rank1", "message"),
    [
        ("send 5b to 1 tag 3", "", "f.goal:3: found rank 0: send 5b to 1 tag 3 without a receive at rank 1"),
        ("send 5b to 1", "recv 4b from 0", "f.goal:6: found rank 1: recv 4b from 0 tag 0 for the 5 bytes of line 3"),
        ("a: recv 5b from 1\nb: calc 3\nb requires a", "", "f.goal:3: found rank 0: recv 5b .*without a send"),
        (
            "a: calc 1\nb: calc 2\na requires b\nb requires a",
            "",
            "f.goal:[34]: found operations that wait for each other in a circle: line . waits for line . waits",
        ),
        (
            "a: recv 5b from 1\nb: send 5b to 1\nb requires a",
            "a: recv 5b from 0\nb: send 5b to 0\nb requires a",
            "in a circle: line",
        ),
    ],
)
def test_refuses_what_cannot_run(rank0: str, rank1: str, message: str) -> None:
    goal = parsed(f"num_ranks 2\nrank 0 {{\n{rank0}\n}}\nrank 1 {{\n{rank1}\n}}")
    with pytest.raises(FormatError, match=message):
        flows_of_goal(goal)


@given(goal=goals())
def test_text_round_trip(goal: Goal) -> None:
    text = format_goal(goal)

    same(parse_goal(text.split("\n")), goal)
    assert format_goal(parse_goal(text.split("\n"))) == text


def matched(goal: Goal) -> dict[int, int]:
    """The send of each receive, found one by one: receives with names first, then those with wildcards."""
    sends = [op for op in range(len(goal)) if goal.op[op] == Op.SEND]
    recvs = [op for op in range(len(goal)) if goal.op[op] == Op.RECV]
    result: dict[int, int] = {}
    for wild in (False, True):
        for recv in recvs:
            if wild != (goal.peer[recv] == -1 or goal.tag[recv] == -1):
                continue
            for send in sends:
                if (
                    send not in result.values()
                    and goal.peer[send] == goal.rank[recv]
                    and goal.peer[recv] in (-1, goal.rank[send])
                    and goal.tag[recv] in (-1, goal.tag[send])
                ):
                    result[recv] = send
                    break
    return result


def finishes_of_goal(goal: Goal, eager: float) -> np.ndarray:
    """When each calculation, message and receive ends if a byte takes a nanosecond, by relaxation; inf for never."""
    send_of = matched(goal)
    begin, end = np.zeros(len(goal)), np.zeros(len(goal))
    for _ in range(2 * len(goal) + 2):
        before = begin.copy(), end.copy()
        for waiter, awaited in goal.requires.tolist():
            in_buffer = goal.op[awaited] == Op.SEND and goal.size[awaited] <= eager
            begin[waiter] = max(begin[waiter], (begin if in_buffer else end)[awaited])
        for waiter, awaited in goal.irequires.tolist():
            begin[waiter] = max(begin[waiter], begin[awaited])
        moves_from = begin.copy()
        for recv, send in send_of.items():
            if goal.size[send] > eager:
                moves_from[send] = max(begin[send], begin[recv])
        for op in range(len(goal)):
            end[op] = moves_from[op] + (0 if goal.op[op] == Op.RECV else goal.size[op])
        for recv, send in send_of.items():
            end[recv] = max(begin[recv], end[send])
        if np.array_equal(before[0], begin) and np.array_equal(before[1], end):
            return end
    return np.full(len(goal), np.inf)  # a circle


def finishes_of_flows(flows: Flows) -> np.ndarray:
    """When each flow ends if a byte takes a nanosecond, and nothing at the same rank."""
    end = np.zeros(len(flows))
    waiter = np.repeat(np.arange(len(flows)), np.diff(flows.dep_offset))
    moving = np.where(flows.src == flows.dst, 0, flows.size_bytes)
    for _ in range(len(flows) + 1):
        begin = flows.start_s * 1e9
        np.maximum.at(begin, waiter, end[flows.dep])
        end = begin + flows.delay_s * 1e9 + moving
    return end


@pytest.mark.slow
@given(goal=goals(), eager=st.sampled_from([0, 30, 60, 99]))
@examples(300)
def test_flows_end_when_the_operations_do(goal: Goal, eager: int) -> None:
    expected = finishes_of_goal(goal, eager)
    sends = (goal.op == Op.SEND) & (goal.peer != goal.rank)
    if np.any((goal.op == Op.SEND) & (goal.peer == goal.rank)):
        return  # a message to its own rank takes no time as a flow
    try:
        flows = flows_of_goal(goal, eager)
    except FormatError as error:
        text = str(error)
        lost = len(matched(goal)) < np.count_nonzero(goal.op == Op.SEND)
        circle = not np.isfinite(expected).all()
        assert ("circle" in text and circle) or ("without a receive" in text and lost) or "without a send" in text
        return
    assert np.isfinite(expected).all()
    finish = finishes_of_flows(flows)
    moving = flows.src != flows.dst

    assert np.array_equal(flows.rendezvous, moving & (flows.size_bytes > eager))
    np.testing.assert_allclose(np.sort(finish[moving]), np.sort(expected[sends]), rtol=1e-12)
    np.testing.assert_allclose(finish.max(initial=0), max(expected.max(initial=0), 0), rtol=1e-12)


def test_sixteen_segments_down_a_chain_overlap() -> None:
    # Each rank passes a segment on when it has it: (ranks - 1 + segments - 1) segment times, not their product.
    n, segments, size = 8, 16, 50_000
    text = [f"num_ranks {n}"]
    for rank in range(n):
        text.append(f"rank {rank} {{")
        for at in range(segments):
            text += [f"r{at}: recv {size}b from {rank - 1} tag {at}"] if rank else []
            text += [f"s{at}: send {size}b to {rank + 1} tag {at}"] if rank < n - 1 else []
            text += [f"s{at} requires r{at}"] if 0 < rank < n - 1 else []
        text.append("}")
    flows = flows_of_goal(parse_goal(text))
    network = Network.of(route(preset("lab-20").fabric), latency_s=0)
    hosts = network.fabric.ends(role="compute")[:n]
    times = {order: play(network, flows.placed(hosts).in_order(order)).makespan_s for order in ("peer", "none")}

    assert times["peer"] == pytest.approx((n - 1 + segments - 1) * size / 25e9)
    assert times["none"] == pytest.approx((n - 1) * segments * size / 25e9)


def test_large_messages_that_wait_for_each_other_are_a_circle() -> None:
    rank = "s: send 70000b to {to}\nr: recv 70000b from {to}\nr requires s"
    goal = parsed(f"num_ranks 2\nrank 0 {{\n{rank.format(to=1)}\n}}\nrank 1 {{\n{rank.format(to=0)}\n}}")

    assert len(flows_of_goal(goal, eager_bytes=70_000)) == 4
    with pytest.raises(FormatError, match=r"circle: .*; messages above the threshold `eager` wait for their receives"):
        flows_of_goal(goal)


@st.composite
def flow_sets(draw: st.DrawFn) -> Flows:
    n, n_ranks = draw(st.integers(0, 12)), draw(st.integers(1, 4))
    draws = lambda top: draw(st.lists(st.integers(0, top), min_size=n, max_size=n))  # noqa: E731
    pairs = [(f, draw(st.integers(0, f - 1))) for f in range(1, n) if draw(st.booleans())]
    after = np.array(pairs, np.int64).reshape(-1, 2).T
    src, dst = draws(n_ranks - 1), draws(n_ranks - 1)
    times = np.array([draws(50), draws(50)]).reshape(2, -1) * 1e-9
    if n == 0:
        return Flows.of(np.zeros(0, int), np.zeros(0, int), np.zeros(0))
    return Flows.of(src, dst, draws(99), start_s=times[0], delay_s=times[1], after=(after[0], after[1]))


@pytest.mark.slow
@given(flows=flow_sets())
@examples(300)
def test_flows_go_through_goal_and_keep_their_times(flows: Flows) -> None:
    goal = parse_goal(format_goal(goal_of_flows(flows, 4)).split("\n"))
    again = flows_of_goal(goal, eager_bytes=0)  # flows wait for the end of one another, not until one is in a buffer
    moving, back = flows.src != flows.dst, (again.src != again.dst) & (again.tag < len(flows))
    order = np.argsort(again.tag[back])

    np.testing.assert_array_equal(again.src[back][order], flows.src[moving])
    np.testing.assert_array_equal(again.dst[back][order], flows.dst[moving])
    np.testing.assert_array_equal(again.size_bytes[back][order], flows.size_bytes[moving])
    np.testing.assert_allclose(
        finishes_of_flows(again)[back][order], finishes_of_flows(flows)[moving], rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("algorithm", ["ring", "double-binary-tree", "hierarchical", "halving-doubling"])
def test_collectives_survive_goal(algorithm: str) -> None:
    flows = schedule("allreduce", algorithm, 8, chunks=2, groups=np.arange(8) // 4).flows(1 << 20)
    again = flows_of_goal(parse_goal(format_goal(goal_of_flows(flows, 8)).split("\n")), eager_bytes=0)

    assert finishes_of_flows(again).max() == pytest.approx(finishes_of_flows(flows).max())
    if algorithm in ("ring", "double-binary-tree"):  # whose senders know all that they wait for
        assert len(again) == len(flows)


@given(text=st.text(st.sampled_from("num_ranks 2 rank0{}l1:send5btorecvfrom-calc\n/*/requires"), max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, f"num_ranks 2\nrank 0 {{\n{text}\n}}"):
        try:
            parse_goal(whole.split("\n"))
        except FormatError as error:
            assert error.line > 0


def test_reads_files(tmp_path) -> None:
    path = tmp_path / "trace.goal"
    path.write_text(EXAMPLE, encoding="utf-8")

    same(read_goal(path), parsed(EXAMPLE))
    assert len(flows_of_goal(read_goal(path))) == 3


def test_waits_of_flows_are_calculations_of_so_many_nanoseconds() -> None:
    goal = goal_of_flows(Flows.of([0, 1], [1, 0], 8.0, start_s=[0.0, 5e-6], delay_s=[3e-6, 0.0]), 2)
    assert sorted(goal.size[goal.op == Op.CALC].tolist()) == [3_000, 5_000]
