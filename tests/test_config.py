"""The schema of a run."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import get_args, get_type_hints

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grand3d.config import dump_yaml, flat, from_dict, load_config, override_prompt, to_dict
from grand3d.errors import GrandError
from grand3d.schema import LIMITS, Config, DataConfig, PromptConfig, Source, SynthConfig, TrainConfig
from grand3d.synth import detect, make_room
from grand3d.yamls import parse_yaml


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_load_config_empty_file_gives_the_defaults(tmp_path):
    assert load_config(write(tmp_path, "# nothing\n")) == Config()


def test_load_config_sections_and_lists_are_read(tmp_path):
    text = "data: {train: [{path: a}, {path: b, weight: 0.5}]}\nlora: {modules: [q_proj, v_proj]}\ntrain: {learning_rate: 1e-4}\n"
    config = load_config(write(tmp_path, text))
    assert config.data.train == (Source("a"), Source("b", 0.5))
    assert config.lora.modules == ("q_proj", "v_proj")
    assert config.train.learning_rate == 1e-4


def test_load_config_overrides_win_and_make_sections(tmp_path):
    overrides = ["train.learning_rate=1e-4", "data.synth.num_scenes=5", "model.base=./x=y", "data.heldout=null", "train.seed = 3"]
    config = load_config(write(tmp_path, "train: {learning_rate: 1.0}\ndata: {heldout: h}"), overrides)
    assert config.train.learning_rate == 1e-4
    assert config.data.synth == SynthConfig(num_scenes=5)
    assert config.model.base == "./x=y"
    assert config.data.heldout is None
    assert config.train.seed == 3


def test_load_config_all_faults_in_one_message(tmp_path):
    text = (
        "trian: {}\nmodel: {dtype: bf61, bse: x}\ndata: {train: [{pth: a}], questions_per_scene: many}\ntrain: {num_steps: 1.5}"
    )
    with pytest.raises(GrandError) as caught:
        load_config(write(tmp_path, text), ["nonsense", "train.sed=1"])
    message = str(caught.value)
    for part in (
        "run.yaml",
        "override 'nonsense': expected key=value",
        "unknown key trian; did you mean 'train'?",
        "model.dtype is 'bf61', expected one of fp32, bf16, fp16; did you mean 'bf16'?",
        "unknown key model.bse; did you mean 'base'?",
        "unknown key data.train[0].pth; did you mean 'path'?",
        "data.train[0].path is missing",
        "data.questions_per_scene is 'many', expected a whole number",
        "train.num_steps is 1.5, expected a whole number",
        "unknown key train.sed; did you mean 'seed'?",
    ):
        assert part in message
    assert "9 faults" in message


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a: [", "not YAML"),
        ("- a\n- b", "is a mapping"),
        ("train: 3", "train is 3, expected keys"),
        ("train: {seed: 1, seed: 2}", r"'seed' stands twice \(line 1, column 18\)"),
        ("train: !!python/object/apply:os.system [ls]", "not YAML"),
        ("data: {train: a}", "expected a list"),
        ("model: {gradient_checkpointing: 1}", "expected true or false"),
        ("train: {learning_rate: .nan}", "expected a number"),
        ("train: {seed: true}", "expected a whole number"),
        ("lora: {modules: [1]}", "expected text"),
    ],
)
def test_load_config_malformed_value_raises(tmp_path, text, word):
    with pytest.raises(GrandError, match=word):
        load_config(write(tmp_path, text))


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ({"train": {"global_batch": 12}, "data": {"questions_per_scene": 8}}, "not a multiple"),
        ({"train": {"num_steps": 5, "warmup_steps": 6}}, "warmup_steps is 6"),
        ({"train": {"learning_rate": 0}}, "learning_rate is 0"),
        ({"train": {"weight_decay": -1}}, "weight_decay is -1"),
        ({"model": {"attention": "flash"}}, "bf16 or fp16"),
        ({"lora": {"dropout": 1.0}}, "lora.dropout is 1"),
        ({"lora": {"rank": 0}}, "lora.rank is 0"),
        ({"data": {"train": [{"path": "a"}], "synth": {"num_scenes": 3}}}, "both set"),
        ({"data": {"train": [{"path": "a", "weight": 0}]}}, "weight is 0"),
        ({"lora": {"modules": []}}, "lora.modules is empty"),
        ({"lora": {"modules": ""}}, "lora.modules is empty"),
        ({"lora": {"modules": "(q_proj"}}, r"lora.modules is '\(q_proj', which is no regular expression .*expected all-linear"),
        ({"prompt": {"refer_close": ""}}, "refer_close is '', expected one of </refer_expression>, <refer_expression>"),
        ({"prompt": {"refer_close": "<p>"}}, "refer_close is '<p>', expected one of"),
        ({"data": {"synth": {"num_scenes": 0}}}, "num_scenes is 0"),
        ({"prompt": {"top_k": 0}}, "prompt.top_k is 0"),
    ],
)
def test_from_dict_settings_that_contradict_raise(raw, word):
    with pytest.raises(GrandError, match=word):
        from_dict(raw)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("train: {seed: 2024-13-45}", "train.seed is '2024-13-45', expected a whole number"),
        ("train: {seed: 2024-01-01}", "train.seed is '2024-01-01', expected a whole number"),
        ("train: {seed: !!timestamp x}", r"the type '!!timestamp' is not read here.* \(line 1, column 15\)"),
        ("train: {seed: !!int 010}", "the type '!!int' is not read here; write the value alone"),
        ("train: {seed: !!int 1:30}", "the type '!!int' is not read here"),
        ("model: {gradient_checkpointing: !!bool yes}", "the type '!!bool' is not read here"),
        ("model: {base: !mine x}", "the type '!mine' is not read here"),
        ("model: {base: !<tag:a.b,2026:x> x}", "the type 'tag:a.b,2026:x' is not read here"),
        (f"train: {{seed: {'9' * 5000}}}", "99... cannot be read as int"),
        (f"train: {{seed: 0x{'f' * 5000}}}", "train.seed is a int too long to show, expected 0 up to 4,294,901,760"),
        (f"train: {{learning_rate: 1{'0' * 400}}}", "train.learning_rate is 100.*expected a number"),
        ("train: {learning_rate: 1e999}", "train.learning_rate is '1e999', expected a number"),
        ("train: {learning_rate: -.inf}", "train.learning_rate is -inf, expected a number"),
        (f"? 0x{'f' * 5000}\n: 1", "unknown key a int too long to show"),
        ("[" * 150_000, "nested too deeply"),
        ("{a: " * 3000, "nested too deeply"),
        ("- " * 3000, "nested too deeply"),
        ("a: &a [*a]", r"\*a would repeat another part of the file.*line 1, column 8"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", r"\*a would repeat another part"),
        ("lora: &l {rank: 4}\nmodel:\n  <<: *l", r"\*l would repeat another part"),
        ("lora: {<<: {rank: 4}}", "unknown key lora.<<"),
        ("a: b\x07", r"the character U\+0007 in line 1"),
        ("? [a]\n: b", "a key is no text"),
        ("a: 1\n---\nb: 2", "not YAML: expected a single document"),
        ("a: !!set {b, c}", "the type '!!set' is not read here"),
        ("!!map [a]", "not YAML"),
        ("x" * 200_001, "200,001 characters"),
        ('model: {base: "a\\0b"}', "model.base is 'a.*, expected text without NUL"),
        ('lora: {start: "\\ud800"}', "lora.start is .*expected text without NUL characters and half surrogate pairs"),
        ("model: {base: ' '}", "model.base is ' ', expected a name or a path"),
        ("data: {train: [{path: ''}]}", r"data.train\[0\].path is '', expected a name or a path"),
    ],
)
def test_load_config_hostile_text_is_one_message(tmp_path, text, word):
    with pytest.raises(GrandError, match=f"run.yaml: .*(\n.*)*{word}"):
        load_config(write(tmp_path, text))


@pytest.mark.parametrize("value", ["!!int x", "[" * 5000, "*a", "2 3: 4: 5", "\0", "9" * 5000, "!!foo 1"])
def test_load_config_hostile_override_is_one_message(tmp_path, value):
    with pytest.raises(GrandError, match="1 fault in the configuration:\n  override 'train\\.seed="):
        load_config(write(tmp_path, ""), [f"train.seed={value}"])


@pytest.mark.parametrize(
    ("raw", "word"),
    [("train: {seed: 1}".encode("utf-16"), "UTF-16"), (b"train: {seed: 1} # caf\xe9", "not UTF-8"), (b"a: \0", "NUL|U.0000")],
)
def test_load_config_other_encodings_are_one_message(tmp_path, raw, word):
    (tmp_path / "run.yaml").write_bytes(raw)
    with pytest.raises(GrandError, match=word):
        load_config(tmp_path / "run.yaml")


@pytest.mark.parametrize(("name", "word"), [("x\0y", "NUL"), ("n" * 5000, "too long")])
def test_load_config_name_that_is_no_path_is_one_message(name, word):
    with pytest.raises(GrandError, match=word):
        load_config(name)


def test_load_config_many_faults_are_cut(tmp_path):
    text = "data: {train: [" + "{weight: 0}, " * 500 + "]}"
    with pytest.raises(GrandError, match="1000 faults in the configuration") as caught:
        load_config(write(tmp_path, text))
    assert str(caught.value).endswith("and 980 more")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("9007199254740993", 9007199254740993),
        ("'9007199254740993'", 9007199254740993),
        ("2e3", 2000),
        ("2.0e+3", 2000),
        ("0x1F", 31),
        (str(2**63 - 1), 2**63 - 1),
    ],
)
def test_load_config_whole_numbers_stay_exact(tmp_path, text, number):
    for config in (
        load_config(write(tmp_path, f"data: {{synth: {{seed: {text}}}}}")),
        load_config(write(tmp_path, ""), [f"data.synth.seed={text}"]),
    ):
        assert config.data.synth.seed == number
        assert load_config(write(tmp_path, dump_yaml(config))) == config


@pytest.mark.parametrize(
    ("section", "key", "text", "kind"),
    [
        ("train", "seed", "010", "a whole number"),
        ("train", "seed", "-0_7", "a whole number"),
        ("train", "num_steps", "10:00", "a whole number"),
        ("lora", "alpha", "010", "a number"),
        ("lora", "alpha", "10:00.5", "a number"),
        ("model", "gradient_checkpointing", "yes", "true or false"),
        ("model", "gradient_checkpointing", "off", "true or false"),
    ],
)
def test_load_config_values_of_yaml_1_1_are_not_misread(tmp_path, section, key, text, kind):
    message = rf"{section}\.{key} is '{text}', expected {kind}"
    with pytest.raises(GrandError, match=message):
        load_config(write(tmp_path, f"{section}: {{{key}: {text}}}"))
    with pytest.raises(GrandError, match=message):
        load_config(write(tmp_path, ""), [f"{section}.{key}={text}"])


def test_parse_yaml_numbers_and_truth_values():
    text = "[no, on, y, true, False, 010, 08, 1:30, 0, -0, +7, 0b11, 0x1F, 1_000, .5, -1.5e+3, 1., .inf, 1.5:0]"
    read = ["no", "on", "y", True, False, "010", "08", "1:30", 0, 0, 7, 3, 31, 1000, 0.5, -1500.0, 1.0, float("inf"), "1.5:0"]
    assert [(type(value), value) for value in parse_yaml(text, "x")] == [(type(value), value) for value in read]


def leaves(kind=Config, where=""):
    """(dotted name, type) of every setting; a list is ``name[]``."""
    hints = get_type_hints(kind)
    for item in fields(kind):
        name = f"{where}.{item.name}" if where else item.name
        kinds = get_args(hints[item.name]) or (hints[item.name],)
        nested = next((k for k in kinds if is_dataclass(k)), None)
        if nested is not None:
            yield from leaves(nested, name + "[]" * (hints[item.name] != nested and type(None) not in kinds))
        else:
            yield name, kinds


def test_every_number_has_limits_and_every_limit_a_number():
    assert set(LIMITS) == {name for name, kinds in leaves() if set(kinds) & {int, float}}


def fault(name: str, value) -> str:
    """What is said of one setting."""
    raw = {"existence": value} if name.endswith(".limits") else value
    for section in reversed(name.split(".")):
        raw = {section.removesuffix("[]"): [{"path": "a"} | raw] if section.endswith("[]") else raw}
    try:
        from_dict(raw)
    except GrandError as error:
        start = f"{name.replace('[]', '[0]')} is "
        return next(
            (line.strip() for line in str(error).splitlines() if line.strip().startswith(start) and "expected" in line), ""
        )
    return ""


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_numbers_out_of_their_limits_are_named(name):
    low, high, ends = LIMITS[name]
    for bound, end, beyond in ((low, ends[0], low - 1), (high, ends[1], high + 1)):
        assert bool(fault(name, bound)) == (end in "()")
        assert f" is {beyond}, expected " in fault(name, beyond)
    for value in (float("inf"), float("nan"), 10**400, -(10**400), "-1e999", True, None, [1], "many"):
        assert fault(name, value)


def test_train_seed_at_its_limit_is_one_that_numpy_takes_on_every_process():
    numpy.random.RandomState(LIMITS["train.seed"][1] + 1023)  # each process adds its number


def test_load_config_missing_file_raises(tmp_path):
    with pytest.raises(GrandError, match="no such file"):
        load_config(tmp_path / "absent.yaml")


def test_dump_yaml_is_read_back_unchanged(tmp_path):
    config = Config(
        data=DataConfig(train=(Source("ä b"),), questions_per_scene=4), train=TrainConfig(global_batch=4, learning_rate=1e-7)
    )
    assert load_config(write(tmp_path, dump_yaml(config))) == config


@settings(max_examples=30, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda x: (
            st.lists(x, max_size=2)
            | st.dictionaries(st.sampled_from(["model", "train", "data", "synth", "seed", "lora", "modules"]), x, max_size=3)
        ),
    )
)
def test_from_dict_any_value_gives_a_config_or_one_error(raw):
    try:
        config = from_dict(raw if isinstance(raw, dict) else {"train": raw})
    except GrandError:
        return
    assert from_dict(to_dict(config)) == config


def test_flat_nested_sections_become_dotted_keys():
    assert flat({"a": {"b": 1, "c": {"d": "x"}}, "e": [1]}) == {"a.b": 1, "a.c.d": "x", "e": "[1]"}


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).resolve().parent.parent / "configs").glob("*.yaml")), ids=lambda p: p.stem
)
def test_shipped_config_loads_and_opens_with_its_command(path):
    load_config(path)
    assert path.read_text().startswith("# ")
    assert f"grand3d train configs/{path.name}" in path.read_text().splitlines()[0]


@pytest.mark.parametrize("name", ["objref", "existence"])
def test_llama2_configs_are_the_papers_runs(name, root):
    config = load_config(root / "configs" / f"llama2_7b_{name}.yaml")
    train = config.train
    assert (train.learning_rate, train.weight_decay, train.global_batch, train.num_steps) == (2e-4, 0.01, 96, 10_000)
    assert (train.schedule, config.model.dtype, config.model.attention) == ("cosine", "bf16", "auto")
    assert (config.prompt.serializer, config.prompt.grounding, config.prompt.top_k) == ("grand", "first", 40)


@pytest.mark.parametrize("name", ["quickstart", "smollm2", "tiny"])
def test_configs_of_generated_rooms_show_every_object(name, root):
    config = load_config(root / "configs" / f"{name}.yaml")
    most = max(len(detect(make_room(seed), seed)[0].objects) for seed in range(150))
    assert 20 < most <= config.prompt.top_k  # with fewer shown, "No" would be learnt where one is hidden and none true


def test_override_prompt_changes_prompt_settings_only() -> None:
    own = PromptConfig(grounding="later")
    assert override_prompt(own, []) == own
    assert override_prompt(own, ["prompt.top_k=100", "prompt.serializer=scored"]) == replace(own, top_k=100, serializer="scored")
    for wrong in ("top_k=3", "train.seed=1", "prompt.top_k=x", "prompt.topk=3", "prompt.merge_overlap=0", "prompt.top_k"):
        with pytest.raises(GrandError, match=r"expected|did you mean"):
            override_prompt(own, [wrong])
