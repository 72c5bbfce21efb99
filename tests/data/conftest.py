import pytest
from tests.data.installed import Built, Site

from unstale.data.docstrings import build_docstrings


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return Site(tmp_path / "site")


@pytest.fixture
def build(tmp_path):
    def build(*packages):
        folder = tmp_path / "built"
        build_docstrings(folder, packages, progress=False)
        return Built(folder)

    return build
