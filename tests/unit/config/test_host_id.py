from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

from segue.config.home import Home, this_host
from segue.core.model import Host


def test_a_host_keeps_its_id_under_another_name(tmp_path: Path) -> None:
    home = Home(tmp_path / "a")
    first, renamed = this_host(None, home), this_host("renamed", home)
    assert (first.name, renamed.name) == (socket.gethostname(), "renamed")
    assert first.id == renamed.id
    assert first.id is not None
    assert len(first.id) == 32
    assert this_host(None, Home(tmp_path / "b")).id not in (None, first.id)


def test_the_id_is_for_this_user_alone_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    this_host(None, home)
    assert os.listdir(home.root) == ["host"]
    assert home.host.stat().st_mode & 0o777 == 0o600
    assert home.root.stat().st_mode & 0o777 == 0o700


def test_all_who_come_at_once_get_the_same_id(tmp_path: Path) -> None:
    home, found, door = Home(tmp_path / "home"), set[str | None](), threading.Barrier(8)

    def ask() -> None:
        door.wait(30)
        found.add(this_host(None, home).id)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 1
    assert None not in found


def test_where_nothing_can_be_kept_the_name_has_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert this_host("here", Home(tmp_path / "file" / "home")) == Host("here", None)
