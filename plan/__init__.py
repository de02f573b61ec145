"""Plans of clusters: everything that the command `plan` does, as functions.

Verbs
    ``build``  from a spec to a plan: compiled, routed, proven, measured, priced, and written if asked
    ``route``  tables for any fabric, proven and measured, and written for OpenSM if asked
    ``check``  the same without tables
    ``optimise``  the cheapest design for given needs, with what its tables give
    ``diff``  a real fabric beside its plan, cable by cable
    ``grow``  the way from a plan to a larger one
    ``repair``  new tables after failures, and the order in which to write them
    ``sweep``  a plan for every combination of parameters

Results
    ``Plan``  everything that follows from a spec or a fabric
    ``Options``  what is asked of a plan besides its spec or fabric
    ``Optimum``  what `optimise` returns
    ``Changes``  what `diff` and `grow` return
    ``Repaired``  what `repair` returns
    ``Points``  what `sweep` returns
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
