"""A cluster at work for hours or days: queues of jobs, a scheduler, runs that stop and go on."""
