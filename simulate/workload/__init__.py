"""Workloads: what jobs a file describes, and the flows that they become on a fabric.

Jobs
    ``WorkloadSpec``  what a workload's YAML may say
    ``JobResult``  time and bandwidth of a job that was played
    ``Bottlenecks``  the result of `simulate.find_bottlenecks`
    ``DRAWS``  seeds of a hash by default
    ``Draws``  the result of `simulate.play_draws`
    ``percentiles``  median, fifth and 95th percentile of draws
    ``play_beside_adaptive``  a workload on static tables and on groups of ports, whole and after failures
    ``BesideAdaptive``  its result
    ``bare_flows``  flows as a workload of one job

Storage
    ``StorageSpec``  how the file system is set up
    ``steady_reads``  what storage gives to clients that read without end
    ``SteadyReads``  its result

Files
    ``read_flows_csv``  flows from a CSV file
    ``format_flows_csv``  flows as CSV
    ``format_trace_csv``  every flow of a simulation as CSV
    ``format_trace_parquet``  the same as Parquet
    ``check_parquet``  raises where Parquet cannot be written
    ``format_as_goal``  a workload as a GOAL schedule

Calibration
    ``read_benchmark_log``  what nccl-tests or ib_write_bw measured
    ``Measurement``  one line of it
    ``calibrate``  overhead and rate of machines, with their intervals
    ``Calibration``  its result
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
