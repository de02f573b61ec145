"""Tables after failures: few entries changed, and written in an order that is safe at every moment.

``prepare_repair``  tables made ready for repairs
``repair``  tables for what is still connected, with few entries changed
``route_anew``  tables for the same that owe nothing to the old ones
``order_updates``  stages in which new tables are written over old ones
``differing_entries``  entries in which two tables differ
``RepairBasis``  an order of channels that the tables climb, and how full each is
``Repair``  tables after failures beside those from before
``Updates``  which block is written in which stage, with the certificate
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
