import pytest

from costmodel.baselines import Published, read_published
from topo.hardware.catalog import Catalog, config_root, load_catalog


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="session")
def published() -> Published:
    return read_published(config_root() / "published" / "fire-flyer-ai-hpc.csv")
