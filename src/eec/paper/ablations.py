"""EEC without one of its parts at a time: the lines of Table 2, and the same switches on our form.
Free of torch."""

from __future__ import annotations

from dataclasses import dataclass

from eec.paper.protocol import Line


@dataclass(frozen=True)
class Ablated:
    """A form of EEC without one part at a time, and which line is expected to be ahead of which."""

    lines: tuple[Line, ...]
    orders: tuple[tuple[str, str], ...]


def published_form(memory: str) -> Ablated:
    budget = {"memory": memory}
    lines = (
        Line("eec-published", "eec-published", row="EEC"),
        Line("eec-nonst", "eec-nonst", row="EEC-noNST"),
        Line("eec-cgan", "eec-cgan", row="EEC-CGAN"),
        Line("eec-vae", "eec-vae", row="EEC-VAE"),
        Line("eec-dna", "eec-dna", row="EEC-DNA"),
        Line("eec-nodecay", "eec-nodecay", row="EEC-noDecay"),
        Line(f"eec-published, K={memory}", "eec-published", budget, "EEC (K=5000)"),
        Line(f"eec-nopseudo, K={memory}", "eec-nopseudo", budget, "EEC-noPseudo"),
    )
    orders = (
        *((lines[0].name, line.name) for line in lines[1:7]),
        (lines[6].name, lines[7].name),
    )
    return Ablated(lines, orders)


def our_form(memory: str) -> Ablated:
    budget = {"memory": memory}
    switched = (
        Line("eec", "eec"),
        # A frozen codec, trained before there is a classifier, has no content loss to lose.
        Line("eec, a codec a task", "eec", {"codec": "warm"}),
        Line("eec, a codec a task, no content loss", "eec", {"codec": "warm", "content": 0.0}),
        Line("eec, with decay", "eec", {"decay": True}),
        Line(f"eec, K={memory}", "eec", budget),
        Line(f"eec, K={memory}, drops", "eec", {**budget, "over_budget": "drop"}),
        Line(f"eec, K={memory}, not distilled", "eec", {**budget, "distil": 0.0}),
    )
    # Where the published form forgets all there is, its parts cannot be told apart: the same
    # autoencoders, but new images shown as old ones are.
    plain = {"code_type": "uint8"}
    unlearned = {**plain, "content": 0.0}  # as the paper has these two
    matched = (
        Line("eec, plain codes", "eec", plain),
        Line("eec, plain codes, variational", "eec", {**unlearned, "autoencoder": "variational"}),
        Line("eec, plain codes, denoising", "eec", {**unlearned, "autoencoder": "denoising"}),
        Line("eec-cgan, new images generated", "eec-cgan", {"new_images": "decoded"}),
    )
    orders = (
        (switched[1].name, switched[2].name),
        ("eec, with decay", "eec"),
        *((switched[4].name, line.name) for line in switched[5:]),
        *((matched[0].name, line.name) for line in matched[1:]),
    )
    return Ablated(switched + matched, orders)
