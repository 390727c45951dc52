"""The precision of a CPU that claims bf16 is measured, once."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from eec.errors import UserError
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

    monkeypatch.setattr(calibration, "measure_apart", told)
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
        monkeypatch.setattr(calibration, "measure_apart", lambda: FASTER)
        calibrate.__wrapped__()
        return SLOWER

    monkeypatch.setattr(calibration, "measure_apart", slow)
    assert choose_runtime("cpu").precision == "bf16"


def test_float32_that_is_asked_for_is_not_measured(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answer(monkeypatch, FASTER)
    assert str(choose_runtime("cpu", "float32")) == "cpu, float32 (asked for)"
    assert not asked and not kept.exists()


def test_bf16_that_is_asked_for_is_taken_where_it_works(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, SLOWER)
    assert str(choose_runtime("cpu", "bf16")) == "cpu, bf16 (asked for)"


DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.mark.parametrize("child", ["raise SystemExit(1)", "print('not JSON')", None])
def test_what_could_not_be_measured_is_tried_again_by_the_next_process(
    kept: Path, monkeypatch: pytest.MonkeyPatch, child: str | None
) -> None:
    def instead(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        if child is None:
            raise subprocess.TimeoutExpired(command, 60)
        return run([sys.executable, "-c", child], **options)

    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", instead)
    chosen = choose_runtime("cpu")
    assert chosen.precision == "float32" and "could not be measured" in str(chosen)
    assert not kept.exists()
    assert choose_runtime("cpu", "bf16").precision == "bf16"  # nothing is known against it


def test_a_process_that_bf16_ends_leaves_float32(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def instead(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        return run([sys.executable, "-c", DIES], **options)

    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", instead)
    chosen = choose_runtime("cpu")
    assert chosen.precision == "float32" and "ended its trial" in str(chosen)
    calibrate.cache_clear()
    monkeypatch.undo()  # what is kept says so, too
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept.parents[1]))
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    with pytest.raises(UserError, match=r"bf16 does not work here.*--precision float32"):
        choose_runtime("cpu", "bf16")


def test_what_a_process_of_its_own_measured_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def echo(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        # As it is called, with the step that bf16 may end put aside.
        fake = f"import {calibration.__name__} as c; c._step = lambda *_, bf16: 1 + bf16\n"
        return run([*command[:-1], fake + command[-1]], **options)

    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", echo)
    assert calibration.measure_apart() == Calibration(1, 2)


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
    # One step, and no bf16: emulated it takes long, and where it is only claimed it ends all.
    monkeypatch.setattr(calibration, "HOPELESS", 0)
    monkeypatch.setattr(calibration, "BATCH", 2)
    step = calibration._step
    monkeypatch.setattr(calibration, "_step", lambda n, i, bf16: step(n, i, bf16=False))
    before = torch.get_rng_state()
    seconds = measure()
    assert seconds.float32 > 0 and seconds.bf16 > 0
    assert torch.equal(torch.get_rng_state(), before)
