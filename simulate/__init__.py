"""Traffic played over routed fabrics: collectives, training, storage, workloads of many jobs, clusters at work.

Every result is one line on a terminal and has a ``table`` (a `topo.Table`); a notebook shows all its tables.

The verb, and what it takes and gives
    ``play``  plays flows, a collective or a workload on a routed fabric
    ``Network``  a routed fabric as flows see it: capacities, routes, latencies, lanes
    ``Outcome``  what became of the flows: their times, and the load of every link
    ``Timeline``  load over time
    ``draw_timeline``  charts of the load of the classes of links over time
    ``draw_ports``  heat maps of what each port of the switches sent
    ``Devices``  places inside hosts where flows begin and end

Engines
    ``ENGINES``  engines by name
    ``Engine``  what an engine owes
    ``Fluid``  flows at max-min fair rates, in a batch or step by step
    ``Packets``  packets that wait for credits, buffers and lanes
    ``PacketModel``  what packets meet: their size, buffers, windows
    ``CongestionControl``  marks on packets that make their sources wait
    ``Congestion``  what packets met: where they waited, how long they took
    ``find_saturation``  where congestion begins, how far it spreads, whom it slows down
    ``Saturation``  its result
    ``Deadlock``  a circle of full buffers
    ``DeadlockError``  it has come to one
    ``Finished``  a flow that has ended
    ``NetworkEnvironment``  a SimPy environment whose processes send over the network

Traffic
    ``allreduce``  an allreduce among hosts
    ``all_to_all``  an all-to-all among hosts
    ``collective``  any collective among hosts, by its name
    ``Collective``  what these return: it becomes flows on the fabric that it is played on
    ``Flows``  who sends how much to whom, and after what
    ``concatenate``  flows side by side
    ``chain``  flows one after another
    ``map_ranks``  end ports in another order: leaf after leaf, zone after zone, at random
    ``zone_of``  the zone of each end port
    ``leaf_of``  the switch of each end port
    ``rails_of_hosts``  the adapter ports of each host, rail after rail

Rank orders
    ``order_ranks``  the order of a job's nodes in which a collective takes the least time
    ``RankOrder``  that order, and its steps before and after
    ``JobNodes``  nodes of a job by name, with their adapter ports rail by rail
    ``PATTERNS``  collectives that orders are made for, by name

Diagnosis
    ``explain``  the links or collisions that explain measured bandwidths
    ``Explanation``  its result: who is accused, how surely, and what to measure next
    ``Suspect``  a link, or a collision
    ``read_measured``  measured bandwidths of pairs, from a CSV file
    ``Measured``  measured bandwidths of pairs
    ``explain_waits``  the links or collisions that made ports wait, from their counters
    ``Waits``  its result
    ``read_counters``  counters of ports, as ibdiagnet, ibqueryerrors and perfquery print them
    ``are_counters``  whether a file holds such counters
    ``Counters``  what ports have sent, and for how much they waited

Inside servers
    ``Servers``  servers of one model, whose PCIe, memory and NVLink are part of the network
    ``HFReduce``  the allreduce of GPUs over host memory
    ``nccl_ring``  NCCL's allreduce of GPUs around a ring for each rail
    ``nccl_tree``  NCCL's allreduce of GPUs over two trees for each rail
    ``nccl_all_to_all``  NCCL's all-to-all of GPUs, aligned to rails

Training
    ``Layer``  a part of a model: times and bytes
    ``even_layers``  layers that are all alike
    ``data_parallel``  a step whose gradients are summed bucket after bucket
    ``fsdp``  a step whose parameters are sharded
    ``pipeline_parallel``  a step of pipelines
    ``inference``  rounds of requests: caches from ranks that prefill to ranks that decode over experts

Workloads
    ``preset``  a workload that ships, by its name
    ``read_workload``  a workload's YAML file
    ``parse_workload``  a workload's YAML text, or a mapping of plain values
    ``Workload``  jobs on their end ports, and their flows
    ``WorkloadSpec``  what a workload's YAML may say
    ``Simulation``  a workload that was played
    ``JobResult``  time and bandwidth of one of its jobs
    ``find_bottlenecks``  what held its jobs back, and what more capacity would give
    ``Bottlenecks``  its result
    ``StorageSpec``  how the file system is set up
    ``steady_reads``  what storage gives to clients that read without end
    ``SteadyReads``  its result

Calibration
    ``read_benchmark_log``  what nccl-tests or ib_write_bw measured
    ``Measurement``  one line of it
    ``calibrate``  overhead and rate of machines, with their intervals
    ``Calibration``  its result

Clusters at work
    ``read_queue``  a queue's YAML file: jobs that come over hours or days
    ``parse_queue``  a queue's YAML text, or a mapping of plain values
    ``Queue``  its jobs and rules
    ``QueueSpec``  what a queue's YAML may say
    ``ClusterRun``  plays a queue; can be stopped, and gone on with to the last bit
    ``JobRecord``  what has become of a job
    ``read_saved_run``  a stopped run from its file
    ``format_saved_run``  a stopped run as the bytes of a file

Failures
    ``FailureSpec``  which parts fail, how often and for how long, and what jobs lose
    ``Damages``  what is left of a routed cluster without some parts
    ``draw_run``  charts of a run: jobs, waiting and failures over time
    ``draw_failures``  charts of a year: what fails when
    ``play_year``  a year of failures drawn at random, and what it costs

Files
    ``read_flows_csv``  flows from a CSV file
    ``format_flows_csv``  flows as CSV
    ``bare_flows``  flows as a workload of one job
    ``format_trace_csv``  every flow of a simulation as CSV
    ``format_trace_parquet``  the same as Parquet
    ``check_parquet``  refuses where Parquet cannot be written
    ``format_as_goal``  a workload as a GOAL schedule
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
