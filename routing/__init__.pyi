from . import lanes as lanes, opensm as opensm, quality as quality, repairs as repairs, studies as studies
from .demand import Demand as Demand, fit_traffic as fit_traffic, read_demand as read_demand
from .engines.base import ENGINES as ENGINES, Engine as Engine, route as route
from .hashed import Hashed as Hashed
from .names import (
    end_label as end_label,
    find_end as find_end,
    find_ports as find_ports,
    find_switch as find_switch,
)
from .proof import Proof as Proof, check_certificate as check_certificate, prove as prove
from .quality.figures import measure as measure
from .routed import Routed as Routed
from .tables import NO_PATH as NO_PATH, EndpointSet as EndpointSet, RoutingTables as RoutingTables
from .trace import Trace as Trace, trace as trace
