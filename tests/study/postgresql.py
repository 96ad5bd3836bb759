"""A real PostgreSQL server on loopback, started and stopped by the tests."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest


class Server:
    """
    A server of its own with an empty database.
    """

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._data = Path(tempfile.mkdtemp(prefix="postgresql-"))
        # The server refuses to run as root.
        self._user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self._user:
            shutil.chown(self._data, "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._call("initdb", "--auth=trust", "--username=postgres", "--no-sync", "-D", str(self._data / "db"))
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        log = str(self._data / "log")
        self._call("pg_ctl", "start", "-w", "-D", str(self._data / "db"), "-l", log, "-o", options)

    def stop(self) -> None:
        self._call("pg_ctl", "stop", "-w", "-m", "immediate", "-D", str(self._data / "db"))

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._data)

    def _call(self, program: str, *arguments: str) -> None:
        command = [*self._user, str(self._programs / program), *arguments]
        # Not a pipe: the server would keep it open.
        subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def start_server() -> Server:
    programs = [Path(path).parent for path in [shutil.which("initdb")] if path]
    programs += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("PostgreSQL is not installed; with Debian: apt-get install postgresql")
    pytest.importorskip("psycopg", reason="the package psycopg is not installed: pip install 'psycopg[binary]'")
    return Server(programs[-1])
