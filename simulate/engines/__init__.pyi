from .base import Engine as Engine, Finished as Finished
from .congestion import Congestion as Congestion, Deadlock as Deadlock, DeadlockError as DeadlockError
from .outcome import Timeline as Timeline
from .packets.control import CongestionControl as CongestionControl, Dcqcn as Dcqcn
from .saturation import Saturation as Saturation
