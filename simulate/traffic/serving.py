"""Inference on two pools of ranks: some prefill prompts, the others decode tokens over experts, as flows.

Zhong et al., "DistServe", arXiv 2401.09670, and Qin et al., "Mooncake", arXiv 2407.00079: a rank computes the keys and
values of a prompt (the KV cache) and sends them, layer by layer as they are there, to the rank that goes on with the
request. DeepSeek-V3, arXiv 2412.19437, section 3.4: ranks that decode hold different experts, so that in every layer an
all-to-all brings tokens to their experts and another brings the results back.

Requests come in rounds. Each rank that decodes gets an equal part of a round; it is decoded when all of its caches are
there and the round before is over. Meanwhile the next round is prefilled: its caches and the tokens share the network.
A rank begins the next round when its caches of the one before have left it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.flows import EAGER_BYTES, Flows
from simulate.traffic.graph import Graph
from topo.budget import FLOWS
from topo.errors import HeddleError


def inference(
    prefill: int,
    decode: int,
    *,
    requests: int,
    rounds: int,
    layers: int,
    prompt_s: float,
    cache_bytes: float,
    tokens: int,
    token_s: float,
    expert_bytes: float,
    eager_bytes: float = EAGER_BYTES,
) -> Flows:
    """Return the flows of all rounds between ranks: those that prefill come first.

    Parameters
    ----------
    requests
        Of a round, dealt to the ranks of either kind in turn.
    prompt_s
        To prefill one request on one rank.
    cache_bytes
        KV cache of a request.
    tokens
        Decoded for each request.
    token_s
        To compute one token of all requests of a rank.
    expert_bytes
        What a rank sends to experts in one layer for one token of its requests, and gets back.

    Raises
    ------
    HeddleError
        When a count is below 1, or the flows are too many.

    Examples
    --------
    >>> import simulate
    >>> flows = simulate.traffic.inference(2, 4, requests=4, rounds=1, layers=3, prompt_s=0.1, cache_bytes=3e6,
    ...     tokens=2, token_s=0.01, expert_bytes=1e6)
    >>> float(flows.size_bytes.sum())
    48000000.0
    """
    for name, count in (("prefill", prefill), ("decode", decode), ("requests", requests), ("rounds", rounds)):
        if count < 1:
            raise HeddleError(f"found {count} for {name}; expected at least 1")
    exchange = schedule("all-to-all", "shift", decode)
    most = rounds * layers * (2 * requests + tokens * (2 * len(exchange) + 4))
    if most > FLOWS.limit:
        raise HeddleError(f"{most:,} messages and computations are too many; expected {FLOWS}")
    experts = exchange.flows(expert_bytes, eager_bytes)
    experts = experts.placed(np.arange(prefill, prefill + decode))
    graph = Graph()
    busy: list[list[int]] = [[] for _ in range(prefill)]
    decoded: list[int] = []
    for _ in range(rounds):
        come = list(decoded)
        for rank in range(min(prefill, requests)):
            mine = np.repeat(np.arange(rank, requests, prefill), layers)
            filled = _prefilled(rank, prefill + mine % decode, prompt_s / layers, cache_bytes / layers)
            busy[rank] = [graph.add(filled, busy[rank])]
            come += busy[rank]
        decoded = come
        for _ in range(tokens * layers):
            for _ in ("to the experts", "and back"):
                decoded = [graph.compute(prefill, token_s / layers / 2, decoded)]
                decoded = [graph.add(experts, decoded)] if decode > 1 else decoded
    return graph.flows()


def _prefilled(rank: int, to: NDArray[np.int64], layer_s: float, layer_bytes: float) -> Flows:
    """Return layers that a rank computes one after another, each of which it sends on when it is there."""
    n = len(to)
    layer = np.arange(n)
    here = np.full(n, rank)
    return Flows.of(
        np.concatenate([here, here]),
        np.concatenate([here, to]),
        np.repeat([0.0, layer_bytes], n),
        delay_s=np.repeat([layer_s, 0.0], n),
        after=(np.concatenate([layer[1:], layer + n]), np.concatenate([layer[:-1], layer])),
    )
