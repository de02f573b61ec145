from . import palette as palette
from .builder import FabricBuilder as FabricBuilder
from .budget import Budget as Budget, budgets as budgets
from .cluster import (
    Cluster as Cluster,
    compile as compile,
    parse as parse,
    preset as preset,
    presets as presets,
    read as read,
)
from .counts import Counts as Counts, count as count, slowed_adapters as slowed_adapters
from .changes.differences import (
    Difference as Difference,
    Differences as Differences,
    find_differences as find_differences,
)
from .drawing import Drawing as Drawing, draw as draw, lay_out as lay_out
from .drawing.charts import Axes as Axes, chart as chart
from .drawing.floor import (
    draw_each_rack as draw_each_rack,
    draw_floor as draw_floor,
    draw_rack_index as draw_rack_index,
    draw_racks as draw_racks,
)
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
    whole as whole,
)
from .fabric import Fabric as Fabric, Kind as Kind, Purpose as Purpose, Role as Role
from .checks import Check as Check, Cure as Cure
from .files.csv import format_csv as format_csv, plain_text as plain_text
from .dumps.db_csv import format_db_csv as format_db_csv
from .dumps.fabric_file import read_fabric as read_fabric
from .dumps.fabric_json import format_fabric as format_fabric, write_fabric as write_fabric
from .dumps.ibnetdiscover import format_ibnetdiscover as format_ibnetdiscover
from .dumps.lldp import format_lldp as format_lldp
from .files.text import config_root as config_root, path_of as path_of, read_text as read_text
from .files.yaml import read_yaml as read_yaml
from .changes.growth import Growth as Growth, plan_growth as plan_growth
from .catalog.load import Catalog as Catalog, load_catalog as load_catalog
from .catalog.devices import device_id as device_id, hop_latencies as hop_latencies, vendor_name as vendor_name
from .speeds import SPEEDS as SPEEDS, LinkSpeed as LinkSpeed
from .hostlist import (
    compress as compress,
    device_number as device_number,
    expand as expand,
    natural_order as natural_order,
)
from .failures.losses import Loss as Loss, Losses as Losses, find_losses as find_losses
from .changes.matching import (
    Match as Match,
    Missing as Missing,
    find_missing as find_missing,
    match_nodes as match_nodes,
)
from .failures.parts import (
    PART_KINDS as PART_KINDS,
    PartKind as PartKind,
    fail_parts as fail_parts,
    list_parts as list_parts,
    unite as unite,
)
from .ports import (
    PortUse as PortUse,
    count_ports as count_ports,
    idle_level as idle_level,
    lacks_manager as lacks_manager,
    rail_numbers as rail_numbers,
    slow_cables as slow_cables,
    uneven_links as uneven_links,
)
from .failures.reach import Failed as Failed, Reach as Reach
from .dumps.roles import (
    apply_guids as apply_guids,
    apply_rules as apply_rules,
    read_guid_list as read_guid_list,
    read_role_rules as read_role_rules,
)
from .floor.cables import Cabling as Cabling, Trays as Trays, backplane as backplane, fill_trays as fill_trays
from .floor.panels import Panel as Panel, panels as panels, server_ports as server_ports
from .floor.racks import Layout as Layout
from .spec.base import SpecModel as SpecModel, TrafficClass as TrafficClass
from .cluster_spec import ClusterSpec as ClusterSpec
from .spec.validation import validate as validate
from .amounts import Range as Range, Sum as Sum, Verdict as Verdict, percent as percent
from .table import Column as Column, Shown as Shown, Table as Table, format_seconds as format_seconds
