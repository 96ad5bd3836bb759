import pytest

pytest.importorskip("d3rlpy", reason="the extra 'offline' is not installed")


@pytest.fixture
def minari_folder(tmp_path, monkeypatch):
    """An empty folder where Minari looks for its data sets, here and in processes that are started."""
    folder = tmp_path / "minari"
    folder.mkdir()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder
