"""Where each data set comes from: its home, its licence, its files and their checksums.

Nothing but facts, so that listing the sets needs no torch. Checksums are SHA-256 of the files as
their authors publish them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eec.errors import UserError


@dataclass(frozen=True)
class Download:
    """One file to fetch; its addresses are tried in order."""

    name: str
    size: int  # bytes
    sha256: str
    urls: tuple[str, ...]
    archive: bool = False  # it lies in the data folder itself until it is unpacked


@dataclass(frozen=True)
class Source:
    home: str
    licence: str
    train: int | None = None
    test: int | None = None
    folder: str = ""  # under the data folder; "": it has none there
    files: tuple[str, ...] = ()  # files or folders that must be in it
    downloads: tuple[Download, ...] = ()
    sums: Mapping[str, str] = field(default_factory=dict)  # of the files as they lie in the folder
    by_hand: str = ""  # what to do where nothing can be downloaded

    def place(self, data_dir: Path) -> Path:
        return data_dir / self.folder

    def missing(self, data_dir: Path) -> list[str]:
        """The files that are not there yet."""
        return [name for name in self.files if find(self.place(data_dir), name) is None]

    def present(self, data_dir: Path) -> bool:
        return not self.missing(data_dir)


def find(folder: Path, name: str) -> Path | None:
    """A file of a set, or what stands in for it: a .gz file may have been unpacked."""
    candidates = [folder / name, folder / name.removesuffix(".gz")]
    return next((path for path in candidates if path.exists()), None)


def missing_files(name: str, folder: Path, files: Sequence[str]) -> UserError:
    """What is missing and how to get it, for the loader that noticed it."""
    source = SOURCES[name]
    absent = f"{name}: {', '.join(files)} not found in {folder}"
    elsewhere = "or name the folder above it with --data-dir or EEC_DATA"
    if not source.downloads:
        return UserError(f"{absent}: {source.by_hand}; {elsewhere}")
    them = "it" if len(files) == 1 else "them"
    return UserError(
        f"{absent}: `eec data get {name}` fetches {them}, or put {them} there from {source.home}, "
        f"{elsewhere}"
    )


def _idx_downloads(mirrors: Sequence[str], *facts: tuple[str, int, str]) -> tuple[Download, ...]:
    return tuple(
        Download(name, size, sha256, tuple(mirror + name for mirror in mirrors))
        for name, size, sha256 in facts
    )


_MNIST = _idx_downloads(
    (
        "http://yann.lecun.com/exdb/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    (
        "train-images-idx3-ubyte.gz",
        9_912_422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    (
        "train-labels-idx1-ubyte.gz",
        28_881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    (
        "t10k-images-idx3-ubyte.gz",
        1_648_877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    (
        "t10k-labels-idx1-ubyte.gz",
        4_542,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
)

_FASHION_MNIST = _idx_downloads(
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    (
        "train-images-idx3-ubyte.gz",
        26_421_880,
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    ),
    (
        "train-labels-idx1-ubyte.gz",
        29_515,
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    ),
    (
        "t10k-images-idx3-ubyte.gz",
        4_422_102,
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    ),
    (
        "t10k-labels-idx1-ubyte.gz",
        5_148,
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
)

_SVHN = (
    Download(
        "train_32x32.mat",
        182_040_794,
        "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
        ("http://ufldl.stanford.edu/housenumbers/train_32x32.mat",),
    ),
    Download(
        "test_32x32.mat",
        64_275_384,
        "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
        ("http://ufldl.stanford.edu/housenumbers/test_32x32.mat",),
    ),
)

_CIFAR10_SUMS = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}

_CIFAR100_SUMS = {
    "train.bin": "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
    "test.bin": "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
}

# The 50 of Tiny ImageNet's 200 classes that the set is made of, by their WordNet numbers, which
# are the folder names of ImageNet.
_WORDNET = """
    n01629819 n01945685 n01950731 n02056570 n02058221 n02094433 n02099712 n02124075 n02226429
    n02395406 n02415577 n02437312 n02486410 n02504458 n02509815 n02730930 n02802426 n02808440
    n02917067 n02950826 n02963159 n02977058 n02999410 n03089624 n03544143 n03584254 n03599486
    n03637318 n03706229 n03796401 n03891332 n03992509 n04008634 n04099969 n04251144 n04311004
    n04328186 n04356056 n04366367 n04417672 n04456115 n04465501 n04562935 n04597913 n07579787
    n07715103 n07768694 n07873807 n07875152 n09428293
"""
TINY_IMAGENET_50 = tuple(_WORDNET.split())

SOURCES: dict[str, Source] = {
    "digits": Source(
        home="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
        licence="CC BY 4.0",
        train=1_438,
        test=359,
        by_hand="it comes with scikit-learn",
    ),
    "mnist": Source(
        home="http://yann.lecun.com/exdb/mnist/",
        licence="CC BY-SA 3.0",
        train=60_000,
        test=10_000,
        folder="mnist",
        files=tuple(download.name for download in _MNIST),
        downloads=_MNIST,
        sums={download.name: download.sha256 for download in _MNIST},
    ),
    "fashion-mnist": Source(
        home="https://github.com/zalandoresearch/fashion-mnist",
        licence="MIT",
        train=60_000,
        test=10_000,
        folder="fashion-mnist",
        files=tuple(download.name for download in _FASHION_MNIST),
        downloads=_FASHION_MNIST,
        sums={download.name: download.sha256 for download in _FASHION_MNIST},
    ),
    "svhn": Source(
        home="http://ufldl.stanford.edu/housenumbers/",
        licence="non-commercial use only",
        train=73_257,
        test=26_032,
        folder="svhn",
        files=tuple(download.name for download in _SVHN),
        downloads=_SVHN,
        sums={download.name: download.sha256 for download in _SVHN},
    ),
    "cifar10": Source(
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
        licence="none stated; cite the report",
        train=50_000,
        test=10_000,
        folder="cifar-10-batches-bin",
        files=tuple(_CIFAR10_SUMS),
        downloads=(
            Download(
                "cifar-10-binary.tar.gz",
                170_052_171,
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
                archive=True,
            ),
        ),
        sums=_CIFAR10_SUMS,
    ),
    "cifar100": Source(
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
        licence="none stated; cite the report",
        train=50_000,
        test=10_000,
        folder="cifar-100-binary",
        files=tuple(_CIFAR100_SUMS),
        downloads=(
            Download(
                "cifar-100-binary.tar.gz",
                168_513_733,
                "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
                archive=True,
            ),
        ),
        sums=_CIFAR100_SUMS,
    ),
    "imagenet-50": Source(
        home="https://www.image-net.org/",
        licence="non-commercial research, terms of access",
        folder="imagenet",
        files=("train", "val"),
        by_hand="register at https://www.image-net.org/, get ILSVRC2012_img_train.tar and "
        "ILSVRC2012_img_val.tar, and unpack them into class folders such as "
        "imagenet/train/n01440764 and imagenet/val/n01440764 in the data folder",
    ),
    "tiny-imagenet-50": Source(
        home="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        licence="non-commercial research, terms of access",
        train=25_000,
        test=2_500,
        folder="tiny-imagenet-50",
        files=("train", "val"),
        downloads=(
            Download(
                "tiny-imagenet-200.zip",
                248_100_043,
                "6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
                ("http://cs231n.stanford.edu/tiny-imagenet-200.zip",),
                archive=True,
            ),
        ),
    ),
    "folder": Source(
        home="your own pictures",
        licence="yours",
        by_hand="give the folder itself, as in `eec run folder:PATH`",
    ),
}
