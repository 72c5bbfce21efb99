import pytest
from tests.data.installed import Built, Site

from unstale.data.docstrings import docstrings_folder


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return Site(tmp_path / "site")


@pytest.fixture
def build(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSTALE_CACHE", str(tmp_path / "cache"))

    def build(*packages):
        return Built(docstrings_folder(packages))

    return build
