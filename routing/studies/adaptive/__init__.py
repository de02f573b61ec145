"""Adaptive routing: groups of ports among which switches choose, proven whichever they take.

What switches hold
    ``AdaptiveTables``  groups of ports, and the group of each destination
    ``LidState``  how a switch picks a port for a destination
    ``read_far``  the same from ibdiagnet's ``.far``
    ``parse_far``  the same from its text
    ``prove_adaptive``  every packet arrives and nothing deadlocks, or where not
    ``AdaptiveProof``  what it found
    ``GroupFault``  how often something is wrong, and the first place

What they could hold
    ``legal_tables``  groups of all ports that tables without loops make safe
    ``updown_tables``  groups of all ports on shortest paths up towards roots and then down
    ``choose_roots``  roots that lose fewest pairs
    ``manager_groups``  the groups of those roots, or legal ones where these lose pairs
    ``nvidia_sm_files``  options of NVIDIA's subnet manager
    ``compare_shares``  what flows get by static ports and by groups
    ``Shares``  what it found
    ``Share``  the same for one pattern of flows
    ``beside_adaptive``  what groups are worth beside engines
    ``Spread``  flows over all channels that they may take: split evenly, at worst, at best
    ``study_adaptive``  groups of ports that tables allow, beside the tables
    ``AdaptiveStudy``  what it found
    ``Groups``  what groups of ports of one kind are worth
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
