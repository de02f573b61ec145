from .charts import draw_failures as draw_failures, draw_run as draw_run
from .degradation import Degradation as Degradation
from .failures import FailureSpec as FailureSpec
from .job import JobRecord as JobRecord
from .queue import Queue as Queue, QueueSpec as QueueSpec, parse_queue as parse_queue, read_queue as read_queue
from .run import ClusterRun as ClusterRun
from .saved_run import format_saved_run as format_saved_run, read_saved_run as read_saved_run
from .year import play_year as play_year
