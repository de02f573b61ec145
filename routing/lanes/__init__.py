"""Virtual lanes and service levels.

``fit_lanes``  tables on no more virtual lanes than there are
``apply_policy``  tables with the service levels that a policy gives to paths
``policy_of_classes``  the policy by which classes of traffic get their service level
``LanePlan``  lane of each service level, and how lanes share a cable
``QosPolicy``  service level of each path
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
