"""Plans of clusters: everything that the command `plan` does, as functions.

Verbs
    ``build``  from a spec to a plan: compiled, routed, proven, measured, priced, and written if asked
    ``route``  tables for any fabric, proven and measured, and written for OpenSM if asked
    ``check``  the same without tables
    ``optimise``  the cheapest design for given needs, with what its tables give
    ``verify``  anybody's tables, proven on any fabric, with answers to questions
    ``draw``  a fabric, its racks or its floor as a picture
    ``export_files``  one of the formats that `build` writes
    ``simulate``  a workload or single flows, played on a routed fabric
    ``operate``  a queue of jobs over hours or days
    ``order_ranks``  the order of ranks that suits the tables of a fabric
    ``diff``  a real fabric beside its plan, cable by cable
    ``mock``  a fabric with known faults, as the tools of the field would show it
    ``grow``  the way from a plan to a larger one
    ``repair``  new tables after failures, and the order in which to write them
    ``Keeper``  keeps the tables in the switches of a live fabric as good as what is up allows
    ``sweep``  a plan for every combination of parameters

Results
    ``Plan``  everything that follows from a spec or a fabric
    ``Verified``  what `verify` returns
    ``Drawn``  what `draw` returns
    ``Simulated``  what `simulate` returns
    ``Operated``  what `operate` returns
    ``RankOrders``  what `order_ranks` returns
    ``Optimum``  what `optimise` returns
    ``Changes``  what `diff` and `grow` return
    ``Mock``  what `mock` returns
    ``Repaired``  what `repair` returns
    ``Kept``  what a pass of a `Keeper` returns
    ``Points``  what `sweep` returns

What is given besides a spec or fabric
    ``Options``  of a plan: engine, lanes, end ports, seed
    ``RoutingFiles``  files that say how a fabric is routed
    ``Hashing``  how switches choose among next hops, where no tables say so
    ``RoleFiles``  files that say what hosts are for
    ``Questions``  what to answer for tables besides their proof
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
