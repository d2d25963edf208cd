"""Model shapes as folders that upstream can load a ModelConfig from; no weights, no tokenizer, no hub.

One architecture serves every shape: a Llama with as many query heads as KV heads. What KV capacity
depends on (layers, KV heads, head size, dtype, positions) is the scenario's, and is read back from
upstream's own getters.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from pathlib import Path

from oracle.driver.wire import Model

ARCHITECTURE = "LlamaForCausalLM"


class ModelFolders:
    """Folders with a config.json each, one for each shape and dtype, removed when the process exits.

    At exit and not by a context: a signal that arrives with the end of the input would leave it half-way.
    """

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="nullblock-oracle-"))
        atexit.register(shutil.rmtree, self._root, ignore_errors=True)
        self._folders: dict[tuple[Model, str], Path] = {}

    def folder(self, model: Model, dtype: str) -> Path:
        key = (model, dtype)
        if key not in self._folders:
            folder = self._root / str(len(self._folders))
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps(hugging_face_config(model, dtype)))
            self._folders[key] = folder
        return self._folders[key]


def hugging_face_config(model: Model, dtype: str) -> dict[str, object]:
    """The config.json of a decoder-only model with full attention and this shape."""
    hidden_size = model.num_kv_heads * model.head_size
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "llama",
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_kv_heads,
        "num_key_value_heads": model.num_kv_heads,
        "head_dim": model.head_size,
        "hidden_size": hidden_size,
        "intermediate_size": hidden_size,
        "hidden_act": "silu",
        "max_position_embeddings": model.max_position,
        "vocab_size": model.vocab_size,
        "torch_dtype": dtype,
    }
