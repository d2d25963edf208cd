"""A launcher turns a configuration into a command line, and says which value it cannot."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.cli.parser import build_parser
from oracle.interpreter import oracle_environment, oracle_python
from oracle.pins import load_pin
from parity.errors import UsageError
from parity.scenario import ServerConfig
from parity.serve.launcher import Launcher, Ready, command, load_launcher, shipped
from tests.parity.served import server_config
from tests.parity.stand_in import engine_launcher

FORM = """
name = "other"
command = ["serve", "{model}", "{port}"]
[ready]
path = "/health"
seconds = 9
[flags]
"""
OTHERS: dict[str, Any] = {
    "dtype": "bfloat16",
    "block_size": 4,
    "num_blocks": 9,
    "max_model_len": 64,
    "max_num_seqs": 2,
    "max_num_batched_tokens": 80,
    "enable_chunked_prefill": False,
    "long_prefill_token_threshold": 3,
    "scheduler_reserve_full_isl": False,
    "enable_prefix_caching": False,
    "scheduling_policy": "priority",
    "generation_config": {"max_new_tokens": 4},
    "override_generation_config": {"max_new_tokens": 5, "temperature": 0.5},
    "shutdown_timeout": 7,
}

AS_PARSED = {key: OTHERS[key] for key in OTHERS if key not in ("num_blocks", "generation_config")} | {
    "override_generation_config": '{"max_new_tokens":5,"temperature":0.5}',
    "generation_config": "/scratch",
    "served_model_name": ["tiny-opt"],
    "port": 8123,
}
UPSTREAMS_PARSER = """
import json, sys
from vllm.entrypoints.openai.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
args = make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[1:])
print(json.dumps(vars(args), default=str))
"""


def line(launcher: Launcher, config: ServerConfig) -> list[str]:
    folder = None if config.generation_config is None else Path("/scratch")
    return command(
        launcher,
        config,
        python="python",
        model=Path("/models/tiny-opt"),
        host="127.0.0.1",
        port=8123,
        generation_config=folder,
    )


def launcher_of(name: str) -> Launcher:
    return engine_launcher() if name == "engine" else load_launcher(shipped(name))


def write(folder: Path, text: str) -> Path:
    path = folder / "other.toml"
    path.write_text(text)
    return path


def test_upstreams_command_line() -> None:
    assert line(load_launcher(shipped("vllm")), server_config()) == [
        *("python", "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", "/models/tiny-opt", "--served-model-name", "tiny-opt"),
        *("--host", "127.0.0.1", "--port", "8123", "--enforce-eager", "--disable-uvicorn-access-log"),
        *("--dtype", "float32", "--block-size", "16", "--num-gpu-blocks-override", "64"),
        *("--max-model-len", "-1", "--max-num-seqs", "16", "--max-num-batched-tokens", "2048"),
        *("--enable-chunked-prefill", "--long-prefill-token-threshold", "0"),
        *("--scheduler-reserve-full-isl", "--enable-prefix-caching"),
        *("--scheduling-policy", "fcfs", "--shutdown-timeout", "0"),
    ]


def test_the_engines_command_line() -> None:
    assert line(engine_launcher(), server_config()) == [
        *("python", "-m", "engine.cli.main", "serve", "/models/tiny-opt", "--served-model-name", "tiny-opt"),
        *("--host", "127.0.0.1", "--port", "8123", "--disable-uvicorn-access-log"),
        *("--dtype", "float32", "--block-size", "16", "--num-gpu-blocks-override", "64"),
        *("--max-model-len", "auto", "--max-num-seqs", "16", "--max-num-batched-tokens", "2048"),
        *("--enable-chunked-prefill", "--long-prefill-token-threshold", "0"),
        *("--scheduler-reserve-full-isl", "--enable-prefix-caching"),
        *("--scheduling-policy", "fcfs", "--shutdown-timeout", "0"),
    ]


@pytest.mark.parametrize("name", ["vllm", "engine"])
def test_every_value_reaches_either_command_line(name: str) -> None:
    launcher = launcher_of(name)

    given = line(launcher, server_config(**OTHERS))

    assert given[given.index("--dtype") :] == [
        *("--dtype", "bfloat16", "--block-size", "4", "--num-gpu-blocks-override", "9"),
        *("--max-model-len", "64", "--max-num-seqs", "2", "--max-num-batched-tokens", "80"),
        *("--no-enable-chunked-prefill", "--long-prefill-token-threshold", "3"),
        *("--no-scheduler-reserve-full-isl", "--no-enable-prefix-caching"),
        *("--scheduling-policy", "priority", "--generation-config", "/scratch"),
        *("--override-generation-config", '{"max_new_tokens":5,"temperature":0.5}'),
        *("--shutdown-timeout", "7"),
    ]
    assert set(OTHERS) == set(ServerConfig.__struct_fields__) - {"model"}


@pytest.mark.parametrize("name", ["vllm", "engine"])
def test_upstream_is_the_only_one_that_needs_an_environment(name: str) -> None:
    launcher = launcher_of(name)

    needed = {"TORCHDYNAMO_DISABLE", "VLLM_CPU_KVCACHE_SPACE", "VLLM_LOGGING_LEVEL"}
    assert set(launcher.environment) == (needed if name == "vllm" else set())
    assert launcher.ready.path == "/health"


def test_the_engine_takes_the_flags_as_they_are() -> None:
    given = line(engine_launcher(), server_config(**OTHERS))

    args = build_parser().parse_args(given[3:])

    assert {key: vars(args)[key] for key in AS_PARSED} == AS_PARSED
    assert args.num_gpu_blocks_override == 9


@pytest.mark.oracle
def test_upstream_takes_the_flags_as_they_are(root: Path) -> None:
    given = line(load_launcher(shipped("vllm")), server_config(**OTHERS))
    asked = {
        **AS_PARSED,
        "num_gpu_blocks_override": 9,
        "override_generation_config": OTHERS["override_generation_config"],
    }

    done = subprocess.run(
        [oracle_python(root, load_pin(root)), "-c", UPSTREAMS_PARSER, *given[3:]],
        env=oracle_environment(root, load_pin(root)),
        cwd=root,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    parsed = json.loads(done.stdout.splitlines()[-1])
    assert {key: parsed[key] for key in asked} == asked


def test_a_value_without_a_flag_may_be_the_default_and_nothing_else() -> None:
    bare = Launcher(
        "bare", ["serve", "{model}", "{port}"], Ready("/health", 9), {"num_blocks": ["--blocks={}"]}
    )

    assert line(bare, server_config()) == ["serve", "/models/tiny-opt", "8123", "--blocks=64"]
    with pytest.raises(UsageError, match="launcher bare has no flag for max_num_seqs = 3"):
        line(bare, server_config(max_num_seqs=3))
    with pytest.raises(UsageError, match="no flag for generation_config"):
        line(bare, server_config(generation_config={}))


def test_a_flag_may_be_its_name_alone_and_the_value_follows_it() -> None:
    named = Launcher("named", ["{model}{port}"], Ready("/", 9), {"num_blocks": "--blocks", "dtype": "{}"})

    assert line(named, server_config())[1:] == ["{}", "float32", "--blocks", "64"]


def test_a_table_without_the_value_is_no_flag_for_it() -> None:
    flags = {"num_blocks": ["{}"], "enable_prefix_caching": {"false": ["--no-cache"]}}
    other = Launcher("other", ["{model}{port}"], Ready("/health", 9), flags)

    assert line(other, server_config(enable_prefix_caching=False))[-1] == "--no-cache"
    assert line(other, server_config(enable_prefix_caching=True))[-1] == "64"
    policy = {**flags, "scheduling_policy": {"fcfs": []}}
    with pytest.raises(UsageError, match="no flag for scheduling_policy = priority"):
        line(
            Launcher("other", ["{model}{port}"], Ready("/health", 9), policy),
            server_config(scheduling_policy="priority"),
        )


def test_other_braces_of_a_command_are_its_own() -> None:
    json = '--opt={"port": {port}, "a": {}}'
    launcher = Launcher("other", ["{model}", json], Ready("/health", 9), {"num_blocks": []})

    assert line(launcher, server_config()) == ["/models/tiny-opt", '--opt={"port": 8123, "a": {}}']


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name = ", "Invalid value"),
        ('name = "x"', "missing required field `command`"),
        (FORM.replace("seconds = 9", "seconds = 0"), "ready.seconds"),
        (FORM.replace("[flags]", "[flag]"), "unknown field `flag`"),
        (FORM + "dtype = 1", "flags"),
        (FORM + "blocks = []", "no configuration has blocks — it has block_size"),
        (FORM + 'model = ["{}"]', "no configuration has model"),
        (FORM.replace("{port}", "8000"), "command has no {port}"),
    ],
)
def test_a_launcher_that_is_none_is_refused_with_its_name(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text)

    with pytest.raises(UsageError) as refused:
        load_launcher(path)

    assert says in str(refused.value)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_a_launcher_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load_launcher(tmp_path / "none.toml")


def test_a_foreign_launcher_needs_no_more_than_a_file(tmp_path: Path) -> None:
    launcher = load_launcher(write(tmp_path, FORM + 'num_blocks = ["--blocks", "{}"]'))

    assert line(launcher, server_config()) == ["serve", "/models/tiny-opt", "8123", "--blocks", "64"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"other"', '""'), "name '' is no name"),
        (('"other"', '"a b"'), "name 'a b' is no name"),
        (('"other"', '"../up"'), "name '../up' is no name"),
        (('"other"', '"nul\\u0000"'), "is no name"),
        (('"/health"', '"health"'), "ready: path 'health' is no path"),
        (('"/health"', '"//host/health"'), "is no path"),
        (('"/health"', '"/a\\nb"'), "is no path"),
        (('"/health"', '"http://["'), "is no path"),
        (('"/health"', '"/a b"'), "is no path"),
        (('"serve"', '"ser\\u0000ve"'), "command: a text has a NUL in it"),
        (("[flags]", '[environment]\n"A=B" = "c"\n[flags]'), "environment: 'A=B' is no variable's name"),
        (("[flags]", '[environment]\n"" = "c"\n[flags]'), "environment: '' is no variable's name"),
        (("[flags]", '[environment]\nA = "\\u0000"\n[flags]'), "environment: a text has a NUL in it"),
        (("[flags]", '[flags]\ndtype = {"*" = ["\\u0000"]}'), "flags: dtype: a text has a NUL in it"),
        (("[ready]", 'policy = ["\\u0000"]\n[ready]'), "policy: a text has a NUL in it"),
        (("[flags]", f"[flags]\ndtype = {'[' * 5000}{']' * 5000}"), "other.toml: "),
    ],
)
def test_what_no_server_can_be_started_with_is_a_mistake_in_the_file(
    change: tuple[str, str], said: str, tmp_path: Path
) -> None:
    assert FORM.count(change[0]) == 1
    path = write(tmp_path, FORM.replace(*change))

    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        load_launcher(path)

    assert str(path) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models?ready=1"])
def test_a_path_can_be_any_that_a_request_has(path: str, tmp_path: Path) -> None:
    assert load_launcher(write(tmp_path, FORM.replace("/health", path))).ready.path == path
