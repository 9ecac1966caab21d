"""Who may import whom: the order of the modules, read from their imports; and what a bare import loads."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grand3d.bench import BENCHMARKS
from grand3d.convert import CONVERTERS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "grand3d"

LAYERS = (
    "errors",
    "jsons marks",
    "files",
    "items folders",
    "boxes markup yamls metrics textmetrics detection charts runs",
    "oriented sorting",
    "schema",
    "scene config",
    "relations sample duplicates language frames regions",
    "programs grandtext places mixture",
    "placement",
    "serial",
    "prompts",
    "convert synth bench grammar decoding store",
    "audit hub",
    "figures replies calibration server expressions",
    "tokens layout lora journal weights embeddings launched",
    "kernels",
    "attention",
    "checkpoint pack adapter stream processes",
    "model",
    "preflight generate exactness",
    "train",
    "evaluate report chat checks pictures",
    "plan page exports",
    "repl annotate",
    "scoring",
    "commands review_options",
    "arguments",
    "cli",
    "__main__",
)
"""A module imports from the lines above it, never from its own line; a package is one name and free inside."""

LEVEL = {name: level for level, line in enumerate(LAYERS) for name in line.split()}
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {"torch", "transformers", "peft", "accelerate", "datasets", "deepspeed", "safetensors"}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__") or "__init__"


def imports(path: Path) -> set[str]:
    """Full names of all modules that a file imports, also inside functions and by ``import_extra("name", ...)``."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "grand3d" else {node.module or ""}
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", "") == "import_extra"
            and isinstance(node.args[0], ast.Constant)
        ):
            found.add(node.args[0].value)
    return found


def own_imports(path: Path) -> set[str]:
    """Names below ``grand3d`` that a file imports."""
    names = {name.removeprefix("grand3d.") for name in imports(path) if name.startswith("grand3d.")}
    return names - {"__version__"}


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_module_imports_only_from_the_layers_before_it(path: Path) -> None:
    name = module_name(path)
    if name == "__init__":
        assert own_imports(path) == set()
        return
    top = name.split(".")[0]
    assert top in LEVEL, f"{name} stands in no layer; give it a place in LAYERS"
    wrong = [
        other for other in own_imports(path) if other.split(".")[0] != top and LEVEL.get(other.split(".")[0], 99) >= LEVEL[top]
    ]
    assert wrong == []


def test_every_layer_names_modules_that_exist() -> None:
    assert set(LEVEL) == {module_name(path).split(".")[0] for path in MODULES} - {"__init__"}


@pytest.mark.parametrize("table", [CONVERTERS, BENCHMARKS], ids=["convert", "bench"])
def test_plug_ins_never_import_each_other(table: dict[str, str]) -> None:
    modules = {name.removeprefix("grand3d.") for name in table.values()}
    wrong = {
        name: own_imports(PACKAGE / (name.replace(".", "/") + ".py")) & (modules - {name})
        for name in modules
        if own_imports(PACKAGE / (name.replace(".", "/") + ".py")) & (modules - {name})
    }
    assert wrong == {}


@pytest.mark.parametrize(
    "path", [p for p in MODULES if LEVEL.get(module_name(p).split(".")[0], 99) < LEVEL["tokens"]], ids=module_name
)
def test_module_left_of_tokens_needs_no_model_library(path: Path) -> None:
    assert {name.split(".")[0] for name in imports(path)} & HEAVY == set()


def test_only_training_imports_accelerate() -> None:
    users = {module_name(path) for path in MODULES if "accelerate" in {name.split(".")[0] for name in imports(path)}}
    assert users <= {"train", "checkpoint", "processes"}


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_of_the_package_loads_neither_numpy_nor_torch() -> None:
    assert run_python("import grand3d, sys; print(sorted({'numpy', 'torch', 'yaml'} & set(sys.modules)))") == "[]"


def test_every_public_name_is_found_where_it_is_said_to_be() -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra train)")
    code = "import grand3d; print([n for n in grand3d.__all__ if getattr(grand3d, n, None) is None], 'Scene' in dir(grand3d))"
    assert run_python(code) == "[] True"


def test_unknown_public_name_is_an_attribute_error() -> None:
    import grand3d

    with pytest.raises(AttributeError, match="no attribute 'scenes'"):
        _ = grand3d.scenes


def test_help_is_quick_and_loads_no_command() -> None:
    code = (
        "import sys; from grand3d.cli import main; code = main(['--help']); "
        "print(code, sorted({'numpy', 'torch', 'yaml', 'grand3d.commands.data'} & set(sys.modules)))"
    )
    best = {"bare": 99.0, "help": 99.0}
    for _ in range(3):  # the machine may be busy
        for name, what in (("bare", "import argparse, importlib"), ("help", code)):
            start = time.perf_counter()
            out = run_python(what)
            best[name] = min(best[name], time.perf_counter() - start)
    assert out.endswith("0 []") and "train" in out
    assert best["help"] < 10 * best["bare"]


def test_scoring_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from grand3d.evaluate import score; from grand3d.sample import Reply; "
        "from grand3d.synth import make_data; data = make_data(1, 0, 8); "
        "replies = [Reply(s.sample_id, s.scene_id, 'Yes') for s in data.samples]; "
        "print(score('synth', data, replies)['counts']['n'])"
    )
    assert run_python(code) == "8"
