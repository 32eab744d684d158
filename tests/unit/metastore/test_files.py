"""Files replaced whole: what a reader sees meanwhile, and what a crash leaves."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from metastore.files import write_whole


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    path = tmp_path / "hub.pid"
    texts = {"1" * 40000, "2" * 70000}
    write_whole(path, "1" * 40000)
    seen: set[str] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(50):
        for text in texts:
            write_whole(path, text)
    done.set()
    reader.join()
    assert seen <= texts


def test_what_a_crash_left_beside_it_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.with_name("token.new").write_text("half")
    write_whole(path, b"secret", mode=0o600)
    assert path.read_bytes() == b"secret"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "installation"
    write_whole(path, "a")
    path.with_name("installation.new").mkdir()
    with pytest.raises(OSError):
        write_whole(path, "b")
    assert path.read_text() == "a"
