"""Forwarding tables: made, proven free of faults, measured, and written for OpenSM.

Verbs
    ``route``  forwarding tables of a fabric, by the engine that suits it
    ``prove``  walk every pair, and look for credit loops
    ``check_certificate``  check a proof by a second implementation
    ``measure``  how evenly tables spread traffic
    ``bound``  what no tables can beat on the same cables
    ``trace``  the path of one pair, and the reason where it ends early
    ``link_use``  who uses a link
    ``study_loss``  what is lost without a switch or a link
    ``study_failures``  what random failures of links leave
    ``prepare_repair``  tables made ready for repairs
    ``repair``  tables for what is still connected, with few entries changed
    ``route_anew``  tables for the same that owe nothing to the old ones
    ``order_updates``  stages in which new tables are written over old ones
    ``study_adaptive``  groups of ports for adaptive routing, proven whichever a switch takes
    ``measure_lids``  what paths to several LIDs of a port share
    ``fit_traffic``  tables whose fullest link under a demand is less full
    ``read_demand``  a demand from a CSV file
    ``fit_lanes``  tables on no more virtual lanes than there are
    ``apply_policy``  tables with the service levels that a policy gives to paths
    ``policy_of_classes``  the policy by which classes of traffic get their service level

Results: one line on a terminal, ``table`` for the figures (a `topo.Table`), ``to_dict`` for JSON
    ``Routed``  a fabric with its tables and lanes
    ``side_by_side``  several routed subnets as one network, to simulate planes
    ``RoutingTables``  LIDs, forwarding tables and service levels
    ``Proof``  pairs, hops, loads and credit loops, with the certificate
    ``ChannelClass``  load of the channels between two levels
    ``Quality``  effective bisection bandwidth, balance and contention
    ``Candidate``  what an engine's tables are worth, where several were tried
    ``Bounds``  least fullest link and best bisection of any tables
    ``Congestion``  what phases of simultaneous flows meet
    ``UplinkShare``  destinations by uplink
    ``Trace``  one path
    ``Fault``  why a path does not arrive
    ``Demand``  how much each end port sends to each other
    ``LinkUse``  pairs over a link, in each direction
    ``LossStudy``  a fabric without a switch or a link
    ``FailureStudy``  a fabric before and after failures
    ``RepairBasis``  an order of channels that the tables climb, and how full each is
    ``Repair``  tables after failures beside those from before
    ``Updates``  which block is written in which stage, with the certificate
    ``Diversity``  shortest paths without a cable in common
    ``AdaptiveStudy``  groups of ports beside static tables
    ``Groups``  what groups of ports of one kind are worth
    ``Multipath``  what paths to the LIDs of a port share
    ``LanePlan``  lane of each service level, and how lanes share a cable
    ``QosPolicy``  service level of each path

Engines
    ``ENGINES``  engines by name
    ``Engine``  what an engine owes
    ``candidate_table``  engines that were tried, side by side

Parts
    ``EndpointSet``  names of sets of end ports
    ``select_endpoints``  the end ports of a set that have a LID
    ``tree_order``  end ports in the order of the tree
    ``end_label``  name of an end port
    ``find_end``  the end port that has a name, a LID or a GUID
    ``find_ends``  several of them, or those of a set
    ``find_switch``  the switch that has a name or a GUID
    ``find_link``  the port that a link is named by
    ``find_part``  the ports of a switch, a link or a host
    ``find_ports``  the ports of several of them
    ``demand_load``  how full a demand makes the channels
    ``pairs_over``  pairs whose path goes over some channels
    ``congestion``  flows that meet on a channel, phase by phase
    ``bisections``  random bisections
    ``permutations``  random permutations
    ``shifts``  shift permutations
    ``halving_doubling``  partners of recursive halving and doubling
    ``assign_lids``  LIDs of a fabric
    ``differing_entries``  entries in which two tables differ
    ``NO_PATH``  entry of a LID that a switch drops
    ``opensm``  files of OpenSM, both ways
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
