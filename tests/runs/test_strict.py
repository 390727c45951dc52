"""No real image is left behind: every byte that a run has saved is searched for those it saw."""

from pathlib import Path

import numpy as np
import pytest

from eec.data.stream import Stream
from eec.methods.registry import find_method, make_method
from eec.report.folder import read_run
from eec.report.groups import group_runs
from eec.report.page import write_page
from eec.report.table import headline
from eec.runs.folder import RunFolder
from eec.runs.run import prepare, run
from eec.runs.samples import read_samples
from eec.training.journal import Journal
from eec.training.runtime import Runtime
from small_runs import CODE_PATHS, Onlooker, config, keeps_codes

pytestmark = pytest.mark.usefixtures("short_recipe")


def forms(image: np.ndarray) -> list[bytes]:
    """An image as it may lie in a file: bytes or numbers, by channel or by pixel."""
    scaled = image.astype(np.float32) / 127.5 - 1
    return [
        form.tobytes()
        for layout in ((0, 1, 2), (1, 2, 0))
        for form in (
            image.transpose(layout),
            scaled.transpose(layout),
            scaled.astype(np.float16).transpose(layout),
            (image.astype(np.float32) / 255).transpose(layout),
        )
    ]


class Searcher(Onlooker):
    """After each increment, counts the files that hold a training image of an old class."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.found = folder, set[str]()

    def begin(self, stream: Stream, nets: dict[str, object]) -> None:
        self.stream = stream

    def measured(self, line: dict[str, object]) -> None:
        done = self.stream.increments[: int(str(line["increment"]))]
        images = [image for i in done for image in i.task.images.numpy()]
        for file in (path for path in self.folder.rglob("*") if path.is_file()):
            content = file.read_bytes()
            if any(form in content for image in images for form in forms(image)):
                self.found.add(file.name)


def search(method: str, path: Path, **changes: object) -> Searcher:
    asked = config(method, **changes)
    folder, searcher = RunFolder.make(path, overwrite=False), Searcher(path)
    try:
        run(asked, *prepare(asked), folder, searcher, Journal(every=0))
    finally:
        folder.close()
    return searcher


@pytest.mark.parametrize("method", CODE_PATHS)
def test_a_strict_method_leaves_no_training_image_in_the_folder(
    method: str, tmp_path: Path, cpu: Runtime
) -> None:
    strict = make_method(method, find_method(method).options, 0, cpu).strict
    changes: dict[str, object] = {}
    if keeps_codes(method):
        changes["options"] = {"code": "16x4x4", "memory": "30"}
    # The search does find what is there: joint training keeps its images, and says so. Those who
    # compress them say so, too, but the search is for pixels.
    pixels = not strict and method not in ("replay-webp", "replay-jpeg")
    assert search(method, tmp_path / "run", **changes).found == (
        {"learner.eec"} if pixels else set()
    )


def test_a_run_that_keeps_some_real_images_says_so_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "run"
    found = search("eecs", path, options={"code": "16x4x4", "keep_real": 0.25}).found
    assert found == {"learner.eec"}  # in the learner, and nowhere else
    record = read_run(path)
    assert record.config["strict"] is False
    assert all(m["strict"] is False and m["bytes"]["images"] > 0 for m in record.measures)
    said = "eecs (not strict: 0.25 real)"
    assert headline(record).startswith(f"{said} on digits, seed 0: A_10")
    assert [group.name for group in group_runs([record])] == [said]
    page = write_page([record], tmp_path / "page.html").read_text(encoding="utf-8")
    assert said in page and "Not strict: real images of old classes are kept." in page


def test_pictures_show_test_images_or_no_originals_at_all(tmp_path: Path) -> None:
    for originals in (True, False):
        path = tmp_path / str(originals)
        searcher = search("eec", path, options={"code": "16x4x4"}, originals=originals)
        trained = {
            i.tobytes() for inc in searcher.stream.increments for i in inc.task.images.numpy()
        }
        judged = {
            i.tobytes() for inc in searcher.stream.increments for i in inc.test.images.numpy()
        }
        for sample in read_samples(path / "samples.safetensors"):
            assert ("test image" in sample.rows) == originals
            shown = {image.tobytes() for row in sample.rows.values() for image in row.numpy()}
            assert not shown & trained
            assert bool(shown & judged) == originals
