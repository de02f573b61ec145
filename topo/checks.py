"""Limits that a plan keeps or misses: what was found, by how much it is missed, and what to change."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from topo.amounts import Range, Sum, Verdict, decimals_apart, listed, rounded
from topo.table import Brief


@dataclass(frozen=True)
class Cure(Brief):
    """A key to change so that a limit holds, or that a failure takes less.

    Examples
    --------
    >>> import topo
    >>> print(topo.Cure("network.leaves", 2))
    `network.leaves: 2`
    """

    key: str
    """Keys of the spec with dots between, or a column of the catalog."""
    value: float | str | None = None
    """What to write there; None where it cannot be told, and `text` says what is asked for."""
    text: str = ""
    """The whole in words; made of key and value when left out."""
    price: tuple[float, float] | None = None
    """What the plan costs more with it, least and most; None where it was not computed, or a part has no price."""
    currency: str = ""

    def _brief(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return self.text or f"`{self.key}: {self.value}`"


@dataclass(frozen=True)
class Check(Brief):
    """A limit, and whether it holds.

    Examples
    --------
    >>> import topo
    >>> check = topo.Check.of("power", topo.Sum(topo.Range(7_125, 7_125)), 7_000, "budget.power", unit="W")
    >>> print(check.verdict, check.reason, sep=": ")
    exceeded: power 7,125 W, 7,000 W allowed, 125 W too much (`budget.power: 7125 W`)
    """

    what: str
    """What is limited, such as ``power``."""
    verdict: Verdict
    text: str
    """What is planned, what is allowed, and what is unknown."""
    key: str = ""
    """Where the spec states the limit, with dots between; empty where that is no single key."""
    found: str = ""
    """What is planned, or what a failure takes, in short."""
    allowed: str = ""
    """The limit, where it is a figure."""
    excess: str = ""
    """By how much the limit is missed; empty where it is not."""
    cures: tuple[Cure, ...] = ()
    """What to change so that it holds; all of them together."""
    doubt: str = ""
    """Which of its figures no text confirms; empty where none is such."""

    @classmethod
    def of(
        cls,
        what: str,
        amount: Sum,
        limit: float,
        key: str,
        *,
        unit: str = "",
        decimals: int = 0,
        note: str = "",
        ask: str = "",
        doubt: str = "",
        shared: bool = True,
    ) -> Check:
        """Compare an amount with an upper limit, and find the least limit that would hold.

        Parameters
        ----------
        what, key : str
            As the fields.
        amount : Sum
            What is planned, in ``unit``.
        limit : float
            What is allowed, likewise.
        decimals : int
            Decimals of the figures; more where the amount and the limit would look equal and are not.
        note : str
            What the text says after the amount.
        ask : str
            The figures that would decide it, and their place; the missing items when left out.
        doubt : str
            Which of the figures no text confirms.
        shared : bool
            Whether what is known leaves the rest of the limit for the missing items; not where these stand elsewhere,
            as in other racks.
        """
        verdict = amount.against(limit)
        if verdict is Verdict.EXCEEDED:
            amount = replace(amount, mostly_unknown=False)  # what is known exceeds it alone
        known = amount.known
        ends = [known.low, known.high] if known else []
        decimals = max((decimals_apart(end, limit, decimals) for end in ends), default=decimals)
        wide = f",.{decimals}f {unit}".rstrip()
        unit = unit and f" {unit}"
        found, allowed, excess = f"{amount:{wide}}", f"{limit:,.{decimals}f}{unit}", ""
        if verdict is Verdict.EXCEEDED and known:
            excess = f"{Sum(Range(known.low - limit, known.high - limit), amount.missing):{wide}}"
        cures: tuple[Cure, ...] = ()
        if verdict is Verdict.CANNOT_TELL and amount.missing:
            room = limit - max(ends, default=limit) if shared else 0.0
            left = f": the limit leaves {Sum(Range(room, room)):{wide}} for them" if room > 0 else ""
            wanted = ask or f"the {what} of {listed(amount.missing)}"
            cures = (Cure("catalog", text=f"known once your `catalog` has {wanted}{left}"),)
        elif verdict is Verdict.EXCEEDED and amount.missing:
            cures = (Cure(key, text=f"`{key}` above {found.removeprefix('at least ')}, how far is unknown"),)
        elif verdict is not Verdict.HOLDS and known:
            least = rounded(known.high, decimals, up=True)
            cure = Cure(key, f"{least}{unit}" if unit else int(float(least)))
            also = f"{cure}, or known once your `catalog` has {ask}"
            cures = (replace(cure, text=also if ask and verdict is Verdict.CANNOT_TELL else ""),)
        text = f"{found}{note}{doubt and f'; {doubt}'}, {allowed} allowed"
        return cls(what, verdict, text, key, found, allowed, excess, cures, doubt)

    def _brief(self) -> str:
        return f"{self.what} {self.verdict}"

    @property
    def reason(self) -> str:
        """Why it does not hold, in short: what is limited, the figures, and the cure."""
        said = f" {self.found}, {self.allowed} allowed" if self.allowed else f": {self.found or self.text}"
        return f"{self.what}{said}{self.advice}"

    @property
    def advice(self) -> str:
        """By how much it is missed, and the cure, to stand behind other words; empty where nothing is known."""
        over = f", {self.excess} too much" if self.excess else ""
        return f"{over}{f' ({self.cure})' if self.cures else ''}"

    @property
    def cure(self) -> str:
        """What to change, in words; empty where nothing is known."""
        return " and ".join(map(str, self.cures))

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain values."""
        return asdict(self) | {"verdict": str(self.verdict), "cures": [asdict(cure) for cure in self.cures]}
