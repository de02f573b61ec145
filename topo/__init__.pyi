from .cluster import ClusterSpec as ClusterSpec
from .errors import HeddleError as HeddleError
from .fabric import Fabric as Fabric
from .fabric import Kind as Kind
from .fabric import Role as Role
from .table import Column as Column
from .table import Table as Table
