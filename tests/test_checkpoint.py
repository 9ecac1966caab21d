"""Checkpoints and the folder of a run: whole or refused, one training at a time, nothing of others written over."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra train)")
for _name in ("transformers", "peft", "accelerate"):
    pytest.importorskip(_name)

from safetensors import SafetensorError  # noqa: E402

from grand3d import checkpoint as checkpoints  # noqa: E402
from grand3d.config import dump_yaml, to_dict  # noqa: E402
from grand3d.errors import GrandError  # noqa: E402
from grand3d.files import PART, write_text  # noqa: E402
from grand3d.folders import made_beside  # noqa: E402
from grand3d.sample import save_data  # noqa: E402
from grand3d.schema import Config  # noqa: E402


class FakeAccelerator(SimpleNamespace):
    """What ``save_checkpoint`` needs of one process of two."""

    def wait_for_everyone(self):
        pass

    def save_state(self, folder, **_):
        for name in (f"shard_{self.rank}.bin", "random_states_0.pkl", "random_states_1.pkl"):
            (Path(folder) / name).write_text("0123456789")
        if self.fault is not None:
            raise self.fault


def fake(rank: int = 0, fault: BaseException | None = None) -> FakeAccelerator:
    return FakeAccelerator(rank=rank, fault=fault, is_main_process=rank == 0, distributed_type=SimpleNamespace(value="NO"))


def save(run: Path, *steps: int, keep: int = 9) -> Path:
    """Checkpoints of these steps; gives the folder of the last one."""
    return [checkpoints.save_checkpoint(fake(), run, step, STATE, keep) for step in steps][-1]


STATE = {"config": {}, "data": "x", "num_processes": 2}


def test_save_checkpoint_only_the_main_process_renames_and_removes(tmp_path):
    for step in (1, 2):
        (tmp_path / "checkpoints" / f".step_{step}{PART}").mkdir(parents=True)
        checkpoints.save_checkpoint(fake(rank=1), tmp_path, step, STATE, keep=1)
        assert checkpoints.list_checkpoints(tmp_path) == ([] if step == 1 else [tmp_path / "checkpoints" / "step_1"])
        checkpoints.save_checkpoint(fake(), tmp_path, step, STATE, keep=1)
        assert [path.name for path in checkpoints.list_checkpoints(tmp_path)] == [f"step_{step}"]
    assert checkpoints.read_state(tmp_path / "checkpoints" / "step_2", STATE) == 2


FULL = [
    OSError(errno.ENOSPC, "No space left on device"),
    RuntimeError("[enforce fail at inline_container.cc:659] . PytorchStreamWriter failed writing file data/3: no space\nat 0x1"),
    SafetensorError("I/O error: No space left on device (os error 28)"),
]


@pytest.mark.parametrize("fault", FULL, ids=lambda fault: type(fault).__name__)
def test_save_checkpoint_full_disk_leaves_the_previous_one_and_no_part(tmp_path, fault):
    with pytest.raises(
        GrandError, match=r"step_9: cannot be written \(.*no space.*\); .* GB are free .*no older checkpoint"
    ) as caught:
        checkpoints.save_checkpoint(fake(fault=OSError("no space")), tmp_path, 9, STATE, keep=1)
    assert "\n" not in str(caught.value)
    save(tmp_path, 9)
    with pytest.raises(
        GrandError, match=r"step_10: cannot be written \(.*[Nn]o space.*\); .*--resume latest goes on from step_9"
    ):
        checkpoints.save_checkpoint(fake(fault=fault), tmp_path, 10, STATE, keep=1)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_9"]
    assert not checkpoints.find_damage(tmp_path / "checkpoints" / "step_9")
    checkpoints.save_checkpoint(fake(), tmp_path, 10, STATE, keep=1)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_10"]


def test_save_checkpoint_full_disk_at_its_last_file_is_the_same(tmp_path, monkeypatch):
    save(tmp_path, 9)

    def full(path, value):
        raise GrandError(f"{path}: cannot be written (No space left on device)")

    monkeypatch.setattr(checkpoints, "write_json", full)
    with pytest.raises(GrandError, match=r"state.json: cannot be written \(No space.*goes on from step_9"):
        save(tmp_path, 10)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_9"]


def test_save_checkpoint_interrupted_by_hand_leaves_no_part(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save_checkpoint(fake(fault=KeyboardInterrupt()), tmp_path, 10, STATE, keep=1)
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_save_checkpoint_killed_while_it_removes_an_older_one_leaves_no_half_checkpoint(tmp_path, monkeypatch):
    save(tmp_path, 1)
    remove = shutil.rmtree

    def killed(path, **options):
        if Path(path).is_dir():
            (Path(path) / "random_states_0.pkl").unlink()
            raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 2, keep=1)
    monkeypatch.setattr(shutil, "rmtree", remove)
    assert [path.name for path in checkpoints.list_checkpoints(tmp_path)] == ["step_2"]
    assert checkpoints.remove_leftovers(tmp_path) == [f".step_1{PART}"]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_2"]


def test_read_state_other_number_of_processes_raises(tmp_path):
    checkpoints.save_checkpoint(fake(), tmp_path, 1, STATE, keep=1)
    with pytest.raises(GrandError, match="there are 4 processes, there were 2"):
        checkpoints.read_state(tmp_path / "checkpoints" / "step_1", STATE | {"num_processes": 4})


def test_read_state_other_wording_of_prompts_raises(tmp_path):
    checkpoints.save_checkpoint(fake(), tmp_path, 1, STATE | {"wording": "aa"}, keep=1)
    folder = tmp_path / "checkpoints" / "step_1"
    assert checkpoints.read_state(folder, STATE | {"wording": "aa"}) == 1
    with pytest.raises(GrandError, match=r"wording of prompts changed \(hash bb, was aa\)"):
        checkpoints.read_state(folder, STATE | {"wording": "bb"})


def test_read_state_setting_that_came_after_the_checkpoint_had_its_default(tmp_path):
    old = to_dict(Config())
    del old["train"]["schedule"]
    checkpoints.save_checkpoint(fake(), tmp_path, 1, STATE | {"config": old}, keep=1)
    folder, now = tmp_path / "checkpoints" / "step_1", to_dict(Config())
    assert checkpoints.read_state(folder, STATE | {"config": now}) == 1
    now["train"]["schedule"] = "linear"
    with pytest.raises(GrandError, match=r"train.schedule is 'linear', was"):
        checkpoints.read_state(folder, STATE | {"config": now})


# --- damage


BROKEN_STATES = [
    b"{}",
    b"[]",
    b"null",
    b"",
    b'{"step": 3, "conf',
    b"\xff\xfe\x00",
    b'{"step": "3", "config": {}, "data": "x", "num_processes": 2, "files": {}}',
    b'{"step": 3, "config": [], "data": "x", "num_processes": 2, "files": {}}',
    b'{"step": 3, "config": {}, "data": "x", "num_processes": 2, "files": []}',
    b'{"step": 3, "config": {}, "data": "x", "num_processes": 2, "files": {"a": 1}}',
    b'{"step": 3, "config": {}, "data": "x", "num_processes": 2, "files": {"a": {"size": "1", "sha256": ""}}}',
]


@pytest.mark.parametrize("raw", BROKEN_STATES)
def test_read_state_damaged_state_names_the_file_and_the_next_older_whole_one(tmp_path, raw):
    folder = save(tmp_path, 1, 2, 3)
    (folder / "state.json").write_bytes(raw)
    (tmp_path / "checkpoints" / "step_2" / "shard_0.bin").unlink()
    with pytest.raises(GrandError) as caught:
        checkpoints.read_state(folder, STATE)
    message = str(caught.value)
    assert str(folder / "state.json") in message
    assert "step_3 is damaged" in message
    assert message.endswith(f"the next older whole one: --resume {tmp_path / 'checkpoints' / 'step_1'}")
    assert "\n" not in message


def test_find_checkpoint_damaged_one_of_this_run_is_found_by_path(tmp_path):
    folder = save(tmp_path, 1, 2)
    (folder / "state.json").unlink()
    for resume in ("latest", str(folder)):
        assert checkpoints.find_checkpoint(tmp_path, resume) == folder
    with pytest.raises(GrandError, match=r"state.json: no such file. The checkpoint step_2 is damaged .*--resume .*step_1"):
        checkpoints.read_state(folder, STATE)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:4])


def change(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"5", b"6"))


@pytest.mark.parametrize(
    ("harm", "said"),
    [(Path.unlink, "no such file"), (cut, "4 bytes, 10 were written"), (change, "the bytes are not those that were written")],
)
@pytest.mark.parametrize("name", ["shard_0.bin", "random_states_1.pkl"])
def test_refuse_damaged_any_file_that_is_not_as_it_was_written(tmp_path, harm, said, name):
    folder = save(tmp_path, 1, 2)
    checkpoints.refuse_damaged(folder)
    harm(folder / name)
    with pytest.raises(GrandError, match=rf"step_2/{name}: {said}. The checkpoint step_2 is damaged .*: --resume .*/step_1$"):
        checkpoints.refuse_damaged(folder)
    shutil.rmtree(tmp_path / "checkpoints" / "step_1")
    with pytest.raises(GrandError, match="there is no older whole checkpoint, so start a new run in another folder"):
        checkpoints.refuse_damaged(folder)


def test_refuse_damaged_checkpoint_copied_elsewhere_has_no_older_one(tmp_path):
    folder = save(tmp_path, 1, 2)
    copy = shutil.copytree(folder, tmp_path / "copy")
    checkpoints.refuse_damaged(copy)
    (copy / "shard_0.bin").unlink()
    with pytest.raises(GrandError, match=r"copy/shard_0.bin: no such file. The checkpoint copy is damaged .*no older whole"):
        checkpoints.refuse_damaged(copy)


def test_find_damage_state_without_marks_of_the_files_is_damaged(tmp_path):
    folder = save(tmp_path, 1)
    state = json.loads((folder / "state.json").read_text())
    del state["files"]
    (folder / "state.json").write_text(json.dumps(state))
    assert checkpoints.find_damage(folder).startswith(str(folder / "state.json"))


def test_load_checkpoint_fault_of_whole_files_is_not_called_damage(tmp_path):
    folder = save(tmp_path, 1)
    fault = KeyError("param_groups")

    def load_state(*_, **__):
        raise fault

    accelerator = fake()
    accelerator.load_state = load_state
    with pytest.raises(GrandError, match=r"step_1: cannot be loaded \(KeyError: 'param_groups'\); .*version of torch") as caught:
        checkpoints.load_checkpoint(accelerator, folder)
    assert "damaged" not in str(caught.value) and "new run" not in str(caught.value)
    assert caught.value.__cause__ is fault
    fault = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    with pytest.raises(torch.OutOfMemoryError):
        checkpoints.load_checkpoint(accelerator, folder)


# --- the folder


def test_only_trainer_second_one_is_refused_until_the_first_ends(tmp_path):
    run = tmp_path / "deep" / "run"
    with checkpoints.only_trainer(run, main=True):
        with (
            pytest.raises(GrandError, match=rf"run: another training \(process {os.getpid()} on .*\) is writing to this folder"),
            checkpoints.only_trainer(run, main=True),
        ):
            pass
        with checkpoints.only_trainer(run, main=False):  # another process of the same run
            pass
    with pytest.raises(ZeroDivisionError), checkpoints.only_trainer(run, main=True):
        raise ZeroDivisionError
    with checkpoints.only_trainer(run, main=True):
        pass


def test_only_trainer_where_there_are_no_locks_goes_on_with_a_word(tmp_path, monkeypatch, capsys):
    def none(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(checkpoints.fcntl, "flock", none)
    with checkpoints.only_trainer(tmp_path, main=True), checkpoints.only_trainer(tmp_path, main=False):
        said = capsys.readouterr().err
        assert said.startswith(f"{tmp_path}: the folder cannot be locked (No locks available)") and said.count("\n") == 1
    monkeypatch.setattr(checkpoints, "fcntl", None)
    with checkpoints.only_trainer(tmp_path, main=True), checkpoints.only_trainer(tmp_path, main=False):
        assert capsys.readouterr().err.count("cannot be locked (this system has none)") == 1


def test_only_trainer_folder_that_cannot_be_written_raises(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(GrandError, match="file/run: cannot be written"),
        checkpoints.only_trainer(tmp_path / "file" / "run", True),
    ):
        pass


def test_refuse_foreign_configuration_of_no_run(tmp_path):
    file = tmp_path / "config.yaml"
    checkpoints.refuse_foreign(tmp_path)
    file.write_text(dump_yaml(Config()))
    with pytest.raises(GrandError, match=r"config.yaml: not of a run of this program .*another folder with --out"):
        checkpoints.refuse_foreign(tmp_path)
    (tmp_path / "log.jsonl").write_text("")  # a run that left no checkpoint
    checkpoints.refuse_foreign(tmp_path)
    file.write_text("optimizer: adam\n")  # another program's
    with pytest.raises(GrandError, match="not of a run of this program"):
        checkpoints.refuse_foreign(tmp_path)
    save(tmp_path, 1)  # a run whose config.yaml was damaged goes on
    checkpoints.refuse_foreign(tmp_path)


def test_refuse_foreign_folder_inside_another_thing(tmp_path, toy_data):
    run, data = tmp_path / "run", tmp_path / "data"
    save(run, 1)
    (run / "adapter").mkdir()
    (run / "adapter" / "grand3d.json").write_text("{}")
    save_data(data, toy_data)
    for out, word in (
        (run / "adapter", "is an adapter"),
        (run / "adapter" / "a" / "b", "lies in .*/run/adapter, which is an adapter"),
        (run / "checkpoints", "is part of the checkpoints"),
        (run / "checkpoints" / "mine", "lies in .*/run/checkpoints, which"),
        (run / "checkpoints" / "step_1" / "mine", "lies in .*/step_1, which"),
        (data, "is a data folder"),
        (data / "run", "lies in .*/data, which is a data folder"),
    ):
        with pytest.raises(GrandError, match=f"{word}.*expected a folder of its own for a run; give another one with --out"):
            checkpoints.refuse_foreign(out)
    for out in (run, tmp_path / "new", run / "more"):
        checkpoints.refuse_foreign(out)


def test_remove_leftovers_takes_half_written_files_only(tmp_path, monkeypatch):
    def kill(*_):
        raise KeyboardInterrupt

    save(tmp_path, 1)
    (tmp_path / "checkpoints" / f".step_mine{PART}").mkdir()
    (tmp_path / "checkpoints" / ".step_3.part").mkdir()
    for name in (
        ".log.jsonl.swp",
        ".adapter.bak",
        ".adapter.original",
        ".config.yaml.original",
        f".notes.jsonl.ab12cd_9{PART}",
        f".mine.rejected.jsonl.ab12cd_9{PART}",
    ):
        (tmp_path / name).write_text("a user's")
    kept = sorted(tmp_path.rglob("*"))
    with monkeypatch.context() as killed:  # at the renaming, so that nothing is cleaned up
        killed.setattr(os, "replace", kill)
        killed.setattr(Path, "unlink", lambda *_, **__: None)
        killed.setattr(shutil, "rmtree", lambda *_, **__: None)
        for name in ("log.jsonl", "config.yaml", "data.rejected.jsonl", "data.12.rejected.jsonl", "heldout.rejected.jsonl"):
            with pytest.raises(KeyboardInterrupt):
                write_text(tmp_path / name, "half")
        with pytest.raises(KeyboardInterrupt), made_beside(tmp_path / "adapter") as beside:
            (beside / "a").write_text("half")
            kill()
    (tmp_path / "checkpoints" / f".step_2{PART}").mkdir()
    assert len(checkpoints.remove_leftovers(tmp_path)) == 7
    assert sorted(tmp_path.rglob("*")) == kept
