from .baselines import (
    Baselines as Baselines,
    Published as Published,
    baselines as baselines,
    is_published as is_published,
    published as published,
)
from .bills import Bill as Bill, bill as bill
from .optimise.bisection import (
    Bisection as Bisection,
    WorstCut as WorstCut,
    bisection as bisection,
    job_networks as job_networks,
    serving_gbps as serving_gbps,
    serving_share as serving_share,
)
from .comparison import Comparison as Comparison, compare as compare
from .optimise.needs import Needs as Needs, read_needs as read_needs
from .owning import CostOfOwning as CostOfOwning, Quote as Quote, own as own, quote as quote
from .parts import SPARE as SPARE, Line as Line
from .power import Power as Power
from .price import SUMS as SUMS, Cost as Cost, price_gaps as price_gaps
from .optimise.design import Design as Design
from .optimise.search import Search as Search, optimise as optimise
from .optimise.networks import Networks as Networks, optimise_networks as optimise_networks
from .optimise.problem import job_windows as job_windows, jobs_at_once as jobs_at_once
from .optimise.tradeoffs import Tradeoffs as Tradeoffs, trade_off as trade_off
