"""Forwarding tables: made, proven free of faults, measured, repaired, and written for OpenSM.

Verbs
    ``route``  forwarding tables of a fabric, by the engine that suits it
    ``prove``  walk every pair, and look for credit loops
    ``check_certificate``  check a proof by a second implementation
    ``measure``  how evenly tables spread traffic
    ``trace``  the path of one pair, and the reason where it ends early
    ``fit_traffic``  tables whose fullest link under a demand is less full
    ``read_demand``  a demand from a CSV file

Results: one line on a terminal, ``table`` for the figures (a `topo.Table`), ``to_dict`` for JSON
    ``Routed``  a fabric with its tables and lanes
    ``Hashed``  a fabric whose switches choose by a hash, or spray packets: Ethernet
    ``RoutingTables``  LIDs, forwarding tables and service levels
    ``Proof``  pairs, hops, loads and credit loops, with the certificate
    ``Trace``  one path
    ``Demand``  how much each end port sends to each other

Engines
    ``ENGINES``  engines by name
    ``Engine``  what an engine owes

End ports, switches and links: all verbs take a name or an index
    ``end_label``  name of an end port
    ``find_end``  the end port that has a name, a LID or a GUID
    ``find_switch``  the switch that has a name or a GUID
    ``find_ports``  the ports of links, switches and hosts
    ``EndpointSet``  names of sets of end ports
    ``NO_PATH``  entry of a LID that a switch drops

More
    ``quality``  traffic patterns, and the flows that meet in them
    ``studies``  who uses a link, what is lost without it, adaptive routing, bounds, planes
    ``repairs``  tables after failures, and the order in which to write them
    ``lanes``  virtual lanes and service levels
    ``opensm``  files of OpenSM, both ways
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
