from .far import parse_far as parse_far, read_far as read_far
from .nvidia_sm import (
    choose_roots as choose_roots,
    manager_groups as manager_groups,
    nvidia_sm_files as nvidia_sm_files,
)
from .proof import AdaptiveProof as AdaptiveProof, GroupFault as GroupFault, prove_adaptive as prove_adaptive
from .shares import Share as Share, Shares as Shares, Spread as Spread, compare_shares as compare_shares
from .study import (
    AdaptiveStudy as AdaptiveStudy,
    Groups as Groups,
    legal_tables as legal_tables,
    study_adaptive as study_adaptive,
    updown_tables as updown_tables,
)
from .tables import AdaptiveTables as AdaptiveTables, LidState as LidState
from .worth import beside_adaptive as beside_adaptive
