from . import cluster as cluster, diagnosis as diagnosis, engines as engines, traffic as traffic, workload as workload
from .engines.charts import draw_ports as draw_ports, draw_timeline as draw_timeline
from .engines.fluid.engine import Fluid as Fluid
from .engines.outcome import Outcome as Outcome
from .engines.packets.engine import PacketModel as PacketModel, Packets as Packets
from .engines.saturation import find_saturation as find_saturation
from .engines.simpy_bridge import NetworkEnvironment as NetworkEnvironment
from .traffic.collectives.algorithms import (
    Collective as Collective,
    all_to_all as all_to_all,
    allreduce as allreduce,
    collective as collective,
)
from .traffic.flows import Flows as Flows
from .traffic.graph import Graph as Graph
from .traffic.network import Network as Network
from .traffic.ranks.order import order_ranks as order_ranks
from .workload.bottlenecks import find_bottlenecks as find_bottlenecks
from .workload.draws import play_draws as play_draws
from .workload.place import Workload as Workload
from .workload.play import ENGINES as ENGINES, Simulation as Simulation, play as play
from .workload.read import parse_workload as parse_workload, preset as preset, read_workload as read_workload
