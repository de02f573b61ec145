from .cluster.damage import Damages as Damages
from .cluster.failures import FailureSpec as FailureSpec
from .cluster.job import JobRecord as JobRecord
from .cluster.queue import Queue as Queue, QueueSpec as QueueSpec, parse_queue as parse_queue, read_queue as read_queue
from .cluster.charts import draw_failures as draw_failures, draw_run as draw_run
from .cluster.run import ClusterRun as ClusterRun
from .cluster.saved_run import format_saved_run as format_saved_run, read_saved_run as read_saved_run
from .cluster.year import play_year as play_year
from .diagnosis.slow_links import Explanation as Explanation, Suspect as Suspect, explain as explain
from .diagnosis.counters import (
    Counters as Counters,
    are_counters as are_counters,
    read_counters as read_counters,
)
from .diagnosis.measured import Measured as Measured, read_measured as read_measured
from .diagnosis.wait_counters import Waits as Waits, explain_waits as explain_waits
from .engines.base import Engine as Engine, Finished as Finished
from .engines.charts import draw_ports as draw_ports, draw_timeline as draw_timeline
from .engines.congestion import Congestion as Congestion, Deadlock as Deadlock, DeadlockError as DeadlockError
from .engines.simpy_bridge import NetworkEnvironment as NetworkEnvironment
from .engines.fluid.engine import Fluid as Fluid
from .engines.packets.engine import (
    CongestionControl as CongestionControl,
    PacketModel as PacketModel,
    Packets as Packets,
)
from .engines.outcome import Outcome as Outcome, Timeline as Timeline
from .engines.saturation import Saturation as Saturation, find_saturation as find_saturation
from .traffic.network import Devices as Devices, Network as Network
from .traffic.ranks.nodes import JobNodes as JobNodes
from .traffic.ranks.order import RankOrder as RankOrder, order_ranks as order_ranks
from .traffic.ranks.pattern import PATTERNS as PATTERNS
from .traffic.collectives.algorithms import (
    Collective as Collective,
    all_to_all as all_to_all,
    allreduce as allreduce,
    collective as collective,
)
from .traffic.flows import Flows as Flows, chain as chain, concatenate as concatenate
from .traffic.hfreduce import HFReduce as HFReduce
from .traffic.inference import inference as inference
from .traffic.nccl import nccl_all_to_all as nccl_all_to_all, nccl_ring as nccl_ring, nccl_tree as nccl_tree
from .traffic.node import Servers as Servers
from .traffic.placement import (
    leaf_of as leaf_of,
    map_ranks as map_ranks,
    rails_of_hosts as rails_of_hosts,
    zone_of as zone_of,
)
from .traffic.training import (
    Layer as Layer,
    data_parallel as data_parallel,
    even_layers as even_layers,
    fsdp as fsdp,
    pipeline_parallel as pipeline_parallel,
)
from .workload.formats.flow_trace import (
    check_parquet as check_parquet,
    format_trace_csv as format_trace_csv,
    format_trace_parquet as format_trace_parquet,
)
from .workload.formats.flows_csv import format_flows_csv as format_flows_csv, read_flows_csv as read_flows_csv
from .workload.bottlenecks import Bottlenecks as Bottlenecks, find_bottlenecks as find_bottlenecks
from .workload.calibration import Calibration as Calibration, Measurement as Measurement, calibrate as calibrate
from .workload.formats.benchmark_log import read_benchmark_log as read_benchmark_log
from .workload.formats.goal import format_as_goal as format_as_goal
from .workload.place import Workload as Workload
from .workload.play import ENGINES as ENGINES, JobResult as JobResult, Simulation as Simulation, play as play
from .workload.read import (
    bare_flows as bare_flows,
    parse_workload as parse_workload,
    preset as preset,
    read_workload as read_workload,
)
from .workload.spec import StorageSpec as StorageSpec, WorkloadSpec as WorkloadSpec
from .workload.storage import SteadyReads as SteadyReads, steady_reads as steady_reads
