"""Stores: what goes in comes out, sorted by scene, in bounded memory; and what is broken is refused and counted."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra train)")

from grand3d import sorting, store
from grand3d.cli import main
from grand3d.config import from_dict
from grand3d.errors import GrandError
from grand3d.files import Rejects
from grand3d.sample import Data, Sample, load_data, sample_to_dict, save_data
from grand3d.scene import Object, Scene
from grand3d.sorting import BATCH, Rows, Sorter
from grand3d.stream import open_stream
from grand3d.synth import make_data

VIEW = ((0.1, 0, 0), (1, 1 / 3, 2))


@pytest.fixture
def rooms(tmp_path: Path) -> tuple[Path, Data]:
    made = make_data(6, 3, 20)
    samples = list(made.samples)
    Random(0).shuffle(samples)
    data = Data(made.scenes, tuple(samples))
    save_data(tmp_path / "rooms", data)
    return tmp_path / "rooms", data


def stored(folder: Path, out: Path, **more: Any) -> Data:
    store.build(out, [store.folder_source(folder)], **more)
    return store.open_store(out)


def test_what_goes_in_comes_out_sorted_by_scene(rooms: tuple[Path, Data], tmp_path: Path) -> None:
    folder, data = rooms
    found = stored(folder, tmp_path / "store")
    wanted = sorted(load_data(folder).samples, key=lambda sample: sample.scene_id)
    assert list(found.samples) == wanted == [found.samples[k] for k in range(len(wanted))]
    assert found.samples[-1] == wanted[-1] and found.samples[2:5] == tuple(wanted[2:5])
    assert dict(found.scenes) == load_data(folder).scenes and list(found.scenes) == sorted(data.scenes)
    for name in found.scenes:
        assert {found.samples[k].scene_id for k in found.scenes.samples_of(name)} == {name}
    assert sum(len(found.scenes.samples_of(name)) for name in found.scenes) == len(wanted)
    with pytest.raises(IndexError):
        found.samples[len(wanted)]
    assert "nothing" not in found.scenes


def test_every_field_of_a_sample_survives(tmp_path: Path) -> None:
    scene = Scene("s", (Object("a", "ü chair", (0, 0, 0), (1, 1, 1)), Object("b", "bed", (3, 0, 0), (1, 1, 1))))
    samples = (
        Sample("1", "s", "object_reference", "x", target_ids=()),
        Sample(
            "2",
            "s",
            "question",
            "<p>it</p>[<a>]",
            "é",
            ("a", "b"),
            ((0.1, 0, 0), (1, 1 / 3, 2)),
            {"k": [1, {"z": None}], "ü": "\u0007"},
        ),
        Sample("3", "s", "existence", "", "Yes", meta={"big": 2**60}),
    )
    save_data(tmp_path / "d", Data({"s": scene}, samples))
    assert tuple(stored(tmp_path / "d", tmp_path / "o").samples) == load_data(tmp_path / "d").samples


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 99)), max_size=120), st.integers(1, 7), st.integers(2, 9))
def test_sorter_is_a_stable_sort_of_any_size(tmp_path_factory: Any, rows: list, batch: int, bucket: int) -> None:
    folder = tmp_path_factory.mktemp("sort")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "BATCH", batch)
        patch.setattr(sorting, "BUCKET", bucket)
        sorter = Sorter(folder, "x", {"key": "text", "value": "int"})
        for key, value in rows:
            sorter.add(key, (key, value))
        assert len(sorter) == len(rows)
        counts = sorter.finish(folder / "sorted")
        found = Rows(folder / "sorted")
        wanted = sorted(rows, key=lambda row: row[0])
        assert list(found.rows()) == wanted == [tuple(found.row(k)) for k in range(len(rows))]
        assert counts == {key: sum(k == key for k, _ in rows) for key in sorted({k for k, _ in rows})}
        for start in range(0, len(rows), 5):
            assert list(found.rows(start, start + 3)) == wanted[start : min(start + 3, len(rows))]
    assert [path.name for path in folder.iterdir()] == ["sorted"]


def test_broken_rows_are_refused_or_counted(rooms: tuple[Path, Data], tmp_path: Path) -> None:
    folder, data = rooms
    first = data.samples[0]
    rows = [
        sample_to_dict(first),  # once more
        sample_to_dict(first) | {"sample_id": "strange", "scene_id": "nowhere"},
        sample_to_dict(first) | {"sample_id": "lost", "target_ids": ["no such"]},
    ]
    with open(folder / "samples.jsonl", "a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
        file.write('{"sample_id": 3}\n{"sample_id"')
    with pytest.raises(GrandError, match="occurs twice, expected each id once"):
        stored(folder, tmp_path / "o")
    assert not (tmp_path / "o").exists() and sorted(path.name for path in tmp_path.iterdir()) == ["rooms"]
    rejects = Rejects(skip_bad=True)
    found = stored(folder, tmp_path / "o", rejects=rejects)
    assert len(found.samples) == len(data.samples) and len(rejects.rows) == 5
    assert rejects.counts().keys() >= {"id twice", "unknown scene", "unknown target"}
    assert store.read_manifest(tmp_path / "o")["counts"]["rejected"] == 5


def test_several_folders_make_one_store(tmp_path: Path) -> None:
    one, two = make_data(2, 1, 8), make_data(2, 2, 8)
    for name, data in (("one", one), ("two", two), ("again", one)):
        save_data(tmp_path / name, data)
    store.build(tmp_path / "o", [store.folder_source(tmp_path / name) for name in ("one", "two")], {"licence": "CC0"})
    found = store.open_store(tmp_path / "o")
    assert set(found.scenes) == {*one.scenes, *two.scenes} and len(found.samples) == len(one.samples) + len(two.samples)
    manifest = store.read_manifest(tmp_path / "o")
    assert manifest["licence"] == "CC0" and manifest["counts"]["scenes"] == 4
    rejects = Rejects(skip_bad=True)
    store.build(tmp_path / "p", [store.folder_source(tmp_path / name) for name in ("one", "again")], rejects=rejects)
    assert rejects.counts() == {"id twice": len(one.samples)}
    other = Data({name: Scene(name, scene.objects[:1]) for name, scene in one.scenes.items()}, ())
    save_data(tmp_path / "other", other)
    with pytest.raises(GrandError, match="occurs twice and differs"):
        store.build(tmp_path / "q", [store.folder_source(tmp_path / name) for name in ("one", "other")])
    with pytest.raises(GrandError, match="is there already"):
        store.build(tmp_path / "o", [store.folder_source(tmp_path / "one")])


def test_true_objects_are_kept_apart(tmp_path: Path) -> None:
    scene = Scene("s", (Object("p0", "bed", (0, 0, 0), (1, 1, 1), score=0.5),))
    truth = Scene("s", (Object("7", "bed", (0, 0, 0), (1, 1, 1)),))
    data = Data({"s": scene}, (Sample("a", "s", "object_reference", "bed", target_ids=("7",)),), {"s": truth})
    save_data(tmp_path / "d", data)
    found = stored(tmp_path / "d", tmp_path / "o")
    assert found.truth is not None and found.truth["s"] == truth and found.scenes["s"] == scene
    with pytest.raises(GrandError, match="all or none"):
        save_data(tmp_path / "e", make_data(1, 1, 4))
        store.build(tmp_path / "x", [store.folder_source(tmp_path / name) for name in "de"])


def test_parquet_comes_back_the_same_and_loads_as_a_data_set(rooms: tuple[Path, Data], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    folder, _ = rooms
    before = stored(folder, tmp_path / "a")
    names = store.write_parquet(tmp_path / "a", tmp_path / "parquet", rows_a_file=50)
    assert sum(name.startswith("samples") for name in names) == 3
    after = stored(tmp_path / "parquet", tmp_path / "b")
    assert list(after.samples) == list(before.samples) and dict(after.scenes) == dict(before.scenes)
    found = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "parquet" / "samples-*.parquet"), split="train", cache_dir=str(tmp_path / "c")
    )
    assert found["sample_id"][:] == [sample.sample_id for sample in before.samples]
    arrow = datasets.Dataset.from_file(str(tmp_path / "a" / "samples.arrow"))
    assert arrow["text"][:] == [sample.text for sample in before.samples]


def test_damage_is_found(rooms: tuple[Path, Data], tmp_path: Path) -> None:
    folder, _ = rooms
    stored(folder, tmp_path / "o")
    assert store.verify(tmp_path / "o") == {}
    path = tmp_path / "o" / "samples.arrow"
    raw = path.read_bytes()
    path.write_bytes(raw[:-200] + b"x" + raw[-199:])
    assert set(store.verify(tmp_path / "o")) == {"samples.arrow"}
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(GrandError, match="cut off"):
        store.open_store(tmp_path / "o")
    (tmp_path / "o" / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(GrandError, match="expected 1"):
        store.open_store(tmp_path / "o")
    assert main(["check", str(tmp_path / "o")]) == 2


def test_a_store_is_taken_wherever_a_folder_is(
    rooms: tuple[Path, Data], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, data = rooms
    assert main(["store", str(tmp_path / "o"), str(folder), "--licence", "CC BY 4.0"]) == 0
    assert main(["check", str(tmp_path / "o")]) == 0
    assert "6 scenes, " in capsys.readouterr().out
    assert main(["export", "messages", str(tmp_path / "o"), str(tmp_path / "m.jsonl")]) == 0
    assert len((tmp_path / "m.jsonl").read_text().splitlines()) == len(data.samples)
    assert main(["export", "parquet", str(tmp_path / "o"), str(tmp_path / "p")]) == 0
    assert list((tmp_path / "p").glob("samples-*.parquet"))
    replies = "".join(json.dumps({"sample_id": s.sample_id, "scene_id": s.scene_id, "text": "Yes"}) + "\n" for s in data.samples)
    (tmp_path / "r.jsonl").write_text(replies)
    capsys.readouterr()
    figures = []
    for where in (folder, tmp_path / "o"):
        assert main(["score", "synth", str(where), str(tmp_path / "r.jsonl"), "--json"]) == 0
        figures.append({row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]})
    assert figures[0] == figures[1]


def test_a_stream_over_a_store_is_that_over_its_folder_but_for_the_order(rooms: tuple[Path, Data], tmp_path: Path) -> None:
    folder, data = rooms
    stored(folder, tmp_path / "o")
    seen = []
    for where in (folder, tmp_path / "o"):
        raw = {"data": {"train": [{"path": str(where)}], "questions_per_scene": 4}, "train": {"global_batch": 4}}
        stream = open_stream(from_dict(raw))
        groups = [stream.group(k) for k in range(stream.num_groups)]
        assert all(sample.scene_id == scene.scene_id for scene, samples in groups for sample in samples)
        seen.append(sorted(sample.sample_id for _, samples in groups for sample in samples))
    assert seen[0] == seen[1] == sorted(sample.sample_id for sample in data.samples)


def test_rows_are_mapped_not_read(tmp_path: Path) -> None:
    sorter = Sorter(tmp_path, "x", {"key": "text", "value": "int"})
    for k in range(3 * BATCH + 5):
        sorter.add(f"{k:06d}", (f"{k:06d}", k))
    sorter.finish(tmp_path / "x.arrow")
    rows = Rows(tmp_path / "x.arrow")
    assert rows.row(2 * BATCH + 7) == [f"{2 * BATCH + 7:06d}", 2 * BATCH + 7] and len(rows) == 3 * BATCH + 5
    import pyarrow

    before = pyarrow.total_allocated_bytes()
    again = Rows(tmp_path / "x.arrow")
    assert pyarrow.total_allocated_bytes() - before < 10_000 < again.table.nbytes
