"""The files of OpenSM, read and written.

``opensm_files``  everything that OpenSM needs to load a plan, by name
``format_lfts``  forwarding tables, as `-R file -U` loads them
``lfts_sections``  the same, one switch at a time
``read_lfts``  forwarding tables from a file
``parse_lfts``  forwarding tables from a text
``LftsRead``  tables that were read, and notes
``read_lanes``  lane of each service level, from ``opensm.conf`` or ibdiagnet's ``.slvl``
``read_qos_policy``  service level of each path, from ``qos-policy.conf``
``read_levels``  the same, or from ibdiagnet's ``.psl``
``format_guid2lid``  LID of each port GUID
``read_guid2lid``  the same from a file
``IbdmchkReport``  what ibdmchk found
``parse_report``  the same from its output
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
