"""What is asked again with less, and what that saves."""

from functools import cache

import costmodel
from costmodel.optimise.needs import Needs
from costmodel.optimise.search import Search
from costmodel.optimise.tradeoffs import SHARES
from helpers.needs import needs


@cache
def _found(asked: str) -> Search:
    return costmodel.optimise(Needs.model_validate_json(asked))


def test_less_is_asked_and_never_costs_more() -> None:
    """A need each, and bandwidth in steps: whatever meets a need meets less of it."""
    asked: list[Needs] = []

    def search(less: Needs) -> Search:
        asked.append(less)
        return _found(less.model_dump_json(exclude_unset=True))

    whole = needs(6, growth=0.5, survives_a_switch=True)
    found = costmodel.trade_off(costmodel.optimise(whole), search)
    assert found.whole.winner is not None
    assert [less.job.bisection for less in asked[: len(SHARES)]] == [whole.job.bisection * share for share in SHARES]
    assert [name for name, _ in found.relaxed] == ["growth", "survives_a_switch"]
    assert [(less.growth, less.survives_a_switch) for less in asked[len(SHARES) :]] == [(0, True), (0.5, False)]
    prices = [one.winner.price for _, one in found.curve if one.winner]
    assert len(prices) == 1 + len(SHARES)
    assert prices == sorted(prices, reverse=True)
    relaxed = [one.winner.price for _, one in found.relaxed if one.winner]
    assert len(relaxed) == 2
    assert max(relaxed) <= found.whole.winner.price
    (saved,) = [column.values for column in found.table.columns if column.name == "saved"]
    assert list(saved) == [found.whole.winner.price - price for price in relaxed]
