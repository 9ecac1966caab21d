"""What a newcomer meets first: the wheel, the extras, the make targets, the configurations and the links of the README."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from grand3d.config import load_config
from grand3d.scene import load_scenes

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
CODE = sorted((ROOT / "grand3d").rglob("*.py"))
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MAKE_TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def requirement_names(requirements: list[str]) -> set[str]:
    return {re.match(r"[A-Za-z0-9._-]+", line).group().lower() for line in requirements}  # type: ignore[union-attr]


def test_core_needs_only_numpy_and_yaml() -> None:
    assert requirement_names(PROJECT["dependencies"]) == {"numpy", "pyyaml"}


def test_every_promised_extra_is_offered() -> None:
    promised = {"train", "deepspeed", "flash", "qlora", "liger", "smol", "view", "report", "bench", "annotate"}
    promised |= {"vllm", "ray", "dev", "all"}
    assert set(EXTRAS) == promised
    assert all(EXTRAS.values())


def test_extra_all_leaves_out_only_vllm_and_what_needs_a_gpu() -> None:
    (line,) = EXTRAS["all"]
    named = set(re.search(r"\[(.*)\]", line).group(1).split(","))  # type: ignore[union-attr]
    assert named == set(EXTRAS) - {"all", "flash", "vllm", "qlora", "liger"}


def test_smol_does_not_pull_the_compiled_runtime() -> None:
    assert requirement_names(EXTRAS["smol"]) == {"gguf"}


def test_every_extra_named_in_code_or_docs_exists() -> None:
    unknown = []
    for path in [*CODE, *DOCS]:
        for group in re.findall(r"grand3d\[([a-z0-9, ]+)\]", path.read_text(encoding="utf-8")):
            unknown += [f"{path.name}: {name}" for name in re.split(r", ?", group) if name not in EXTRAS]
    assert unknown == []


def test_every_import_extra_call_names_a_package_of_that_extra() -> None:
    """The pip line in the error message must bring the module that is missing."""
    brings = {
        "google.protobuf": "protobuf",
        "yaml": "pyyaml",
        "flash_attn": "flash-attn",
    }
    wrong = []
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_extra"):
                continue
            if not all(isinstance(argument, ast.Constant) for argument in node.args):
                continue
            module, extra = (argument.value for argument in node.args)  # type: ignore[attr-defined]
            package = brings.get(module, module.split(".")[0].replace("_", "-"))
            if package not in requirement_names(EXTRAS.get(extra, [])):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {module} by {extra}")
    assert wrong == []


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_shipped_config_loads(path: Path) -> None:
    load_config(path)


def test_every_promised_config_is_shipped() -> None:
    promised = {"llama2_7b_objref.yaml", "llama2_7b_existence.yaml", "smollm2.yaml", "tiny.yaml", "quickstart.yaml"}
    assert promised <= {path.name for path in (ROOT / "configs").glob("*.yaml")}


@pytest.mark.parametrize("path", sorted((ROOT / "launch").glob("*.yaml")), ids=lambda path: path.name)
def test_launch_file_names_its_kind(path: Path) -> None:
    assert "distributed_type" in yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_docs_name_make_targets_files_and_links_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    missing = [f"make {name}" for name in re.findall(r"`make ([a-z][\w-]*)", text) if name not in MAKE_TARGETS]
    missing += [
        name
        for name in re.findall(r"\b(?:configs|launch|recipes|tools|docs)/[\w./-]*\w\.(?:yaml|sh|py|md)\b", text)
        if not (ROOT / name).exists()
    ]
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in link and not (path.parent / link).exists():
            missing.append(link)
    assert missing == []


def readme_python() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def test_room_of_ones_own_of_the_readme_is_a_scenes_file(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", readme_python()[0]], cwd=tmp_path, check=True, timeout=60)
    assert [item.category for item in load_scenes(tmp_path / "mine.jsonl")["mine"].objects] == ["desk", "office chair"]


def test_grounded_text_of_the_readme_runs_without_torch(tmp_path: Path) -> None:
    code = readme_python()[1] + "\nimport sys; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "the office chair ('obj_3',)" in done.stdout


@pytest.mark.slow
def test_conversation_of_the_readme_answers_with_the_shipped_adapter(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", readme_python()[2]], cwd=tmp_path, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("Yes")


def test_ci_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text(encoding="utf-8")


@pytest.mark.parametrize("value", ["/nowhere/python3", "false"])
def test_install_without_a_recent_python_says_what_was_tried(tmp_path: Path, value: str) -> None:
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "install.sh", tmp_path / "tools")
    done = subprocess.run(
        ["bash", "tools/install.sh"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": value},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "No Python 3.11 or newer was found" in done.stderr
    assert value in done.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.slow
def test_wheel_works_without_the_repository(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "grand3d", source / "grand3d", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(source)], check=True, timeout=150
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("grand3d/")}
    expected = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "grand3d").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == expected

    site = tmp_path / "site"
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel)], check=True, timeout=150)
    script = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import grand3d; print(grand3d.__file__); "
        "from grand3d.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    out = tmp_path / "rooms"
    done = subprocess.run(
        [sys.executable, "-c", script, str(site), "synth", "rooms", str(out), "--scenes", "1", "--seed", "3"],
        cwd=tmp_path, capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith(str(site))
    assert (out / "scenes.jsonl").exists()
    assert (site / "bin" / "grand3d").exists()
