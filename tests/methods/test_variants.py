"""The ablations of EEC, and EEC with some real images kept."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from eec.data.stream import Task
from eec.errors import UserError
from eec.memory import codec as codec_module
from eec.memory.codec import CodecOptions, train_codec
from eec.memory.codes import Packing
from eec.methods.archive import learner_bytes, load_learner, save_learner
from eec.methods.eec import EECMethod, Rehearsal, _counts, _pictures
from eec.methods.options import PUBLISHED, EECOptions
from eec.methods.registry import METHODS, choose_options, make_method
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime

Make = Callable[..., EECMethod]
TaskOf = Callable[..., Task]
Mixtures = list[tuple[Tensor, Tensor, Tensor]]


@pytest.fixture(autouse=True)
def _short(short_recipe: Recipe) -> None:
    """Nothing here asks how well it learns."""


# --- the names ---


def test_the_names_are_the_papers_form_with_one_thing_changed() -> None:
    changed: dict[str, dict[str, Any]] = {
        "eec-nonst": {"content": 0.0},
        "eec-nodecay": {"decay": False},
        "eec-nopseudo": {"over_budget": "drop"},
        # They stand in place of the autoencoder with a content loss, and have none.
        "eec-vae": {"autoencoder": "variational", "content": 0.0},
        "eec-dna": {"autoencoder": "denoising", "content": 0.0},
    }
    for name, change in changed.items():
        assert METHODS[name].options == replace(PUBLISHED, **change)


# --- variational ---


def test_variational_codes_are_refused_where_codes_are_coded() -> None:
    with pytest.raises(UserError, match="use code_type=uint8, or autoencoder=plain"):
        EECOptions(autoencoder="variational")


@pytest.mark.parametrize("code_type", ["uint8", "float16"])
def test_variational_codes_go_with_the_matched_form_too(
    make: Make, task_of: TaskOf, cpu: Runtime, tmp_path: Path, code_type: str
) -> None:
    learner = make(
        autoencoder="variational", code_type=code_type, memory="8", over_budget="concepts"
    )
    learner.learn(task_of(0, 1, each=8))
    learner.learn(task_of(2, each=8))
    assert any(len(part.spreads) for part in learner.memory.kept)
    for part in learner.memory.kept:
        assert learner.memory.packings[part.task].unpack(part.codes).min() < 0
    back = load_learner(save_learner(learner, tmp_path / "a.eec"), cpu)
    for some in (learner, back):
        some.learn(task_of(3, each=3))
    assert learner_bytes(back) == learner_bytes(learner)


@pytest.mark.parametrize("type", ["uint8", "float32"])
def test_signed_codes_are_packed_to_both_sides_and_never_clipped_at_0(type: str) -> None:
    codes = torch.randn(20, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    packing = Packing.learn(type, codes, signed=True)
    step = 0.0 if packing.scale is None else float(packing.scale.max())
    assert (packing.unpack(packing.pack(codes)) - codes).abs().max() <= step / 2 + 1e-6
    spreads = codes.abs()
    back = packing.unpack_spreads(packing.pack_spreads(spreads))
    assert (back - spreads).abs().max() <= step / 2 + 1e-6
    assert torch.equal(packing.possible(codes), codes)
    assert Packing(type).possible(codes).min() == 0


def test_the_divergence_is_in_the_loss(
    cpu: Runtime, short_recipe: Recipe, task_of: TaskOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nats made dear, codes go where they cost none: to 0."""
    plan = replace(short_recipe.autoencoder, steps=40, rate=1e-2)
    options = CodecOptions("16x4x4", "tanh", 0.0, "raw", kind="variational")
    images, sizes = task_of(0, 1, each=6).images, []
    for weight in (0.0, 100.0):
        monkeypatch.setattr(codec_module, "NAT_WEIGHT", weight)
        codec = train_codec(images, options, plan, cpu, 0, warn=lambda note: None)
        sizes.append(codec.encode(images).abs().mean().item())
    assert sizes[1] < 0.3 * sizes[0]


# --- denoising ---


@pytest.mark.parametrize("code_type", ["float32", "coded"])
def test_a_denoising_encoder_is_given_noise_in_training_alone(
    cpu: Runtime,
    short_recipe: Recipe,
    task_of: TaskOf,
    monkeypatch: pytest.MonkeyPatch,
    code_type: str,
) -> None:
    images = task_of(0, 1, each=3).images
    weights = {}
    for kind, noise in (("plain", 0.25), ("denoising", 0.0), ("denoising", 0.25)):
        monkeypatch.setattr(codec_module, "NOISE", noise)
        options = CodecOptions("auto", "tanh", 0.0, "raw", code_type, kind=kind)
        codec = train_codec(
            images, options, short_recipe.autoencoder, cpu, 0, warn=lambda note: None
        )
        assert torch.equal(codec.encode(images), codec.encode(images))
        assert codec.signed == (code_type == "coded")
        weights[kind, noise] = torch.cat([w.flatten() for w in codec.net.parameters()])
    plain, silent, noisy = weights.values()
    assert torch.isfinite(noisy).all() and not torch.equal(noisy, silent)
    if code_type == "float32":  # coded, more noise is drawn, and none of what comes after is alike
        assert torch.equal(plain, silent)


