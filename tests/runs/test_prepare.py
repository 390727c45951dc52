"""What is refused, and what is settled, before a run begins."""

from typing import Any

import pytest

from eec.errors import BudgetTooSmall
from eec.runs.run import prepare
from eec.training.recipes import Recipe
from small_runs import config

FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "replay": ("replay", {}),
    "replay-webp": ("replay-webp", {}),
    "replay-jpeg": ("replay-jpeg", {}),
    "icarl": ("icarl", {}),
    "eec": ("eec", {}),
    "eec, real images on top": ("eec", {"keep_real": 0.5}),
    "eec, plain codes": ("eec", {"code_type": "uint8"}),
    "eec, a codec a task": ("eec", {"codec": "warm"}),
    "eec-published": ("eec-published", {}),
    "eecs": ("eecs", {}),
}


def test_a_turn_that_was_asked_for_is_made_by_any_recipe() -> None:
    for asked, made in ((None, 0), (5, 5)):
        _, learner = prepare(config("finetune", turn=asked, options={"recipe": "paper"}))
        assert learner.options.turn == made


@pytest.mark.parametrize("form", FORMS)
def test_the_budget_that_is_named_early_does_for_the_whole_stream(
    form: str, short_recipe: Recipe
) -> None:
    method, options = FORMS[form]

    def within(memory: str) -> Any:
        chosen = {"options": {**options, "memory": memory}, "classes_per_increment": 1}
        return prepare(config(method, per_class=6, **chosen))

    with pytest.raises(BudgetTooSmall, match="10 classes: use") as refused:
        within("1kB")
    named = str(refused.value).split("use ")[1].split(" or")[0]
    stream, learner = within(named)
    for increment in stream.increments:
        learner.learn(increment.task)
    assert len(learner.classes) == 10
    kept = learner.bytes_by_part()
    # It is named with as little to spare as can be known before anything is trained.
    assert sum(kept.values()) - kept["classifier"] > 0.2 * 1000 * int(named.removesuffix("kB"))
