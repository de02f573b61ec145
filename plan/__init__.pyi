from .building import build as build, check as check, route as route
from .changes import Changes as Changes, diff as diff, grow as grow
from .optimum import Optimum as Optimum, optimise as optimise
from .pipeline import Options as Options, Plan as Plan
from .repairing import Repaired as Repaired, repair as repair
from .sweeps.result import Points as Points, sweep as sweep
