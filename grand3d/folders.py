"""Folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grand3d.errors import writing
from grand3d.files import half_named


@contextmanager
def made_beside(folder: Path, hint: str = "") -> Iterator[Path]:
    """A new folder, to be filled, that gets its name at the end. After a failure nothing is left of it.

    Raises:
        GrandError: If it cannot be written, as on a full disk; it ends with ``hint``.
    """
    beside = None
    try:
        with writing(folder, hint):
            with contextlib.suppress(FileNotFoundError):
                folder.lstat()  # a name that is too long is found before the work, not after it
            folder.parent.mkdir(parents=True, exist_ok=True)
            beside = Path(tempfile.mkdtemp(dir=folder.parent, **half_named(folder.name)))
            yield beside
            mask = os.umask(0o077)  # it can only be read by setting it
            os.umask(mask)
            beside.chmod(0o777 & ~mask)
            for file in beside.rglob("*"):  # safetensors writes files that only their owner may read
                if file.is_file() and not file.is_symlink():
                    file.chmod(0o666 & ~mask)
            beside.rename(folder)
    finally:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)
