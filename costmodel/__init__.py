"""What a cluster is made of, what it costs and draws, and which network is the cheapest that meets given needs.

Every result is one line on a terminal and has a ``table`` (a `topo.Table`); a notebook shows all its tables.

The bill
    ``bill``  every part of a cluster, spares included: `Bill.price` and `Bill.power` say what it costs and draws
    ``Bill``  lines of parts with their counts
    ``Line``  a line of it: kind, item, count and place
    ``SUMS``  the sums of a bill, each with its kinds of parts: network, servers, racks, total
    ``SPARE``  place of parts that are bought and not used yet
    ``price_gaps``  the rows of ``prices.csv`` that are missing, to be filled in
    ``Cost``  a bill in one currency: sums that name what has no price
    ``Power``  what the parts of a bill draw, typically and at most
    ``quote``  bill, cost, power, cost of owning and budgets of a cluster in one
    ``Quote``  what `quote` returns
    ``own``  capital, energy over the years and failures to expect
    ``CostOfOwning``  what `own` returns

Beside others
    ``compare``  clusters beside one another: parts, cost, power, bisection, largest failure
    ``Comparison``  what `compare` returns
    ``is_published``  whether a cluster is one of those that the paper compares
    ``baselines``  the published comparison of three systems, computed again
    ``Baselines``  what `baselines` returns
    ``published``  figures printed in a paper, by table, system and name
    ``Published``  what `published` returns

The cheapest design
    ``read_needs``  what a network has to do, from a YAML file
    ``Needs``  what a network has to do, without saying how
    ``optimise``  the cheapest network of many families that meets needs
    ``Search``  what `optimise` returns: the winner, with the certificate that none is cheaper
    ``optimise_networks``  the same for needs with several networks
    ``Networks``  what `optimise_networks` returns: a search for each, one spec and one bill
    ``trade_off``  what each need costs, and price over bandwidth
    ``Tradeoffs``  what `trade_off` returns
    ``bisection``  share of its rate that every server of a bisected job gets, with the best routing
    ``job_networks``  the networks over which jobs send, without those of storage and management
    ``Bisection``  what `bisection` returns: the share, whether it is exact or a bound, and the worst cut
    ``WorstCut``  switches whose links to the others allow no more
    ``Design``  a design of a search: its spec, and what it is worth
    ``job_windows``  first node of each job of a size or a mix, and the one after its last
    ``jobs_at_once``  these jobs, those together that have the network at the same time
    ``serving_share``  share of its rate that every server of a role can send to all that compute
    ``serving_gbps``  rate at which all servers of a role can send to all that compute, whatever the routing
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
