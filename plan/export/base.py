"""What an export is: a format, or a few files that are read together, and what a plan needs for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from plan.checksums import of_one_plan, read_sums
from plan.inputs import FABRIC_FILE, RoleFiles, give_roles, read_plan, subnet_folders
from plan.pipeline import COMPILE, Pass, Plan, Progress, prove_tables, route_subnets, run_passes, silent
from plan.staging import Content
from topo import Fabric, HeddleError, read_fabric

Files = dict[str, Content]
"""By path relative to the output folder."""
Maker = Callable[[Plan, int], Content | Mapping[str, Content]]
"""Makes a file, or the files of a folder by name, of a plan and the number of a subnet."""


@dataclass(frozen=True)
class Export:
    """A format, or a few files that are read together."""

    name: str
    """As `plan export` takes it."""
    purpose: str
    """What its files are for."""
    consumer: str
    """The program that reads them, and the versions for which they hold."""
    passes: tuple[Pass, ...]
    """What a plan needs for it."""
    files: Mapping[str, Maker]
    """Who makes each file, or folder if it ends in ``/``, by its path in the output folder."""
    each_subnet: bool = False
    """Whether every subnet has these files, in a folder of its own if there are several subnets."""
    built: bool = True
    """Whether `plan build` writes them."""

    def make(self, plan: Plan) -> Files:
        """Return the files for a plan that the passes have made."""
        folders = [f"{fabric.name}/" if len(plan.subnets) > 1 else "" for fabric in plan.subnets]
        made: Files = {}
        for subnet, folder in enumerate(folders if self.each_subnet else [""]):
            for path, maker in self.files.items():
                content = maker(plan, subnet)
                several = content.items() if isinstance(content, Mapping) else [("", content)]
                made |= {f"{folder}{path}{name}": one for name, one in several}
        return made

    def files_of(
        self,
        path: Path,
        step: Progress = silent,
        hosts: RoleFiles | None = None,
        subnet: str | None = None,
        note: Progress = silent,
    ) -> Files:
        """Return the files of this format; files that are already in an output folder are copied unchanged.

        ``hosts`` is of use for a real fabric, ``subnet`` for a plan that has several. What speaks against files of
        subnets goes to ``note``.
        """
        as_is = hosts in (None, RoleFiles()) and not subnet
        if path.is_dir() and as_is and (files := of_one_plan(self._written)(path)):
            written = [read_fabric(folder / FABRIC_FILE) for folder in subnet_folders(path).values()]
            self._warn(written, note)
            return files
        plan = read_plan(path)
        plan = replace(plan, fabrics=tuple(give_roles(one, hosts) for one in plan.fabrics))
        of_subnets = set(self.passes) <= {*COMPILE, route_subnets, prove_tables}
        if subnet is not None:
            plan = one_subnet(plan, subnet, of_subnets, self.name)
        if plan.cluster is None and not of_subnets:
            raise HeddleError(f"{path}: found a fabric; expected a spec, or a folder of `plan build`, for {self.name}")
        left = [each for each in self.passes if not (each.adds and getattr(plan, each.adds[0]))]
        plan = run_passes(plan, left, step)
        files = self.make(plan)
        self._warn(plan.subnets, note)
        if not files:
            found, wanted = "no floor plan", "a spec with `floor`"
            if self.each_subnet:
                found, wanted = "Ethernet only", "a fabric with a subnet manager"
            raise HeddleError(f"{path}: found {found}; expected {wanted}, for {self.name}")
        return files

    def _warn(self, subnets: Iterable[Fabric], note: Progress) -> None:
        """Say what speaks against files of these subnets, where they are of subnets."""
        for fabric in subnets:
            if self.each_subnet and fabric.caveat:
                note(f"{fabric.name}: {fabric.caveat}")

    def _written(self, folder: Path) -> Files:
        """Return the files out of a folder that `plan build` or `plan route` wrote; none when it has none."""
        subnet_folders(folder)  # refuses a folder of somebody else
        found: Files = {}
        for name, digest in read_sums(folder).items():
            if any(
                path == place or (place.endswith("/") and path.startswith(place))
                for place in self.files
                for path in (name, name.partition("/")[2])  # the second: in the folder of a subnet
            ):
                try:
                    content = found[name] = (folder / name).read_bytes()
                except OSError as error:
                    raise HeddleError(f"{folder / name}: cannot be read ({error.strerror})") from None
                if hashlib.sha256(content).hexdigest() != digest:
                    raise HeddleError(f"{folder / name}: found a file that was changed after it was written")
        return found


def one_subnet(plan: Plan, subnet: str, of_subnets: bool, format: str) -> Plan:
    """Return the plan with one of its subnets alone, for a format that is ``of_subnets``."""
    names = [fabric.name for fabric in plan.subnets]
    if not of_subnets:
        raise HeddleError(f"--subnet: found {subnet!r:.80}; {format} is about the whole cluster: leave --subnet out")
    if subnet not in names:
        raise HeddleError(f"--subnet: found {subnet!r:.80}; expected one of {', '.join(names)}")
    at = names.index(subnet)
    return replace(plan, fabrics=(plan.fabrics[at],), routed=plan.routed[at : at + 1])
