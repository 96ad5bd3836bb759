import pytest

from tests.study.postgresql import start_server


@pytest.fixture(scope="session")
def postgresql_server():
    server = start_server()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request, tmp_path):
    """The address of an empty database; with PostgreSQL the studies of a test need names of their own."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'study.db'}"
    return request.getfixturevalue("postgresql_server").url
