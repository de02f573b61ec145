"""How long a header takes over a link and through the switch behind it: from the catalog and the cable's length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topo.catalog.load import Catalog
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, frozen

CABLE_S_PER_M = 4.9e-9
"""Light in glass of refractive index 1.47; copper is 4.5 (`configs/catalog/figures.csv` has the sources)."""


def hop_latencies(fabric: Fabric, catalog: Catalog) -> NDArray[np.float64]:
    """Return (P,) seconds until a header that a port sends may leave the node at the other end of its cable.

    Parameters
    ----------
    fabric
        With a floor plan: it has the lengths of cables.
    catalog
        With ``latency_ns`` of its switches, port to port; adapters count for nothing.

    Raises
    ------
    HeddleError
        When the latency of a switch or the length of a cable is not known.

    Examples
    --------
    >>> import dataclasses, numpy, topo
    >>> fabric = topo.preset("lab-20").fabric
    >>> fabric = dataclasses.replace(fabric, length_m=numpy.full(fabric.n_ports, 10.0))
    >>> times = topo.hop_latencies(fabric, topo.load_catalog())
    >>> f"{times[fabric.port_of(fabric.ends()[0])] * 1e9:.0f} ns"
    '139 ns'
    """
    far = fabric.peer_node
    plugged, into_switch = far >= 0, (far >= 0) & (far < fabric.n_switches)
    of_model = [catalog.switches[name].latency_ns if name in catalog.switches else None for name in fabric.models]
    switch = np.array([np.nan if ns is None else ns * 1e-9 for ns in [*of_model, None]])[fabric.model[far]]
    length = fabric.length_m if len(fabric.length_m) else np.full(fabric.n_ports, np.nan)
    unknown = []
    if models := sorted({fabric.model[node] for node in far[into_switch & np.isnan(switch)].tolist()}):
        names = ", ".join(fabric.models[model] if model >= 0 else "unknown model" for model in models)
        unknown.append(f"no latency_ns of its switches ({names}) in the catalog")
    if missing := int(np.count_nonzero(plugged & np.isnan(length))):
        unknown.append(f"no length of {plural(missing // 2, 'cable')}, which a floor plan would say")
    if unknown:
        raise HeddleError(
            f"{fabric.name or 'the fabric'} has {' and '.join(unknown)}; expected how long a packet takes over a link: "
            "give --hop-latency-ns, of a cable and a switch together, such as 150"
        )
    return frozen(np.where(plugged, length, 0.0) * CABLE_S_PER_M + np.where(into_switch, switch, 0.0))
