from .conf import read_lanes as read_lanes
from .files import opensm_files as opensm_files
from .guid2lid import format_guid2lid as format_guid2lid, read_guid2lid as read_guid2lid
from .ibdmchk import IbdmchkReport as IbdmchkReport, parse_report as parse_report
from .lfts import (
    LftsRead as LftsRead,
    format_lfts as format_lfts,
    lfts_sections as lfts_sections,
    parse_lfts as parse_lfts,
    read_lfts as read_lfts,
)
from .qos_policy import read_levels as read_levels, read_qos_policy as read_qos_policy
