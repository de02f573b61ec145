"""A small cluster whose processes can be stopped and resumed."""

import numpy as np

from helpers.clusters import CATALOG, zoned
from helpers.fluids import routed
from routing.routed import Routed
from simulate.cluster.resumable import Arrays, ResumableEnvironment
from simulate.traffic.network import Network
from simulate.workload.spec import StorageSpec
from simulate.workload.storage import Client, Storage
from topo.fabric import Role

FABRIC = zoned(leaves=4, spines=2, n_gpus=12, n_storage=8, joints=1, ports=1)
NETWORK = Network.of(Routed(FABRIC, routed(FABRIC)), latency_s=0)


class World:
    """Clients that read with a limit on senders, write, and send each other sets of flows."""

    def __init__(self, saved: Arrays | None = None, seed: int = 0) -> None:
        self.env = ResumableEnvironment(NETWORK, saved)
        self.storage = Storage(self.env, CATALOG.node("storage-3fs"), StorageSpec(senders=3))
        files = [self.storage.file(np.random.default_rng(1)) for _ in range(3)]
        ends = np.arange(FABRIC.n_switches, FABRIC.n_end_ports)
        self.ends = ends[FABRIC.role[FABRIC.end_node[ends]] == Role.COMPUTE]
        for end, rng in zip(self.ends.tolist(), np.random.default_rng(seed).spawn(len(self.ends)), strict=True):
            client = Client(self.storage, end, rng)
            self.env.process(client.load(files, 6, 2.0**20, batches=4))
            self.env.process(client.save(files[0], 2.0**22))
        self.rounds: list[float] = []
        self.env.process(self.ring())

    def ring(self):  # type: ignore[no-untyped-def]
        for _ in range(5):
            last = yield self.env.transfer_all(self.ends, np.roll(self.ends, 1), 1e6)
            self.rounds.append(last.finish_s)
            yield self.env.timeout(1e-4)

    def play(self, steps: int = 10**9) -> bytes:
        for _ in range(steps):
            if self.env.peek() == np.inf:
                break
            self.env.step()
        result = [*self.storage.readings, (self.storage.written_bytes, *self.rounds)]
        return repr(result).encode() + self.env.engine.loads().tobytes()
