from .figures import (
    Congestion as Congestion,
    Quality as Quality,
    UplinkShare as UplinkShare,
    bisections as bisections,
    congestion as congestion,
    halving_doubling as halving_doubling,
    permutations as permutations,
    shifts as shifts,
)
