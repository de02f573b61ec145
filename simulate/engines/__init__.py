"""Engines that play flows over a network.

``Engine``  what an engine owes
``Finished``  a flow that has ended
``Timeline``  load of each link over time
``CongestionControl``  marks on packets that slow their sources down
``Dcqcn``  the same of RoCE: marks set the rate of a flow
``Congestion``  what packets met: where they waited, how long they took
``Saturation``  the result of `simulate.find_saturation`
``Deadlock``  a cycle of full buffers
``DeadlockError``  raised when a simulation deadlocks
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
