from . import palette as palette
from .budget import Budget as Budget, budgets as budgets
from .cluster import (
    Cluster as Cluster,
    compile as compile,
    parse as parse,
    preset as preset,
    presets as presets,
    read as read,
)
from .counts import Counts as Counts, count as count
from .differences import (
    Difference as Difference,
    Differences as Differences,
    find_differences as find_differences,
)
from .drawing import Drawing as Drawing, draw as draw, lay_out as lay_out
from .drawing.charts import Axes as Axes, chart as chart
from .drawing.rooms import draw_each_rack as draw_each_rack, draw_floor as draw_floor, draw_racks as draw_racks
from .drawing.scene import Scene as Scene
from .errors import (
    DesignError as DesignError,
    Finding as Finding,
    FormatError as FormatError,
    HeddleError as HeddleError,
    RoutingError as RoutingError,
    SpecError as SpecError,
    ToolError as ToolError,
    did_you_mean as did_you_mean,
    plural as plural,
)
from .fabric import Fabric as Fabric, Kind as Kind, Role as Role
from .formats.csv import format_csv as format_csv, plain_text as plain_text
from .formats.fabric_file import read_fabric as read_fabric
from .formats.fabric_json import format_fabric as format_fabric, write_fabric as write_fabric
from .formats.guid_list import read_guid_list as read_guid_list
from .formats.ibnetdiscover import format_ibnetdiscover as format_ibnetdiscover
from .formats.text import read_text as read_text
from .formats.yaml import read_yaml as read_yaml
from .growth import Growth as Growth, plan_growth as plan_growth
from .hardware.catalog import Catalog as Catalog, config_root as config_root, load_catalog as load_catalog
from .hardware.devices import adapter_device as adapter_device, switch_device as switch_device
from .hardware.latency import hop_latencies as hop_latencies
from .hardware.speeds import SPEEDS as SPEEDS
from .hostlist import (
    compress as compress,
    device_number as device_number,
    expand as expand,
    natural_order as natural_order,
)
from .losses import Loss as Loss, Losses as Losses, find_losses as find_losses
from .matching import Match as Match, match_nodes as match_nodes
from .missing import find_missing as find_missing
from .parts import (
    PART_KINDS as PART_KINDS,
    PartKind as PartKind,
    fail_parts as fail_parts,
    list_parts as list_parts,
    unite as unite,
)
from .ports import PortUse as PortUse, count_ports as count_ports
from .reach import Failed as Failed, Reach as Reach
from .roles import apply_guids as apply_guids, apply_rules as apply_rules, read_role_rules as read_role_rules
from .room.cables import Cabling as Cabling, backplane as backplane
from .room.panels import Panel as Panel, panels as panels
from .room.racks import Layout as Layout
from .room.trays import Trays as Trays, fill_trays as fill_trays
from .schema.base import SpecModel as SpecModel, TrafficClass as TrafficClass
from .schema.cluster import ClusterSpec as ClusterSpec
from .schema.validation import validate as validate
from .sums import Check as Check, Range as Range, Sum as Sum, Verdict as Verdict
from .table import Column as Column, Table as Table, format_seconds as format_seconds
