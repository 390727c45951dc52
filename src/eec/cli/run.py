"""`eec run DATASET`: one class-incremental experiment, shown as it goes, in a run folder."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro

from eec.data.catalog import DATASETS
from eec.errors import UserError
from eec.methods.options import (
    OF_THE_STREAM,
    AutoencoderKind,
    CodecKind,
    CodeType,
    CompressedReplayOptions,
    ContentScale,
    EECOptions,
    Linkage,
    Net,
    NewImages,
    Output,
    OverBudget,
    RecipeName,
    See,
    Share,
)
from eec.methods.registry import METHODS, choose_options
from eec.runs.config import RunConfig

DATASET_NAMES = ", ".join(name + entry.argument for name, entry in DATASETS.items())
_METHODS = "; ".join(f"{name} ({entry.description})" for name, entry in METHODS.items())


@dataclass(frozen=True)
class Run:
    """Learn a data set class by class; write measures, pictures, a report and the learner to a
    folder."""

    dataset: tyro.conf.Positional[
        Annotated[str, tyro.conf.arg(metavar="DATASET", help=f"Data set: {DATASET_NAMES}.")]
    ]
    method: Annotated[str, tyro.conf.arg(metavar="NAME", help=f"Method: {_METHODS}.")] = "eec"
    seed: int = 0
    """Decides the images chosen, a shuffled class order, and all training."""
    out: Path | None = None
    """Run folder [runs/DATASET-METHOD-SEED]."""
    overwrite: bool = False
    """Replace an earlier run in that folder."""
    beside: tuple[Path, ...] = ()
    """Run folders to draw in the same figure [joint runs on the same stream, in the folder that
    holds this run's]."""
    data_dir: Path | None = None
    """Where the data sets lie [EEC_DATA, or eec in the user's cache folder]."""
    size: int | None = None
    """Scale images to this many pixels a side: short side, then the square in the centre [32 for
    image files, else as the data set has them]."""
    strict: bool = False
    """Refuse image files that cannot be decoded, in place of leaving them out."""
    classes_per_increment: str | None = None
    """New classes an increment: one number, or one for each increment as in 2,3,5 [as in the paper:
    10 for cifar100, imagenet-50 and tiny-imagenet-50, else 1]."""
    class_order: Annotated[str, tyro.conf.arg(metavar="natural|shuffled|FILE")] = "natural"
    """Classes in their natural order, shuffled by the seed, or as a text file has them, one a
    line."""
    per_class: int | None = None
    """At most this many training images of a class [all]."""
    validation: float = 0.0
    """Hold this share of the training images out and judge on it, not on the test images."""
    returning: float = 0.0
    """This share of each class's images comes one increment later, with the next classes."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute."""
    precision: Literal["auto", "float32", "bf16"] = "auto"
    """auto: bf16 where the hardware is fast at it, else float32."""
    originals: Annotated[bool, tyro.conf.arg(help_behavior_hint="(default: kept)")] = True
    """Leave the few test images that the pictures show out of the run folder."""
    checkpoint_every: float = 60.0
    """Seconds of training between checkpoints, from which `eec resume` goes on."""
    quiet: bool = False
    """Print the result only."""

    # The method's own choices: None leaves them as the method has them.
    net: Net | None = None
    """Classifier [by method: dcgan as published; else tiny for grey, small for colour images]."""
    recipe: RecipeName | None = None
    """Training: fast; brief, in a quarter of the classifier's steps; paper, the published one epoch
    for epoch [fast]."""
    keep_head: tyro.conf.FlagConversionOff[bool | None] = None
    """Keep the head's rows of old classes, or begin the head anew at each increment [True]."""
    turn: int | None = None
    """Turn, stretch and slant images at random in training, by up to so many degrees and percent
    [by data set: 12 for digits and mnist, else 0; none with --recipe paper]."""
    replay_per_epoch: int | None = None
    """Images of old classes to show the classifier an epoch, drawn anew each time, which bounds the
    time that an increment takes [all]."""
    crop: int | None = None
    """Train on random crops of this many pixels, judge on the central one: --size 256 --crop 224
    [whole images]."""
    codec: CodecKind | None = None
    """Autoencoder: frozen after the first task, one per task, per task but each started from the
    last (warm), or one retrained at each task [by method]."""
    autoencoder: AutoencoderKind | None = None
    """Train the autoencoder plain, variational or denoising [by method: plain]."""
    new_images: NewImages | None = None
    """Show new classes to the classifier decoded (as old ones are), real, or both [by method]."""
    detail: tyro.conf.FlagConversionOff[bool | None] = None
    """Lend decoded images, half of the time, the detail that coding takes from new ones [True, but
    as published not]."""
    see: See | None = None
    """Show test images to the classifier real, or coded and decoded [real]."""
    code: str | None = None
    """Shape of an episode, channels x side x side [by method: auto, published 16x4x4]."""
    output: Output | None = None
    """End of the decoder [by method: tanh, published norm]."""
    content: float | None = None
    """lambda, the content loss's share [0.7]."""
    content_scale: ContentScale | None = None
    """Content loss normalised or raw [by method]."""
    decay: tyro.conf.FlagConversionOff[bool | None] = None
    """Weigh decoded images by their decay [by method: only as published]."""
    memory: str | None = None
    """What may be kept of old classes: slots (5000; an episode or an image takes one, a concept
    two), bytes on disk without the classifier (5MB), or unlimited [unlimited; icarl 2000]."""
    over_budget: OverBudget | None = None
    """Over budget: keep episodes that stand for others (spread), merge into concepts, the same to
    the letter of the paper (literal), or drop at random [by method: spread, published literal]."""
    linkage: Linkage | None = None
    """Which episodes become one concept [by method: ward, published centroid]."""
    share: Share | None = None
    """An equal share of the budget for each class, or the paper's, eq. 4 [by method]."""
    code_type: CodeType | None = None
    """How codes are kept: coded (rate-distortion net and entropy coder), or as plain numbers of the
    published autoencoder [by method: coded, published float32]."""
    image_bytes: int | None = None
    """Bytes that a coded image may take on average [as a --memory in bytes allows; without one, as
    many as it takes to lose 1 % of the first task's variance]."""
    codec_refresh: tyro.conf.FlagConversionOff[bool | None] = None
    """Train a frozen codec again, and encode memory anew, when it keeps a later task badly
    [False]."""
    keep_real: float | None = None
    """Share of each class's real images to keep on top of the episodes, as in 0.1: the run is then
    shown as not strict [0]."""
    distil: float | None = None
    """How much the classifier is to go on saying what it said before of old classes, times the
    share of their images that memory has let go: nothing without --memory [1; as published 0]."""
    quality: int | None = None
    """Quality of replay-webp and replay-jpeg, 1 to 100; 0: the best at which all images fit a
    budget in bytes [0]."""

    def start(self, arguments: Sequence[str]) -> None:
        config = self.config(arguments)
        out = self.out or Path("runs") / f"{file_name(self.dataset)}-{self.method}-{self.seed}"

        from eec.cli.carry_out import carry_out
        from eec.report.folder import read_run
        from eec.runs.folder import RunFolder
        from eec.runs.run import prepare, run

        beside = [read_run(path) for path in self.beside]
        carry_out(
            lambda progress: (config, *prepare(config, progress)),
            lambda: RunFolder.make(out, overwrite=self.overwrite),
            run,
            quiet=self.quiet,
            every=self.checkpoint_every,
            beside=beside,
        )

    def config(self, arguments: Sequence[str]) -> RunConfig:
        known = [*fields(EECOptions), *fields(CompressedReplayOptions)]
        names = {field.name for field in known} - {*OF_THE_STREAM}
        return RunConfig(
            dataset=self.dataset,
            method=self.method,
            options=choose_options(self.method, **{name: getattr(self, name) for name in names}),
            seed=self.seed,
            data_dir=self.data_dir,
            size=self.size,
            strict=self.strict,
            classes_per_increment=_numbers(self.classes_per_increment),
            class_order=self.class_order,
            per_class=self.per_class,
            validation=self.validation,
            returning=self.returning,
            turn=self.turn,
            device=self.device,
            precision=self.precision,
            originals=self.originals,
            beside=self.beside,
            command=shlex.join(["eec", *arguments]),
        )


def file_name(dataset: str) -> str:
    """folder:some/where/birds to folder-birds."""
    name, _, argument = dataset.partition(":")
    return "-".join(part for part in (name, Path(argument).name) if part)


def _numbers(text: str | None) -> int | tuple[int, ...] | None:
    if text is None:
        return None
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UserError(
            f"--classes-per-increment {text!r}: use a number such as 2, or a list such as 2,3,5"
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers
