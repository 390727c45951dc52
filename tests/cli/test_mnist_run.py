"""The command on real MNIST, with nothing shortened: runs where the data are present."""

import json
import subprocess
import sys
from pathlib import Path


def test_eec_learns_mnist(data_dir: Path, tmp_path: Path) -> None:
    command = [
        sys.executable, "-c", "from eec.cli.main import main; main()",
        "run", "mnist", "--data-dir", data_dir, "--per-class", "60",
        "--classes-per-increment", "2,3,5", "--validation", "0.02", "--out", tmp_path / "run",
    ]  # fmt: skip
    subprocess.run([str(part) for part in command], check=True, capture_output=True, timeout=280)
    lines = (tmp_path / "run" / "measures.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    assert last["classes_seen"] == 10
    # Far from what more images give, far from the half that a forgetting learner would keep.
    assert last["accuracy"] > 85
    assert min(last["accuracy_by_class"]) > 60
    share = last["newest_share"]
    assert abs(share["called"] - share["true"]) < 10
