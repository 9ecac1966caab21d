"""Stores on the Hugging Face hub, named ``hub:OWNER/NAME``: pushed as Parquet files with a card, fetched into the hub's cache."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grand3d.errors import GrandError, import_extra, shown
from grand3d.files import write_text
from grand3d.store import MANIFEST, read_manifest, verify, write_parquet

PREFIX = "hub:"
_NAME = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


def is_hub(name: str | Path) -> bool:
    return str(name).startswith(PREFIX)


def push(store: str | Path, name: str, public: bool = False) -> list[str]:
    """Upload a store to the hub as Parquet files; the data set is made, private, where it is not there yet.

    Args:
        name: ``hub:OWNER/NAME``, or with ``@BRANCH`` behind it.

    Returns:
        The names of the files.

    Raises:
        GrandError: For another name, without the rights (``hf auth login``), or if the hub cannot be reached.
    """
    repo, revision = _parts(name)
    hub = import_extra("huggingface_hub", "train")
    with tempfile.TemporaryDirectory() as folder:
        names = write_parquet(store, Path(folder) / "parquet")
        write_text(Path(folder) / "parquet" / "README.md", card(repo, read_manifest(store), names))
        with _reaching(name, hub):
            api = hub.HfApi()
            api.create_repo(repo, repo_type="dataset", private=not public, exist_ok=True)
            if revision is not None:
                api.create_branch(repo, branch=revision, repo_type="dataset", exist_ok=True)
            api.upload_folder(
                repo_id=repo,
                folder_path=str(Path(folder) / "parquet"),
                repo_type="dataset",
                revision=revision,
                # of an earlier upload in more parts, none may stay
                delete_patterns=["scenes-*.parquet", "samples-*.parquet", "truth-*.parquet"],
                commit_message=f"{read_manifest(store)['counts']['samples']} samples",
            )
    return [*names, MANIFEST, "README.md"]


def fetch(name: str) -> Path:
    """Fetch what ``push`` uploaded; the hub's cache keeps it, so that a second time nothing is loaded.

    Returns:
        A folder for ``store.folder_source``.

    Raises:
        GrandError: For another name, where the hub cannot be reached, or if a file is not what the manifest says.
    """
    repo, revision = _parts(name)
    hub = import_extra("huggingface_hub", "train")
    with _reaching(name, hub):
        found = hub.snapshot_download(repo, repo_type="dataset", revision=revision, allow_patterns=["*.parquet", MANIFEST])
    if wrong := verify(found):
        raise GrandError(
            f"{name}: {', '.join(wrong)} is not what {MANIFEST} says, expected it as it was uploaded; upload it again"
        )
    return Path(found)


def card(repo: str, manifest: dict[str, Any], names: list[str]) -> str:
    """The README of a data set, whose head tells ``datasets.load_dataset(NAME, "samples")`` which files are which."""
    kinds = [kind for kind in ("samples", "scenes", "truth") if any(name.startswith(f"{kind}-") for name in names)]
    head = "".join(f"- config_name: {kind}\n  data_files: {kind}-*.parquet\n" for kind in kinds)
    about = "".join(f"- {key}: {manifest[key]}\n" for key in ("source", "licence", "version", "made_by") if manifest.get(key))
    counts = "".join(f"| {key} | {value} |\n" for key, value in manifest["counts"].items())
    return (
        f"---\nconfigs:\n{head}---\n\n# {repo.split('/')[-1]}\n\nQuestions about 3D scenes with their answers, in the form of "
        f"grand3d's stores: one row a sample, one row a scene.\n\n{about}\n| | number |\n|---|---|\n{counts}\n"
        f"`grand3d store OUT {PREFIX}{repo}` makes a store of it again.\n"
    )


def _parts(name: str) -> tuple[str, str | None]:
    bare = name.removeprefix(PREFIX)
    if not is_hub(name) or not _NAME.fullmatch(bare):
        raise GrandError(
            f"{shown(name)} names no data set of the hub, expected {PREFIX}OWNER/NAME or {PREFIX}OWNER/NAME@REVISION"
        )
    repo, _, revision = bare.partition("@")
    return repo, revision or None


@contextmanager
def _reaching(name: str, hub: Any) -> Iterator[None]:
    """One message for whatever goes wrong on the way to the hub."""
    try:
        yield
    except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError) as error:
        what = str(error).strip().split("\n")[0] or type(error).__name__
        hint = "is the name right, the network there, and `hf auth login` done?"
        raise GrandError(f"{name}: {what}, expected a data set of the hub that can be used; {hint}") from None
