"""The precision of a CPU that claims bf16 is measured, once."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from eec.training import calibration
from eec.training.calibration import Calibration, calibrate, measure
from eec.training.runtime import Runtime, choose_runtime

FASTER, SLOWER = Calibration(float32=0.02, bf16=0.01), Calibration(float32=0.02, bf16=0.019)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Where the answer is kept; a machine that claims bf16, and a process that has not asked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    calibrate.cache_clear()
    yield tmp_path / "eec" / "calibration.json"
    calibrate.cache_clear()


def answer(monkeypatch: pytest.MonkeyPatch, measured: Calibration) -> list[Calibration]:
    """Measure this from now on; tells how often it was asked."""
    asked: list[Calibration] = []

    def told() -> Calibration:
        asked.append(measured)
        return measured

    monkeypatch.setattr(calibration, "measure", told)
    return asked


@pytest.mark.parametrize(("measured", "precision"), [(FASTER, "bf16"), (SLOWER, "float32")])
def test_bf16_is_taken_where_it_is_clearly_faster(
    kept: Path, monkeypatch: pytest.MonkeyPatch, measured: Calibration, precision: str
) -> None:
    answer(monkeypatch, measured)
    chosen = choose_runtime("cpu")
    assert chosen == Runtime(torch.device("cpu"), precision)
    share = f"{measured.bf16 / measured.float32:.2f}"
    assert str(chosen) == (
        f"cpu, {precision} (measured: a step takes {share} of its time with bf16)"
    )


def test_what_was_measured_is_kept_and_not_measured_again(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answer(monkeypatch, FASTER)
    choose_runtime("cpu")
    calibrate.cache_clear()  # as another process would
    assert choose_runtime("cpu").precision == "bf16" and len(asked) == 1
    (key,) = json.loads(kept.read_text())
    assert torch.__version__ in key


@pytest.mark.parametrize("content", ["", "[]", '{"some cpu": {}}', '{"some cpu": 1}'])
def test_a_damaged_file_is_measured_again(
    kept: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    kept.parent.mkdir()
    kept.write_text(content)
    answer(monkeypatch, FASTER)
    assert choose_runtime("cpu").precision == "bf16"
    assert len(json.loads(kept.read_text())) == 1


def test_where_nothing_can_be_kept_a_process_measures_once(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.parent.write_text("no folder")
    asked = answer(monkeypatch, FASTER)
    assert choose_runtime("cpu") == choose_runtime("cpu") and len(asked) == 1


def test_the_first_answer_kept_is_that_of_all_processes(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow() -> Calibration:
        """While this one measures, another process is done."""
        monkeypatch.setattr(calibration, "measure", lambda: FASTER)
        calibrate.__wrapped__()
        return SLOWER

    monkeypatch.setattr(calibration, "measure", slow)
    assert choose_runtime("cpu").precision == "bf16"


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_what_is_asked_for_is_not_measured(
    kept: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    asked = answer(monkeypatch, FASTER)
    assert str(choose_runtime("cpu", precision)) == f"cpu, {precision} (asked for)"
    assert not asked and not kept.exists()


def test_a_cpu_that_claims_nothing_is_not_measured(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    asked = answer(monkeypatch, FASTER)
    assert choose_runtime("cpu").precision == "float32" and not asked and not kept.exists()


def test_a_hopeless_first_step_ends_the_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[bool] = []

    def step(net: object, images: object, *, bf16: bool) -> float:
        steps.append(bf16)
        return 1.0 if bf16 else 0.01

    monkeypatch.setattr(calibration, "_step", step)
    assert measure().precision == "float32" and steps.count(True) == 1


def test_measuring_leaves_the_global_generator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "HOPELESS", 0)  # one step: emulated, it takes long
    monkeypatch.setattr(calibration, "BATCH", 2)
    before = torch.get_rng_state()
    seconds = measure()
    assert seconds.float32 > 0 and seconds.bf16 > 0
    assert torch.equal(torch.get_rng_state(), before)
