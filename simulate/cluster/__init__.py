"""A cluster at work for hours or days: queues of jobs, a scheduler, runs that stop and go on, failures.

Queues
    ``read_queue``  a queue's YAML file: jobs that come over hours or days
    ``parse_queue``  a queue's YAML text, or a mapping of plain values
    ``Queue``  its jobs and rules
    ``QueueSpec``  what a queue's YAML may say
    ``ClusterRun``  plays a queue; can be stopped, and resumed with the same results to the last bit
    ``JobRecord``  what has become of a job
    ``read_saved_run``  a stopped run from its file
    ``format_saved_run``  a stopped run as the bytes of a file
    ``draw_run``  charts of a run: jobs, waiting and failures over time

Failures
    ``FailureSpec``  which parts fail, how often and for how long, and what jobs lose
    ``Degradation``  what is left of a routed cluster without some parts
    ``play_year``  a year of failures drawn at random, and what it costs
    ``draw_failures``  charts of a year: what fails when
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
