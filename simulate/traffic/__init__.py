"""Traffic on a network: flows, collectives, training, and what happens inside servers.

Flows
    ``concatenate``  flows side by side
    ``chain``  flows one after another
    ``Devices``  places inside hosts where flows begin and end

Collectives of one's own
    ``ALGORITHMS``  registered algorithms, by collective and name
    ``register``  registers an algorithm
    ``Schedule``  what an algorithm returns: messages between ranks, which wait for each other

Ranks
    ``map_ranks``  end ports in another order: leaf after leaf, zone after zone, at random
    ``zone_of``  the zone of each end port
    ``leaf_of``  the switch of each end port
    ``rails_of_hosts``  the adapter ports of each host, rail after rail
    ``JobNodes``  nodes of a job by name, with their adapter ports rail by rail
    ``RankOrder``  the result of `simulate.order_ranks`: the order, and its steps before and after
    ``PATTERNS``  collectives that orders are made for, by name

Inside servers
    ``Servers``  servers of one model, whose PCIe, memory and NVLink are part of the network
    ``HFReduce``  the allreduce of GPUs over host memory
    ``nccl_collective``  a collective of GPUs as NCCL's tuner takes it
    ``Tuner``  what the tuner knows of a job; its `choose` gives the time in closed form
    ``Choice``  algorithm, protocol, channels, latency and rate
    ``Protocol``  LL, LL128 or Simple
    ``Generation``  of a GPU

Training and inference
    ``Layer``  a part of a model: times and bytes
    ``even_layers``  layers that are all alike
    ``data_parallel``  a step whose gradients are summed bucket after bucket
    ``fsdp``  a step whose parameters are sharded
    ``pipeline_parallel``  a step of pipelines
    ``inference``  rounds of requests: caches from ranks that prefill to ranks that decode over experts
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
