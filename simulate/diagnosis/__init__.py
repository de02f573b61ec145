"""Diagnosis: which links or collisions explain measured bandwidths, or waiting at ports, and which links have errors.

``explain``  the links or collisions that explain measured bandwidths
``Explanation``  its result: which links are identified, how surely, and what to measure next
``Suspect``  a link, or a collision
``read_measured``  measured bandwidths of pairs, from a CSV file
``check_measured``  refuses a file that does not begin as one of them
``Measured``  measured bandwidths of pairs
``explain_waits``  the links or collisions that made ports wait, from their counters
``Waits``  its result
``read_counters``  counters of ports, as ibdiagnet, ibqueryerrors and perfquery print them
``are_counters``  whether a file holds such counters
``find_bad_links``  links with errors or below their rate, with the pairs that cross them
``BadLinks``  its result
``BadLink``  one of them
``AbsentDevice``  a device with counters of ports that the fabric does not have
``Counters``  what ports have sent, and how long they waited
``tick_bytes``  bytes that ports could have sent in a tick of PortXmitWait
``ERRORS``  counters of errors, with their bits
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
