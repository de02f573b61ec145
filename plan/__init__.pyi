from .building import build as build, check as check, route as route
from .changes import Changes as Changes, diff as diff, grow as grow
from .export.registry import export_files as export_files
from .inputs import Hashing as Hashing, Questions as Questions, RoleFiles as RoleFiles, RoutingFiles as RoutingFiles
from .operation import Operated as Operated, operate as operate
from .keeping import Keeper as Keeper, Kept as Kept
from .mocking import Mock as Mock, mock as mock
from .optimum import Optimum as Optimum, optimise as optimise
from .picture import Drawn as Drawn, draw as draw
from .pipeline import Options as Options, Plan as Plan
from .ranking import RankOrders as RankOrders, order_ranks as order_ranks
from .repairing import Repaired as Repaired, repair as repair
from .simulation import Simulated as Simulated, simulate as simulate
from .sweeps.result import Points as Points, sweep as sweep
from .verification import Verified as Verified, verify as verify
