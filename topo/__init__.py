"""Clusters: specs, the hardware that they name, the fabrics that follow, their floors and pictures.

Clusters
    ``preset``  a cluster that ships, by its name
    ``presets``  the names of those, each with a line about it
    ``read``  a cluster's YAML file
    ``parse``  a cluster's YAML text, or a mapping of plain values
    ``compile``  a spec that was made or changed in Python
    ``Cluster``  a spec with its catalog: `fabric` or `fabrics`, `layout`, `cablings`
    ``ClusterSpec``  what a spec may say
    ``TrafficClass``  traffic with a service level and a lane of its own
    ``Catalog``  models of hardware with their sources and prices
    ``load_catalog``  the models that ship, and those of your own tables
    ``config_root``  the folder of presets and catalogs

Fabrics
    ``Fabric``  one subnet: nodes, ports and links as arrays, and the questions that they answer
    ``Kind``  what a node is: switch, adapter, aggregation node, router
    ``Purpose``  what tables are for: any, jobs, permutations, all-pairs
    ``Role``  what a node is for: compute, storage, leaf, spine, ...
    ``count``  how many of everything several subnets have together
    ``Counts``  that, with one list of keys for every command
    ``lacks_manager``  why no server but those that compute can run OpenSM
    ``count_ports``  how the ports of switches are used, how many are free, and how far a tree tapers
    ``PortUse``  what `count_ports` returns
    ``idle_level``  which cores or spines carry nothing
    ``slow_cables``  which cables run at other speeds than those beside them
    ``uneven_links``  which switches have other numbers of links upwards than most of their peers
    ``rail_numbers``  which of the ports of its server each adapter port is
    ``slowed_adapters``  adapters that ports of switches do not let reach their own rate
    ``Reach``  who reaches whom over all subnets of a plan
    ``find_losses``  what a single failure takes away: of a switch, a link, a rack, a power feed
    ``list_parts``  what fails as one piece: links, switches, line cards, racks, bundles, batches
    ``PART_KINDS``  their kinds
    ``PartKind``  one of these
    ``Failed``  what does not work
    ``unite``  what does not work when several parts fail together
    ``fail_parts``  fabrics without it
    ``find_missing``  cables that a later picture of a fabric lacks, and nodes that were replaced
    ``Missing``  what it returns
    ``match_nodes``  which node of a fabric stands in the place of which node of its plan
    ``Match``  what `match_nodes` returns
    ``find_differences``  what is different in a fabric from its plan: cables, nodes, places, speeds
    ``Differences``  all of them, in the order of a walk
    ``Difference``  one of them
    ``plan_growth``  from one plan to a larger one: what stays, and which cables move in which order
    ``Growth``  what it returns
    ``Losses``  the worst failure of each kind of part
    ``Loss``  one failure, with what is lost
    ``read_fabric``  a fabric that was written, a real one as any tool of the field lists it, or planned cabling
    ``write_fabric``  writes a fabric with everything that it knows
    ``Layout``  where every device of a cluster stands
    ``fill_trays``  how many cables lie in each piece of the trays
    ``Trays``  these numbers
    ``Cabling``  which cable each link of a subnet takes
    ``Panel``  the cages of a subnet, and what is printed at each port
    ``panels``  the panels of all subnets of a cluster
    ``server_ports``  what is printed at the ports of a model of server
    ``backplane``  which links of a subnet need no cable
    ``hop_latencies``  how long a header takes over each link, from the catalog and the lengths of cables
    ``draw``  a picture of a fabric, or of all subnets of a cluster
    ``chart``  charts with a title and a legend
    ``Axes``  one of them, into which curves, bars, points or cells are put
    ``draw_floor``  a picture of the floor from above, with the cables in its trays
    ``draw_racks``  the front of every rack, on pages to print
    ``draw_rack_index``  which racks are on which of these pages
    ``draw_each_rack``  a picture of each rack
    ``Drawing``  a picture that shows itself in a notebook, and `save` writes
    ``lay_out``  where the parts of a fabric stand in its picture
    ``Scene``  what `lay_out` returns: boxes, hosts, lines
    ``palette``  colours of all pictures
    ``apply_rules``  hosts with the roles that rules over their names give them
    ``apply_guids``  hosts with the roles that lists of port GUIDs give them
    ``read_role_rules``  rules for `apply_rules`: lines such as ``storage st*``
    ``read_guid_list``  port GUIDs from a file, one a line
    ``format_fabric``  a fabric as the text that `write_fabric` writes
    ``format_ibnetdiscover``  a fabric as ibnetdiscover prints it
    ``format_db_csv``  a fabric, and counters of its ports, as ibdiagnet's database
    ``format_lldp``  a fabric as lldpctl prints it on each device
    ``FabricBuilder``  builds a fabric node by node and link by link
    ``LinkSpeed``  a generation and a number of lanes: ``4xHDR``
    ``SPEEDS``  names of link speeds, by their number in a fabric

Results: one line on a terminal, ``table`` for the figures, all tables in a notebook
    ``Table``  what the figures of every result are in: `Table.rows`, `Table.to_csv`, `Table.to_pandas`
    ``Column``  one column of a table
    ``Shown``  base of results: one line on a terminal, tables in a notebook
    ``Range``  an amount between two bounds
    ``Sum``  a sum with gaps: the range of what is known, and the items that it lacks
    ``Verdict``  holds, exceeded, cannot tell
    ``Check``  a limit, and the verdict on it: by how much it is missed, and what cures it
    ``Cure``  a key to change, with its value and price
    ``percent``  a share as it is printed

Names and files
    ``compress``  names as a host list: ``gpu[08-10]``
    ``expand``  the names of a host list
    ``natural_order``  a key by which ``leaf2`` comes before ``leaf11``
    ``device_number``  3 of ``mlx5_3``
    ``device_id``  InfiniBand device ID of a node
    ``vendor_name``  the model of a switch as the device itself says it
    ``did_you_mean``  a hint with the nearest of some names
    ``read_yaml``  a YAML file as plain values with their places
    ``validate``  what such a file says, as an instance of a model
    ``SpecModel``  base of models of YAML files
    ``read_text``  the text of a file, within its budget
    ``path_of``  what was given as a path, refused where it is none
    ``format_csv``  a table as CSV that spreadsheets do not compute
    ``plain_text``  what stood in a cell of it
    ``budgets``  the most that files and jobs may take of the machine, by name
    ``Budget``  one of them
    ``format_seconds``  a time in the unit that suits it
    ``plural``  a number with its noun: ``1 zone``, ``2 zones``
    ``whole``  a whole number within bounds, or a `HeddleError` that says which

Errors
    ``HeddleError``  every error that Heddle raises on purpose
    ``SpecError``  a spec or catalog with its findings, each with its place
    ``DesignError``  a design that cannot be built, with the arithmetic
    ``FormatError``  a file of another format that cannot be read
    ``RoutingError``  a fabric that an engine does not take
    ``ToolError``  a program from outside that fails or is missing
    ``Finding``  one thing that is wrong: where, found, expected, what to do
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
