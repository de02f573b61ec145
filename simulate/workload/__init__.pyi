from .adaptive import BesideAdaptive as BesideAdaptive, play_beside_adaptive as play_beside_adaptive
from .bottlenecks import Bottlenecks as Bottlenecks
from .calibration import (
    Calibration as Calibration,
    Measurement as Measurement,
    calibrate as calibrate,
    read_benchmark_log as read_benchmark_log,
)
from .draws import DRAWS as DRAWS, Draws as Draws, percentiles as percentiles
from .formats.flow_trace import (
    check_parquet as check_parquet,
    format_trace_csv as format_trace_csv,
    format_trace_parquet as format_trace_parquet,
)
from .formats.flows_csv import format_flows_csv as format_flows_csv, read_flows_csv as read_flows_csv
from .play import JobResult as JobResult
from .read import bare_flows as bare_flows, format_as_goal as format_as_goal
from .spec import StorageSpec as StorageSpec, WorkloadSpec as WorkloadSpec
from .storage import SteadyReads as SteadyReads, steady_reads as steady_reads
