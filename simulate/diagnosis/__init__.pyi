from .bad_links import (
    AbsentDevice as AbsentDevice,
    BadLink as BadLink,
    BadLinks as BadLinks,
    find_bad_links as find_bad_links,
)
from .counters import (
    ERRORS as ERRORS,
    Counters as Counters,
    are_counters as are_counters,
    read_counters as read_counters,
    tick_bytes as tick_bytes,
)
from .measured import Measured as Measured, check_measured as check_measured, read_measured as read_measured
from .slow_links import Explanation as Explanation, Suspect as Suspect, explain as explain
from .wait_counters import Waits as Waits, explain_waits as explain_waits
