"""Traffic patterns, and how many flows of a phase meet on a link; `routing.measure` puts all of them into figures.

``Quality``  what `routing.measure` returns: effective bisection bandwidth, balance and contention
``Congestion``  what phases of simultaneous flows meet
``UplinkShare``  destinations by uplink
``congestion``  flows that meet on a channel, phase by phase
``bisections``  random bisections
``permutations``  random permutations
``shifts``  shift permutations
``halving_doubling``  partners of recursive halving and doubling
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
