"""What the paper printed beside a run of ours, and what differs between the two."""

from eec.paper.published import (
    Published,
    published_accuracy,
    published_average,
    row_of_method,
    setting,
)
from eec.report.folder import RunRecord
from eec.report.words import images_used, increments_used, real_share


def _row(record: RunRecord) -> str | None:
    """The paper's row for this run; one that keeps a share of real images has its own."""
    row, share = row_of_method(record.method), real_share(record.config)
    return f"{row} (r={share:g})" if row and share else row


def paper_accuracy(record: RunRecord) -> Published | None:
    """The paper's A_k for this method at the run's last k, where it printed one."""
    row = _row(record)
    if row is None:
        return None
    return published_accuracy(record.dataset, row).get(record.last["classes_seen"])


def paper_average(record: RunRecord) -> Published | None:
    """The paper's average incremental accuracy, if the run went as far as the paper did."""
    row = _row(record)
    found = published_average(record.dataset, row) if row else None
    return found if found and found.k == record.last["classes_seen"] else None


def paper_points(record: RunRecord) -> dict[str, dict[int, Published]]:
    """The points to draw beside a run: the method's own row (EEC if it has none) and JT."""
    rows = dict.fromkeys([row_of_method(record.method) or "EEC", "JT"])
    reached = record.last["classes_seen"]
    points = {
        row: {k: n for k, n in published_accuracy(record.dataset, row).items() if k <= reached}
        for row in rows
    }
    return {row: found for row, found in points.items() if found}


def paper_words(dataset: str) -> str:
    """How the paper's number came about, in a few words."""
    how = setting(dataset)
    return f"{how.training_images:,} images, mean of {how.runs} runs" if how else ""


def differences(record: RunRecord) -> list[str]:
    """What a reader must know before setting our number beside the paper's."""
    how = setting(record.dataset)
    if how is None:
        return []
    trained = f"The paper trained on {how.training_images:,} {how.name} images"
    found = [f"{trained} and averaged {how.runs} runs; a run here is on {images_used(record)}."]
    count = record.stream.get("classes_per_increment")
    if count is not None and count != how.classes_per_increment:
        found.append(
            f"The paper's increments brought {how.classes_per_increment} "
            f"{'class' if how.classes_per_increment == 1 else 'classes'} each; "
            f"here: {increments_used(record)}."
        )
    if record.judged_on != "test":
        found.append(f"The paper judged on test images, this run on {record.judged_on} images.")
    if record.method == "eec":
        found.append(
            "The method eec is our matched form; the paper's EEC, unchanged, is eec-published."
        )
    return found