# --- a share of real images kept ---


@pytest.mark.parametrize("name", ["eec", "eec-published", "eecs"])
def test_real_images_are_kept_on_top_and_shown_beside_the_decoded(
    make: Make, task_of: TaskOf, cpu: Runtime, tmp_path: Path, mixtures: Mixtures, name: str
) -> None:
    learner = make(name, keep_real=0.25)
    first, second = task_of(0, 1, each=8), task_of(2, each=4)
    learner.learn(first)
    assert learner.bytes_by_part()["images"] == 4 * 32 * 32
    assert [part.singles for part in learner.memory.kept] == [8, 8]
    back = load_learner(save_learner(learner, tmp_path / "a.eec"), cpu)
    real = {image.numpy().tobytes() for image in first.images}
    for some in (learner, back):
        some.learn(second)
        images, targets, weights = mixtures[-1]
        kept = [image.numpy().tobytes() in real for image in images]
        assert sum(kept) == 4 and targets[kept].tolist() == [0, 0, 1, 1]
        assert weights[kept].tolist() == [1.0] * 4
    assert learner_bytes(back) == learner_bytes(learner)
    assert learner.bytes_by_part()["images"] == 5 * 32 * 32 and not back.strict


def test_a_new_class_is_shown_real_as_often_as_it_will_be(
    make: Make, task_of: TaskOf, mixtures: Mixtures
) -> None:
    """Else a real image would be one of an old class to `D`."""
    learner = make(keep_real=0.5)
    learner.learn(task_of(0, each=4))
    new = task_of(1, each=4)
    learner.learn(new)
    images, targets, _ = mixtures[-1]
    real = {image.numpy().tobytes() for image in new.images}
    assert sum(image.numpy().tobytes() in real for image in images[targets == 1]) == 2


def test_which_images_are_kept_is_the_seeds(make: Make, task_of: TaskOf, cpu: Runtime) -> None:
    task, chosen = task_of(0, 1, each=10), []
    for seed in (0, 0, 1):
        learner = make_method("eecs", choose_options("eecs", keep_real=0.4), seed, cpu)
        learner.learn(task)
        chosen.append(learner.state()[0]["images.pixels"])
    assert torch.equal(chosen[0], chosen[1]) and not torch.equal(chosen[0], chosen[2])


def test_strict_is_who_keeps_no_real_image(make: Make) -> None:
    assert make().strict and not make(keep_real=0.1).strict
    assert "images" not in make().bytes_by_part()
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(UserError, match=r"keep_real is .*: use a share from 0 to 1"):
            EECOptions(keep_real=share)


def test_real_images_count_in_a_budget_of_bytes(make: Make, task_of: TaskOf) -> None:
    limit = 120_000
    learner = make(keep_real=0.5, memory=f"{limit}B")
    learner.learn(task_of(0, 1, each=20))
    kept = len(learner_bytes(learner)) - learner.bytes_by_part()["classifier"]
    assert 20 * 32 * 32 < kept <= limit
    before = learner_bytes(learner)
    with pytest.raises(UserError, match=r"memory 120000B is too small .*: use \d+kB or more"):
        learner.learn(task_of(2, 3, 4, each=60))
    assert learner_bytes(learner) == before


# --- the single autoencoder within a budget ---


def test_concepts_of_the_single_autoencoder_are_encoded_anew_and_integrated_again(
    make: Make, task_of: TaskOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, shown = make("eecs", memory="20"), list[Rehearsal]()
    original = EECMethod._encode_anew

    def spy(self: EECMethod, rehearsal: list[Rehearsal], report: Any) -> None:
        shown[:] = rehearsal
        original(self, rehearsal, report)

    monkeypatch.setattr(EECMethod, "_encode_anew", spy)
    for number, digits in enumerate(((0, 1), (2,), (0, 3), (4,)), start=1):
        learner.learn(task_of(*digits, each=12, skip=12 * number))
        assert sum(learner.memory.slots().values()) <= 20
        assert list(learner.memory.codecs) == [1]
        # What was decoded and drawn is what is kept: integration moves no mean and loses no image.
        for old in shown:
            codes = learner.memory.codecs[1].encode(_pictures(old)).flatten(1).double()
            (part,) = (
                p
                for p in learner.memory.kept
                if (p.task, p.target) == (old.part.task, old.part.target)
            )
            now = part.codes.flatten(1).double()
            counts, before = part.counts.double(), _counts(old).double()
            assert counts.sum() == before.sum() == 12
            assert torch.allclose(counts @ now, before @ codes, rtol=1e-3, atol=1e-3)
    assert any(r.drawn is not None for r in shown)
    assert any(len(part.spreads) for part in learner.memory.kept if part.task < 4)
