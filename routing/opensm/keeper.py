"""Units of systemd that run `plan keep` whenever OpenSM has found a change, or that keep it running.

OpenSM writes ``opensm-subnet.lst`` after each sweep (``log_flags 0x43``), a trap's too, so the path unit is told of
every link that goes or comes. The timer is for what was missed, and for what failed. The resident keeper takes the
place of both.
"""

from __future__ import annotations

NOW = "/var/log/opensm-subnet.lst"

# systemd looks for programs in /usr/local/bin, where the README puts a link to `plan`, and in /usr/sbin.
COMMAND = "/usr/bin/env plan keep {directory}/plan --now {now} --load {directory}/lfts"

ONCE = """\
[Unit]
Description=Keep OpenSM's tables as good as what is up allows
After=opensm.service

[Service]
Type=oneshot
ExecStart={command}
"""

PATH_UNIT = """\
[Unit]
Description=Keep OpenSM's tables after each sweep

[Path]
PathChanged={now}

[Install]
WantedBy=multi-user.target
"""

TIMER = """\
[Unit]
Description=Keep OpenSM's tables, should a sweep have been missed or a pass have failed

[Timer]
OnBootSec=10min
OnUnitInactiveSec=10min
Unit=heddle-keep.service

[Install]
WantedBy=timers.target
"""

RESIDENT = """\
[Unit]
Description=Keep OpenSM's tables as good as what is up allows, from memory
After=opensm.service

[Service]
ExecStart={command} --every 60
Restart=always
RestartSec=60

[Install]
WantedBy=multi-user.target
"""


def keeper_files(directory: str) -> dict[str, str]:
    """Return the units by name; ``directory`` is where the files of a plan will be installed."""
    command = COMMAND.format(directory=directory, now=NOW)
    return {
        "heddle-keep.service": ONCE.format(command=command),
        "heddle-keep.path": PATH_UNIT.format(now=NOW),
        "heddle-keep.timer": TIMER,
        "heddle-keeper.service": RESIDENT.format(command=command),
    }
