import pytest

from costmodel.baselines import Published
from costmodel.baselines import published as read_published
from topo.catalog.load import Catalog, load_catalog


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="session")
def published() -> Published:
    return read_published()
