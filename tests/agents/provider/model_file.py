"""A small random Llama, written as a GGUF file in well under a second.

It speaks readable words, and now and then it wants to end: so the same file gives replies that
end by themselves and, with `ignore_eos` or `top_k=1`, replies that never do.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

SENTENCE = "the cord is pulled and train stops here while we wait for a small sign to go on"
WORDS = tuple(SENTENCE.split())
_WIDTH = 128
_FEED = 256
_HEADS = 4
_SEED = 7
_EOS = 2

# `{% generation %}`-free and tool-blind: role, text, newline. Enough for every dialect.
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def write_model(path: Path, *, layers: int = 4, context: int = 65_536) -> Path:
    """Write the model to `path`; more layers make each token dearer."""
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(_FEED)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    vocabulary = _add_vocabulary(writer)
    for name, tensor in _tensors(vocabulary, layers).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_vocabulary(writer: gguf.GGUFWriter) -> int:
    """Three control tokens, the 256 bytes (so that any prompt can be read), and the words."""
    kinds = gguf.TokenType
    table = [("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)]
    table += [(f"<0x{byte:02X}>", kinds.BYTE) for byte in range(256)]
    table += [(f"\u2581{word}", kinds.NORMAL) for word in WORDS]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in table])
    writer.add_token_scores([0.0] * len(table))
    writer.add_token_types([kind for _, kind in table])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(_EOS)
    writer.add_unk_token_id(0)
    writer.add_chat_template(CHAT_TEMPLATE)
    return len(table)


def _tensors(vocabulary: int, layers: int) -> dict[str, Array]:
    rng = np.random.default_rng(_SEED)

    def noise(*shape: int) -> Array:
        return (rng.standard_normal(shape) * 0.02).astype(np.float32)

    ones = np.ones(_WIDTH, dtype=np.float32)
    tensors = {
        "token_embd.weight": _steady(noise(vocabulary, _WIDTH)),
        "output_norm.weight": ones,
        "output.weight": _words_first(noise(vocabulary, _WIDTH)),
    }
    for n in range(layers):
        tensors[f"blk.{n}.attn_norm.weight"] = ones
        tensors[f"blk.{n}.ffn_norm.weight"] = ones
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensors[f"blk.{n}.{name}.weight"] = noise(_WIDTH, _WIDTH)
        tensors[f"blk.{n}.ffn_gate.weight"] = noise(_FEED, _WIDTH)
        tensors[f"blk.{n}.ffn_up.weight"] = noise(_FEED, _WIDTH)
        tensors[f"blk.{n}.ffn_down.weight"] = noise(_WIDTH, _FEED)
    return tensors


def _steady(embedding: Array) -> Array:
    """Make the first number the same for each token: what `_words_first` can lean on."""
    embedding[:, 0] = 1.0
    return embedding


def _words_first(output: Array) -> Array:
    """Make words likely, the end rare, and raw bytes (broken UTF-8) as good as impossible.

    The end follows the first word at a small distance: so it is never the likeliest token, and
    `top_k=1` makes a reply endless too.
    """
    output[:, 0] = -4.0
    output[3 + 256 :, 0] = 1.0
    output[_EOS] = output[3 + 256]
    output[_EOS, 0] -= 0.02
    return output
