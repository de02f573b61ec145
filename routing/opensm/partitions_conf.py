"""OpenSM's ``partitions.conf`` (``osm_prtn_config.c``): the partition that everybody is a full member of.

The word ``full`` matters: members are limited by default, and two limited members cannot talk to each other. Where the
file names no default partition, everybody but the subnet manager is limited.
"""

from __future__ import annotations


def format_partitions() -> str:
    """Return the file of one open subnet, with IPoIB."""
    return (
        "# One partition with everybody in it. Without the word full, hosts could not talk to each other.\n"
        "Default=0x7fff, ipoib, defmember=full : ALL=full, SELF=full ;\n"
    )
