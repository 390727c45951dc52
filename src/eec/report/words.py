"""How numbers and labels are put into words, the same in terminal, figures and page."""

from collections.abc import Mapping, Sequence
from typing import Any

from eec.evaluation.measures import average_incremental_accuracy
from eec.report.folder import Measures, RunRecord

NOTHING = "–"


def percent(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def points(value: float | None) -> str:
    """A signed difference of two percentages."""
    return NOTHING if value is None else f"{value:+.1f}".replace("-", "−")


def human_bytes(count: float | None) -> str:
    """Decimal units, as the paper and disk makers use them."""
    if count is None:
        return NOTHING
    if count < 1000:
        return f"{count:.0f} B"
    unit = "B"
    for larger in ("kB", "MB", "GB"):
        if count < 999.5:
            break
        count, unit = count / 1000, larger
    return f"{count:.3g} {unit}"


def human_seconds(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def short_label(label: object, width: int = 18) -> str:
    """A label on one line, cut where it would run into its neighbours."""
    text = " ".join(str(label).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def list_labels(labels: Sequence[object] | None, most: int = 4) -> str:
    if not labels:
        return NOTHING
    shown = [short_label(label) for label in labels[:most]]
    if len(labels) > most:
        shown.append(f"… ({len(labels)})")
    return ", ".join(shown)


def method_name(config: Mapping[str, Any]) -> str:
    """The method of a run; with the share of real images, if it keeps some beside codes."""
    name, share = config.get("method", "unknown method"), real_share(config)
    return f"{name} (not strict: {share:.3g} real)" if share else str(name)


def real_share(config: Mapping[str, Any]) -> float:
    """Of the real images that a run of EEC keeps on top of its episodes."""
    return float((config.get("options") or {}).get("keep_real") or 0)


def run_name(record: RunRecord) -> str:
    seed = "" if record.seed is None else f", seed {record.seed}"
    return f"{method_name(record.config)} on {record.dataset}{seed}"


def images_used(record: RunRecord) -> str:
    per_class = record.stream.get("per_class")
    return "all training images" if per_class is None else f"{per_class:,} images a class"


def increments_used(record: RunRecord) -> str:
    count = record.stream.get("classes_per_increment")
    if count is None:
        return f"{len(record.measures)} increments"
    if isinstance(count, int):
        return "1 class an increment" if count == 1 else f"{count} classes an increment"
    return "increments of " + ", ".join(str(n) for n in count) + " classes"


def stream_words(record: RunRecord) -> str:
    words = [images_used(record), increments_used(record)]
    if record.judged_on != "test":
        words.append(f"judged on {record.judged_on} images")
    return " · ".join(words)


def total(parts: Mapping[str, float | None]) -> float:
    return sum(value for value in parts.values() if value is not None)


def memory_bytes(measures: Measures) -> float:
    """All that is kept beside the classifier."""
    return total({part: n for part, n in measures["bytes"].items() if part != "classifier"})


def classifier_bytes(measures: Measures) -> float | None:
    value = measures["bytes"].get("classifier")
    return None if value is None else float(value)


def run_seconds(record: RunRecord) -> float:
    return sum(total(measures["seconds"]) for measures in record.measures)


def final_average(record: RunRecord) -> float:
    written = record.last.get("average_incremental_accuracy")
    if written is not None:
        return float(written)
    return average_incremental_accuracy([m["accuracy"] for m in record.measures])


def mean_gap(measures: Measures) -> float | None:
    """Accuracy on reconstructed minus accuracy on real test images, mean over old classes."""
    new = measures.get("new_classes") or []
    gaps = [
        entry["reconstructed"] - entry["real"]
        for entry in measures.get("gap") or []
        if entry.get("class") not in new
        and entry.get("real") is not None
        and entry.get("reconstructed") is not None
    ]
    return sum(gaps) / len(gaps) if gaps else None


def reference_names(record: RunRecord, others: Sequence[RunRecord]) -> list[str]:
    """What each run beside this one is called in a figure: no two alike."""
    names = []
    for run in others:
        name = f"{run.method}, {images_used(run)}"
        name += "" if run.seed is None else f", seed {run.seed}"
        names.append(name if run.dataset == record.dataset else f"{name}, on {run.dataset}")
    return [
        name if names.count(name) == 1 else f"{name}, {run.path.name}"
        for name, run in zip(names, others, strict=True)
    ]
