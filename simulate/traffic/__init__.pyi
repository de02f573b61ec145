from .collectives.algorithms import ALGORITHMS as ALGORITHMS, register as register
from .collectives.schedule import Schedule as Schedule
from .graph import chain as chain, concatenate as concatenate
from .hfreduce import HFReduce as HFReduce
from .nccl import nccl_collective as nccl_collective
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
