from .collectives.algorithms import ALGORITHMS as ALGORITHMS, register as register
from .collectives.schedule import Schedule as Schedule
from .graph import chain as chain, concatenate as concatenate
from .hfreduce import HFReduce as HFReduce
from .nccl import (
    nccl_all_to_all as nccl_all_to_all,
    nccl_collective as nccl_collective,
    nccl_ring as nccl_ring,
    nccl_tree as nccl_tree,
)
from .network import Devices as Devices
from .node import Servers as Servers
from .placement import leaf_of as leaf_of, map_ranks as map_ranks, rails_of_hosts as rails_of_hosts, zone_of as zone_of
from .ranks.nodes import JobNodes as JobNodes
from .ranks.order import RankOrder as RankOrder
from .ranks.pattern import PATTERNS as PATTERNS
from .serving import inference as inference
from .training import (
    Layer as Layer,
    data_parallel as data_parallel,
    even_layers as even_layers,
    fsdp as fsdp,
    pipeline_parallel as pipeline_parallel,
)
from .tuner import Choice as Choice, Generation as Generation, Protocol as Protocol, Tuner as Tuner
