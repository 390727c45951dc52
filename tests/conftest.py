"""Where tests find real data."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PREPARE = Path(__file__).resolve().parents[2] / "shared" / "data" / "prepare.py"


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with real data sets: EEC_DATA, or one with MNIST prepared for this session."""
    if chosen := os.environ.get("EEC_DATA"):
        return Path(chosen)
    if not PREPARE.exists():
        pytest.skip("no real data: set EEC_DATA to a data folder")
    folder = tmp_path_factory.mktemp("data")
    subprocess.run([sys.executable, PREPARE, folder, "mnist"], check=True, capture_output=True)
    return folder
