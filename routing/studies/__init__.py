"""Questions about tables and fabrics that a proof and figures leave open.

Links and what is lost without them
    ``link_use``  who uses a link
    ``LinkUse``  pairs over a link, in each direction
    ``pairs_over``  pairs whose path goes over some channels
    ``study_loss``  what is lost without a switch or a link
    ``LossStudy``  a fabric without a switch or a link
    ``study_failures``  what failures of links leave, random ones or given ones
    ``FailureStudy``  a fabric before and after failures
    ``Diversity``  shortest paths without a cable in common

Adaptive routing, several LIDs, planes
    ``adaptive``  groups of ports: those of live switches, and those that tables allow
    ``measure_hashed``  what flows get on hashed paths, over seeds of the hash
    ``HashedShares``  its result
    ``hashed_rates``  what the flows of one phase get on them
    ``measure_lids``  what paths to several LIDs of a port share
    ``Multipath``  what paths to the LIDs of a port share
    ``join_fabrics``  several fabrics as one, without links between them
    ``side_by_side``  several routed subnets as one network, to simulate planes

Multicast
    ``read_mcfdbs``  multicast trees of a dump: all members reached, once
    ``parse_mcfdbs``  the same from its text
    ``MulticastStudy``  what it found
    ``MulticastGroup``  what the entries of one multicast LID give
    ``plan_trees``  a tree for each of some groups of hosts, flat, and spread over the cables
    ``MulticastPlan``  its result

What no tables can beat
    ``bound``  what no tables can beat on the same cables
    ``Bounds``  least fullest link and best bisection of any tables
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
