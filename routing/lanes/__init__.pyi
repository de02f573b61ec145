from .classes import LanePlan as LanePlan
from .fit import fit_lanes as fit_lanes
from .policy import QosPolicy as QosPolicy, apply_policy as apply_policy, policy_of_classes as policy_of_classes
