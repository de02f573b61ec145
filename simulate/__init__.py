"""Traffic played over routed fabrics: flows, collectives, workloads of many jobs, clusters at work.

Every result is one line on a terminal and has a ``table`` (a `topo.Table`); a notebook shows all its tables.

The verb, and what it takes and gives
    ``play``  plays flows, a collective or a workload on a routed fabric
    ``play_draws``  plays them on hashed paths, seed by seed: a distribution
    ``Network``  a routed fabric as flows see it: capacities, routes, latencies, lanes
    ``Outcome``  what became of the flows: their times, and the load of every link
    ``Simulation``  a workload that was played: its outcome, and the results of its jobs

Traffic
    ``allreduce``  an allreduce among hosts
    ``all_to_all``  an all-to-all among hosts
    ``collective``  any collective among hosts: by a registered algorithm, a function or a GOAL schedule
    ``Collective``  what these return: it becomes flows on the fabric that it is played on
    ``Flows``  who sends how much to whom, and after what
    ``Graph``  builds flows out of operations that wait for each other
    ``order_ranks``  the order of a job's nodes in which a collective takes the least time

Workloads
    ``preset``  a workload that ships, by its name
    ``read_workload``  a workload's YAML file
    ``parse_workload``  a workload's YAML text, or a mapping of plain values
    ``Workload``  jobs on their end ports, and their flows

Engines
    ``ENGINES``  engines by name
    ``Fluid``  flows at max-min fair rates, in a batch or step by step
    ``Packets``  packets that wait for credits, buffers and lanes
    ``PacketModel``  parameters of packets: their size, buffers, windows
    ``NetworkEnvironment``  a SimPy environment whose processes send over the network

Results
    ``find_bottlenecks``  what held the jobs of a workload back, and what more capacity would give
    ``find_saturation``  where congestion begins, how far it spreads, which flows it slows down
    ``draw_timeline``  charts of the load of the classes of links over time
    ``draw_ports``  heat maps of what each port of the switches sent

More of it
    ``traffic``  collectives of one's own, training, inference, placement of ranks, the inside of servers
    ``workload``  specs of workloads, flows and traces in files, storage, calibration
    ``engines``  what an engine owes, and what it says of congestion
    ``cluster``  queues of jobs over days, failures over a year
    ``diagnosis``  links that explain measured bandwidths, or waiting at ports
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
