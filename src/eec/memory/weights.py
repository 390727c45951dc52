"""A codec's weights as they are kept: in full, in half precision, or in bytes.

Weights are rounded once, when the codec is trained: one read back from a file is the one in use.
"""

from __future__ import annotations

import lzma

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

Tensors = dict[str, Tensor]
SCALE = ".scale"  # the name of what one step of a weight's bytes means


def round_weights(net: nn.Module, code_type: str) -> None:
    """To what will be kept of them beside codes of this type."""
    with torch.no_grad():
        state = net.state_dict()
        for name, weight in unpack_weights(pack_weights(state, code_type)).items():
            state[name].copy_(weight)


def pack_weights(weights: Tensors, code_type: str) -> Tensors:
    """Beside float32 codes in full, beside coded ones in bytes, else in half precision."""
    packed: Tensors = {}
    for name, weight in weights.items():
        if code_type == "float32" or not weight.is_floating_point():
            packed[name] = weight
        elif code_type != "coded" or weight.dim() < 2:
            packed[name] = weight.half()
        else:
            # Not less than 1e-3: half precision holds smaller steps so roughly that bytes of them,
            # read back, would be rounded to other ones.
            scale = _most(weight).clamp_min(1e-3).div(127).half()
            steps = weight / _beside(scale.float(), weight)
            packed[name] = steps.round().clamp(-127, 127).to(torch.int8)
            packed[name + SCALE] = scale
    return packed


def unpack_weights(packed: Tensors) -> Tensors:
    weights = {}
    for name, kept in packed.items():
        if name.endswith(SCALE) and name.removesuffix(SCALE) in packed:
            continue
        scale = packed.get(name + SCALE)
        plain = kept.float() if kept.dtype in (torch.float16, torch.int8) else kept
        weights[name] = plain if scale is None else plain * _beside(scale.float(), plain)
    return weights


def compressed(tensors: Tensors) -> Tensor:
    """All of them as one string of bytes: weights in bytes are mostly small, those of a prior 0."""
    content = lzma.compress(save(tensors))
    return torch.from_numpy(np.frombuffer(content, np.uint8).copy())


def decompressed(content: Tensor) -> Tensors:
    tensors: Tensors = load(lzma.decompress(content.numpy().tobytes()))
    return tensors


def _most(weight: Tensor) -> Tensor:
    """The largest size in each slice along the first dimension."""
    return weight.abs().flatten(1).amax(1)


def _beside(scale: Tensor, weight: Tensor) -> Tensor:
    return scale.reshape(-1, *[1] * (weight.dim() - 1))
