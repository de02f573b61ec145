"""Published rates of failures, worked out again from what their sources counted."""

from datetime import date
from math import log

import pytest

from simulate.cluster.failures import RATES


def test_rates_are_failures_of_a_part_over_the_part_of_a_year_in_which_they_were_counted() -> None:
    year = 365

    def days(first: date, last: date) -> int:
        return (last - first).days + 1

    cuts = 213 / 3200 / (days(date(2023, 4, 19), date(2024, 3, 31)) / year)
    servers = 203 / 1250 / (days(date(2023, 10, 1), date(2024, 3, 31)) / year)
    rates = {kind: rate for kind, (rate, _) in RATES.items()}
    assert rates["link"] == rates["adapter"] == pytest.approx(cuts, rel=1e-3)
    assert rates["server"] == pytest.approx(servers, rel=1e-3)
    assert rates["rack"] == pytest.approx(20 / (1800 / 40))
    assert rates["switch"] == pytest.approx(-4 * log(1 - 0.02), rel=5e-3)  # of an exponential life, four quarters
