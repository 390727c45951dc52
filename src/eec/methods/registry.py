"""The methods by name.

To add one: write a module beside this one with a subclass of `contract.Method`, then add its line
to METHODS. Modules are imported when asked for: listing the methods needs no torch.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from eec.errors import UserError
from eec.methods.options import (
    PUBLISHED,
    ClassifierOptions,
    CompressedReplayOptions,
    EECOptions,
    ExemplarOptions,
    GANOptions,
    ReplayOptions,
)

if TYPE_CHECKING:
    from eec.methods.contract import Method
    from eec.training.runtime import Runtime


@dataclass(frozen=True)
class Entry:
    where: str  # module:class
    options: ClassifierOptions  # the method's defaults
    description: str


METHODS: dict[str, Entry] = {
    "eec": Entry("eec.methods.eec:EECMethod", EECOptions(), "EEC in the form that measures best"),
    "eec-published": Entry("eec.methods.eec:EECMethod", PUBLISHED, "EEC as the paper has it"),
    "eecs": Entry(
        "eec.methods.eec:EECMethod",
        replace(PUBLISHED, codec="retrained"),
        "EEC with a single autoencoder, retrained at each task",
    ),
    "finetune": Entry(
        "eec.methods.bounds:Finetune", ClassifierOptions(), "new images only: the floor"
    ),
    "joint": Entry(
        "eec.methods.bounds:Joint", ClassifierOptions(), "all real images kept: the ceiling"
    ),
    # The ablations of the paper's Table 2. Those in place of the autoencoder with a content loss
    # have none; the same switches ablate ours when they are given to `eec`.
    "eec-nonst": Entry(
        "eec.methods.eec:EECMethod",
        replace(PUBLISHED, content=0.0),
        "published, without the content loss",
    ),
    "eec-vae": Entry(
        "eec.methods.eec:EECMethod",
        replace(PUBLISHED, autoencoder="variational", content=0.0),
        "published, with variational autoencoders",
    ),
    "eec-dna": Entry(
        "eec.methods.eec:EECMethod",
        replace(PUBLISHED, autoencoder="denoising", content=0.0),
        "published, with denoising autoencoders",
    ),
    "eec-cgan": Entry(
        "eec.methods.cgan:ConditionalGAN",
        GANOptions(net=PUBLISHED.net, new_images=PUBLISHED.new_images),
        "published, with a conditional GAN for each task",
    ),
    "eec-nopseudo": Entry(
        "eec.methods.eec:EECMethod",
        replace(PUBLISHED, over_budget="drop"),
        "published, dropping episodes over budget",
    ),
    "eec-nodecay": Entry(
        "eec.methods.eec:EECMethod",
        replace(PUBLISHED, decay=False),
        "published, without sample decay",
    ),
    "replay": Entry(
        "eec.methods.replay:Replay", ReplayOptions(), "real images kept within --memory"
    ),
    "replay-webp": Entry(
        "eec.methods.replay:ReplayWebP",
        CompressedReplayOptions(),
        "the same, compressed as WebP",
    ),
    "replay-jpeg": Entry(
        "eec.methods.replay:ReplayJPEG",
        CompressedReplayOptions(),
        "the same, compressed as JPEG",
    ),
    "icarl": Entry(
        "eec.methods.icarl:ICaRL",
        ExemplarOptions(memory="2000"),
        "real images chosen by herding, distillation, the nearest mean of them",
    ),
}


def find_method(name: str) -> Entry:
    if name not in METHODS:
        raise UserError(f"unknown method {name!r}: the known ones are {', '.join(METHODS)}")
    return METHODS[name]


def choose_options(name: str, **chosen: Any) -> ClassifierOptions:
    """The method's defaults with some of them chosen otherwise; None leaves a default alone."""
    defaults = find_method(name).options
    known = [field.name for field in fields(defaults)]
    given = {key: value for key, value in chosen.items() if value is not None}
    if unknown := [key for key in given if key not in known]:
        raise UserError(
            f"method {name} has no option {', '.join(unknown)}: it has {', '.join(known)}"
        )
    return replace(defaults, **given)


def make_method(name: str, options: ClassifierOptions, seed: int, runtime: Runtime) -> Method:
    module, _, kind = find_method(name).where.partition(":")
    method: Method = getattr(importlib.import_module(module), kind)(name, options, seed, runtime)
    return method
