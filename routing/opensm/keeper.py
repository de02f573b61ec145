"""A recipe, not a daemon: units of systemd and a script that mend the tables whenever OpenSM has found a change.

OpenSM writes ``opensm-subnet.lst`` after each sweep (``log_flags 0x43``), a trap's too, so the path unit is told of
every link that goes or comes. The script takes that file for the fabric as it is now: it asks nothing of the subnet.
The timer is for what was missed.
"""

from __future__ import annotations

SCRIPT = """\
#!/bin/sh
# Keeps OpenSM's tables in step with the fabric. heddle-repair.path starts it whenever OpenSM has swept.
# Status 0: done, or nothing to do. Otherwise the tables that are loaded stay as they are; $STATE/report says why.
set -eu
PLAN=${{PLAN:-{directory}/plan}}                  # of the whole fabric: by `plan route`, or `plan diff --adopt`
NOW=${{NOW:-/var/log/opensm-subnet.lst}}          # what OpenSM found in its last sweep
TABLES=${{TABLES:-{directory}/lfts}}
STATE=${{STATE:-/var/lib/heddle}}
RELOAD=${{RELOAD:-pkill -HUP -x opensm}}          # OpenSM reads its tables again and sweeps

mkdir -p "$STATE"
exec 9> "$STATE/lock"
flock 9
cp "$NOW" "$STATE/now.lst"
# The tables follow from PLAN and from what is down now, and from nothing else. Status 1: a pair is missing that
# cables connect, a host has another cable than PLAN says, or a credit loop was found; then nothing is loaded.
plan repair "$PLAN" --now "$STATE/now.lst" --loaded "$TABLES" -o "$STATE/repaired" > "$STATE/report" 2>&1
diff -q -I '^#' "$STATE/repaired/opensm/lfts" "$TABLES" > /dev/null && exit 0   # but for comments
cp "$STATE/repaired/opensm/lfts" "$TABLES.new"
mv "$TABLES.new" "$TABLES"
$RELOAD
plan diff "$PLAN" "$STATE/now.lst" -o "$STATE/differences" >> "$STATE/report" 2>&1 || true
"""

SERVICE = """\
[Unit]
Description=Mend OpenSM's tables after links, switches or hosts went or came
After=opensm.service

[Service]
Type=oneshot
ExecStart={directory}/heddle-repair
"""

PATH_UNIT = """\
[Unit]
Description=Mend OpenSM's tables after each sweep

[Path]
PathChanged=/var/log/opensm-subnet.lst

[Install]
WantedBy=multi-user.target
"""

TIMER = """\
[Unit]
Description=Mend OpenSM's tables, should a sweep have been missed

[Timer]
OnBootSec=10min
OnUnitInactiveSec=10min
Unit=heddle-repair.service

[Install]
WantedBy=timers.target
"""


def keeper_files(directory: str) -> dict[str, str]:
    """Return the script and its units by name; ``directory`` is where the files will be installed."""
    return {
        "heddle-repair": SCRIPT.format(directory=directory),
        "heddle-repair.service": SERVICE.format(directory=directory),
        "heddle-repair.path": PATH_UNIT,
        "heddle-repair.timer": TIMER,
    }
