from .basis import RepairBasis as RepairBasis, prepare_repair as prepare_repair
from .repair import Repair as Repair, repair as repair, route_anew as route_anew
from .updates import Updates as Updates, differing_entries as differing_entries, order_updates as order_updates
