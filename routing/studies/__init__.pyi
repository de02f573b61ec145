from . import adaptive as adaptive
from .bounds import Bounds as Bounds, bound as bound
from .failures import Diversity as Diversity, FailureStudy as FailureStudy, study_failures as study_failures
from .hashing import HashedShares as HashedShares, hashed_rates as hashed_rates, measure_hashed as measure_hashed
from .loss import (
    LinkUse as LinkUse,
    LossStudy as LossStudy,
    link_use as link_use,
    pairs_over as pairs_over,
    study_loss as study_loss,
)
from .multicast import (
    MulticastGroup as MulticastGroup,
    MulticastPlan as MulticastPlan,
    MulticastStudy as MulticastStudy,
    parse_mcfdbs as parse_mcfdbs,
    plan_trees as plan_trees,
    read_mcfdbs as read_mcfdbs,
)
from .multipath import Multipath as Multipath, measure_lids as measure_lids
from .side_by_side import join_fabrics as join_fabrics, side_by_side as side_by_side
