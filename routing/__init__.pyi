from . import opensm as opensm
from .studies.adaptive import AdaptiveStudy as AdaptiveStudy, Groups as Groups, study_adaptive as study_adaptive
from .studies.bounds import Bounds as Bounds, bound as bound
from .demand import Demand as Demand, demand_load as demand_load, fit_traffic as fit_traffic, read_demand as read_demand
from .studies.failures import Diversity as Diversity, FailureStudy as FailureStudy, study_failures as study_failures
from .engines.base import ENGINES as ENGINES, Engine as Engine, route as route
from .candidates import Candidate as Candidate, candidate_table as candidate_table
from .lanes.classes import LanePlan as LanePlan
from .lanes.fit import fit_lanes as fit_lanes
from .lanes.policy import QosPolicy as QosPolicy, apply_policy as apply_policy, policy_of_classes as policy_of_classes
from .engines.multipath import Multipath as Multipath, measure_lids as measure_lids
from .names import (
    end_label as end_label,
    find_end as find_end,
    find_ends as find_ends,
    find_ports as find_ports,
    find_link as find_link,
    find_part as find_part,
    find_switch as find_switch,
)
from .trace import Fault as Fault, Trace as Trace, trace as trace
from .proof import ChannelClass as ChannelClass, Proof as Proof, check_certificate as check_certificate, prove as prove
from .quality import (
    Congestion as Congestion,
    Quality as Quality,
    UplinkShare as UplinkShare,
    bisections as bisections,
    congestion as congestion,
    halving_doubling as halving_doubling,
    measure as measure,
    permutations as permutations,
    shifts as shifts,
)
from .studies.loss import (
    LinkUse as LinkUse,
    LossStudy as LossStudy,
    link_use as link_use,
    pairs_over as pairs_over,
    study_loss as study_loss,
)
from .repairs.basis import RepairBasis as RepairBasis, prepare_repair as prepare_repair
from .repairs.repair import Repair as Repair, repair as repair, route_anew as route_anew
from .repairs.updates import Updates as Updates, order_updates as order_updates
from .routed import Routed as Routed
from .side_by_side import side_by_side as side_by_side
from .tables import (
    NO_PATH as NO_PATH,
    EndpointSet as EndpointSet,
    RoutingTables as RoutingTables,
    assign_lids as assign_lids,
    differing_entries as differing_entries,
    select_endpoints as select_endpoints,
    tree_order as tree_order,
)
