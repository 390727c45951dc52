"""Every number that the paper prints about accuracy and memory, with its place in the paper.

Values stand as printed, slips included: JT's A_30 on ImageNet-50 is 57.35 in Table 1 and 57.38 in
Table 7. Table 1's row of differences is left out, it follows from the others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

AVERAGE = "average incremental accuracy"
MEGABYTES = "memory (MB)"
GIGABYTES = "memory (GB)"


@dataclass(frozen=True)
class Published:
    """One printed number. Accuracies are in percent; `k` is None where no class count applies."""

    table: str
    row: str
    column: str
    dataset: str
    k: int | None
    value: float
    note: str = ""


@dataclass(frozen=True)
class Setting:
    """How the paper trained on a data set, for saying what differs from a run of ours."""

    name: str
    training_images: int
    classes_per_increment: int
    runs: int = 10


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        "mnist": Setting("MNIST", 50_000, 1),
        "svhn": Setting("SVHN", 73_257, 1),
        "cifar10": Setting("CIFAR-10", 50_000, 1),
        "imagenet50": Setting("ImageNet-50", 65_000, 10),
        "cifar100": Setting("CIFAR-100", 50_000, 10),
    }
)

METHOD_ROWS: Mapping[str, str] = MappingProxyType(
    {"eec": "EEC", "eec-published": "EEC", "eecs": "EECS", "joint": "JT"}
)

FROM_DGM = "taken over from the table of the earlier work on DGM"
GENERATED = "measures something else: a classifier trained on real data scores generated images"
FIVE_TASKS = "about 10 real exemplars a class and five tasks of two classes"
REAL_IMAGES = "keeps real images"
PRETRAINED = "works on the features of a net trained on ImageNet"
OTHER_PROTOCOL = "keeps real images; probably 50 classes first, then five times 10"
SMALL_BUDGET = "memory budget K=5000"
LARGE_IMAGES = "images of 224x224 instead of 32x32"
KEEPS_SHARE = "a share r of real images is kept: not strict"

TABLE_1_COLUMNS = (
    ("mnist", 5),
    ("mnist", 10),
    ("svhn", 5),
    ("svhn", 10),
    ("cifar10", 5),
    ("cifar10", 10),
    ("imagenet50", 30),
    ("imagenet50", 50),
)
TABLE_1: tuple[tuple[str, tuple[float | None, ...]], ...] = (
    ("JT", (99.87, 99.24, 95.56, 94.14, 85.50, 77.82, 57.35, 49.88)),
    ("iCaRL-S", (84.61, 55.80, None, None, 57.30, 43.69, 29.38, 28.98)),
    ("RWalk-S", (None, 82.50, None, None, None, None, None, None)),
    ("EEIL-S", (None, None, None, None, None, None, 27.87, 11.80)),
    ("EWC-M", (70.62, 77.03, 39.84, 33.02, None, None, None, None)),
    ("DGR", (90.39, 85.40, 61.29, 47.28, None, None, None, None)),
    ("MeRGAN", (99.15, 96.83, 80.90, 66.78, None, None, None, None)),
    ("DGMw", (98.75, 96.46, 83.93, 74.38, 64.94, 56.21, 32.14, 17.82)),
    ("EEC", (99.20, 97.83, 95.29, 89.59, 85.12, 66.91, 45.39, 35.24)),
    ("EECS", (98.00, 96.26, 94.30, 81.12, 82.20, 61.91, 41.13, 30.89)),
)

# row, A_30, A_50, note
TABLE_2 = (
    ("EEC-noNST", 39.51, 28.73, "no content loss"),
    ("EEC-CGAN", 39.94, 29.12, "a conditional GAN in place of the autoencoder"),
    ("EEC-VAE", 39.14, 27.63, "a variational autoencoder"),
    ("EEC-DNA", 39.42, 28.36, "a denoising autoencoder"),
    ("EEC-noDecay", 41.62, 30.47, "all sample weights 1"),
    ("EEC", 45.39, 35.24, ""),
    ("EEC-noPseudo", 37.31, 25.24, "memory budget K=5000, episodes dropped instead of merged"),
    ("EEC (K=5000)", 42.29, 31.51, SMALL_BUDGET),
)

# row, average incremental accuracy, note
TABLE_6 = (
    ("iCaRL", 59.5, REAL_IMAGES),
    ("EEIL", 64.0, REAL_IMAGES),
    ("BiC", 64.3, REAL_IMAGES),
    ("LUCIR", 63.4, OTHER_PROTOCOL),
    ("EEC", 65.6, ""),
    ("FearNet", 66.2, PRETRAINED),
    ("CAN", 67.1, PRETRAINED),
    ("EEC-P", 76.7, PRETRAINED),
)

# row, A_30, A_50, megabytes, note
TABLE_7 = (
    ("JT", 57.38, 49.88, 315.0, "Table 1 prints 57.35 for A_30"),
    ("EEC (r=0.25)", 54.85, 45.92, 161.48, KEEPS_SHARE),
    ("EEC (r=0.2)", 54.04, 45.14, 151.496, KEEPS_SHARE),
    ("EEC (r=0.15)", 53.38, 44.26, 141.412, KEEPS_SHARE),
    ("EEC (r=0.1)", 51.67, 42.94, 131.53, KEEPS_SHARE),
    ("EEC (r=0)", 45.39, 35.24, 111.56, "the same as EEC"),
)

# row, column, value, note
MEMORY = (
    ("EEC", MEGABYTES, 111.56, "everything"),
    ("EEC", MEGABYTES, 66.56, "encoded episodes"),
    ("EEC", MEGABYTES, 44.0, "classifier (ResNet-18)"),
    ("EEC", MEGABYTES, 1.0, "autoencoders"),
    ("EEC (K=5000)", MEGABYTES, 50.12, "everything, memory budget K=5000"),
    ("EEC (K=5000)", MEGABYTES, 5.12, "encoded episodes, memory budget K=5000"),
    ("DGMw", MEGABYTES, 228.0, "generator with its masks"),
    ("real images", MEGABYTES, 315.0, "32x32"),
)
LARGE_MEMORY = (
    ("real images", GIGABYTES, 39.13, LARGE_IMAGES),
    ("EEC", GIGABYTES, 13.04, LARGE_IMAGES),
)
IN_MEMORY_TEXT = "text, memory usage analysis"
IN_RESOLUTION_TEXT = "text, higher resolution images"


def _table_1_note(row: str, dataset: str) -> str:
    if row in {"EWC-M", "DGR", "MeRGAN"} and dataset in {"mnist", "svhn"}:
        return GENERATED
    if row in {"iCaRL-S", "RWalk-S"} and dataset == "mnist":
        return FIVE_TASKS
    if row in {"JT", "DGMw"}:
        return FROM_DGM
    return REAL_IMAGES if row.endswith("-S") else ""


def _numbers() -> Iterator[Published]:
    for row, values in TABLE_1:
        for (dataset, k), value in zip(TABLE_1_COLUMNS, values, strict=True):
            if value is not None:
                note = _table_1_note(row, dataset)
                yield Published("Table 1", row, f"A_{k}", dataset, k, value, note)
    for row, a30, a50, note in TABLE_2:
        yield Published("Table 2", row, "A_30", "imagenet50", 30, a30, note)
        yield Published("Table 2", row, "A_50", "imagenet50", 50, a50, note)
    for row, average, note in TABLE_6:
        yield Published("Table 6", row, AVERAGE, "cifar100", 100, average, note)
    for row, a30, a50, megabytes, note in TABLE_7:
        yield Published("Table 7", row, "A_30", "imagenet50", 30, a30, note)
        yield Published("Table 7", row, "A_50", "imagenet50", 50, a50, note)
        yield Published("Table 7", row, MEGABYTES, "imagenet50", None, megabytes, note)
    for row, column, value, note in MEMORY:
        yield Published(IN_MEMORY_TEXT, row, column, "imagenet50", None, value, note)
    for k, value in ((30, 70.75), (50, 56.89)):
        table = IN_RESOLUTION_TEXT
        yield Published(table, "EEC", f"A_{k}", "imagenet50", k, value, LARGE_IMAGES)
    for row, column, value, note in LARGE_MEMORY:
        yield Published(IN_RESOLUTION_TEXT, row, column, "imagenet50", None, value, note)


NUMBERS: tuple[Published, ...] = tuple(_numbers())


def dataset_key(dataset: str) -> str:
    """The name under which a data set stands here: `CIFAR-10` and `cifar_10` are `cifar10`."""
    return "".join(letter for letter in dataset.lower() if letter.isalnum())


def published(dataset: str, row: str | None = None) -> list[Published]:
    """All printed numbers on a data set, or those of one row; none if the paper has none."""
    key = dataset_key(dataset)
    return [n for n in NUMBERS if n.dataset == key and (row is None or n.row == row)]


def published_accuracy(dataset: str, row: str) -> dict[int, Published]:
    """The row's A_k in Table 1, by k: what an experiment with unlimited memory compares with."""
    rows = published(dataset, row)
    return {n.k: n for n in rows if n.table == "Table 1" and n.k is not None}


def published_average(dataset: str, row: str) -> Published | None:
    """The row's average incremental accuracy (Table 6), printed for CIFAR-100 alone."""
    return next((n for n in published(dataset, row) if n.column == AVERAGE), None)


def row_of_method(method: str) -> str | None:
    """The paper's row for a method of ours, or None where the paper has none."""
    return METHOD_ROWS.get(method)


def setting(dataset: str) -> Setting | None:
    """How the paper trained on a data set, or None where it did not."""
    return SETTINGS.get(dataset_key(dataset))
