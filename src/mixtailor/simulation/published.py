"""Published collections of data files: where they are, what they must contain, where to get them."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import tarfile
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from mixtailor._files import atomic_write
from mixtailor.simulation.download import fetch
from mixtailor.simulation.files import DataError

if TYPE_CHECKING:
    from mixtailor.simulation.download import Progress

__all__ = ["CIFAR10", "MNIST", "Archive", "Collection", "PublishedFile", "data_folder"]


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Where data files are looked for and downloaded to.

    The argument, else the environment variable ``MIXTAILOR_DATA``, else a folder of the user's cache.

    Examples
    --------
    >>> data_folder("somewhere").name
    'somewhere'
    """
    if folder is not None:
        return Path(folder).expanduser()
    if named := os.environ.get("MIXTAILOR_DATA"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        cache = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "mixtailor"


@dataclass(frozen=True)
class PublishedFile:
    """One file: its name without ``.gz``, size and SHA-256 of its content, and of the gzipped file if published."""

    name: str
    size: int
    sha256: str
    gzipped_size: int | None = None
    gzipped_sha256: str | None = None


@dataclass(frozen=True)
class Archive:
    """A gzipped tar file that holds a collection."""

    name: str
    size: int


@dataclass(frozen=True)
class Collection:
    """The files of one data set.

    Parameters
    ----------
    name : str
        What people call it.
    subfolders : tuple of str
        Where the files may be under the data folder; downloads go to the first.
    files : tuple of PublishedFile
        All of them.
    mirrors : tuple of str
        Addresses to which a file's (or the archive's) name is added, tried in order.
    archive : Archive, optional
        Where the files are published as one archive.
    """

    name: str
    subfolders: tuple[str, ...]
    files: tuple[PublishedFile, ...]
    mirrors: tuple[str, ...]
    archive: Archive | None = None

    def find(self, file: PublishedFile, folder: Path) -> Path | None:
        """The file, plain or gzipped, in one of the subfolders or in the folder itself."""
        places = [folder / subfolder for subfolder in self.subfolders] + [folder]
        names = (file.name, f"{file.name}.gz")
        return next((place / name for place in places for name in names if (place / name).is_file()), None)

    def locate(
        self, folder: str | os.PathLike[str] | None = None, *, download: bool = True, progress: Progress | None = None
    ) -> dict[str, Path]:
        """The path of each file by its name; what is absent is downloaded first, if `download` allows."""
        home = data_folder(folder)
        absent = [file for file in self.files if self.find(file, home) is None]
        if absent and download:
            self._download(absent, home, progress)
        elif absent:
            raise DataError(
                f"{self.name} is not complete in {home}. Put there: {self._wanted(absent)}; or allow download, "
                "by download=True or by MIXTAILOR_DOWNLOAD=1 in the environment."
            )
        found = {file.name: self.find(file, home) for file in self.files}
        return {name: path for name, path in found.items() if path is not None}

    def check(self, name: str, path: Path, digest: str) -> None:
        """Raise unless `digest`, the SHA-256 of the content of `path`, is that of the published file `name`."""
        published = {file.sha256: file.name for file in self.files}
        if (really := published.get(digest)) == name:
            return
        if really is not None:
            raise DataError(
                f"{path} should be {name} of {self.name} and is {really}: the files were swapped. Rename them."
            )
        raise DataError(
            f"{path} is not the published {name} of {self.name}: its content has SHA-256 {digest}. It is corrupted, "
            "or other data under this name. Get it again, or read your own with read_idx or read_cifar into a Dataset."
        )

    def _download(self, absent: list[PublishedFile], home: Path, progress: Progress | None) -> None:
        target = home / self.subfolders[0]
        try:
            if self.archive is not None:
                self._download_archive(self.archive, absent, target, progress)
                return
            for file in absent:
                size, sha256 = file.gzipped_size or file.size, file.gzipped_sha256 or file.sha256
                name = f"{file.name}.gz" if file.gzipped_sha256 else file.name
                self._fetch(name, target / name, size, sha256, progress)
        except (DataError, OSError) as error:
            raise DataError(
                f"{self.name} is not complete in {home}, and the download failed. Put there: {self._wanted(absent)}; "
                f"or point MIXTAILOR_DATA at a folder that has them. {error}"
            ) from error

    def _download_archive(
        self, archive: Archive, absent: list[PublishedFile], target: Path, progress: Progress | None
    ) -> None:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target, prefix=".download-") as working:
            path = Path(working, archive.name)
            self._fetch(archive.name, path, archive.size, None, progress)
            self._unpack(path, absent, target)

    def _fetch(self, name: str, target: Path, size: int, sha256: str | None, progress: Progress | None) -> None:
        failures = []
        for mirror in self.mirrors:
            try:
                fetch(mirror + name, target, size=size, sha256=sha256, progress=progress)
            except DataError as error:
                failures.append(str(error))
            else:
                return
        raise DataError(" ".join(failures) or f"No address is known for {name}.")

    def _unpack(self, archive: Path, absent: list[PublishedFile], target: Path) -> None:
        wanted = {file.name: file for file in absent}
        most = sum(file.size for file in self.files) + 2**20  # the files, and tar's own blocks
        try:
            with (
                gzip.open(archive) as content,
                tarfile.open(fileobj=cast("IO[bytes]", _Bounded(content, most)), mode="r|") as members,
            ):
                for member in members:
                    file = wanted.get(Path(member.name).name)
                    source = members.extractfile(member) if file is not None and member.isreg() else None
                    if file is None or source is None or member.size != file.size:
                        continue
                    content_of_file = source.read(file.size)
                    self.check(file.name, archive, hashlib.sha256(content_of_file).hexdigest())
                    with atomic_write(target / file.name) as out:
                        out.write(content_of_file)
                    del wanted[file.name]
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            raise DataError(f"{archive.name} is damaged: {error}.") from error
        if wanted:
            raise DataError(f"{archive.name} does not hold {', '.join(wanted)}.")

    def _wanted(self, files: list[PublishedFile]) -> str:
        return ", ".join(f"{self.subfolders[0]}/{file.name}[.gz]" for file in files)


class _Bounded:
    """A stream that ends after `most` bytes, whatever the one behind it would still give."""

    def __init__(self, stream: gzip.GzipFile, most: int) -> None:
        self._stream = stream
        self._left = most

    def read(self, count: int) -> bytes:
        piece = self._stream.read(min(count, self._left))
        self._left -= len(piece)
        return piece


MNIST = Collection(
    "MNIST",
    ("mnist", "MNIST/raw"),
    (
        PublishedFile(
            "train-images-idx3-ubyte",
            47_040_016,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        PublishedFile(
            "train-labels-idx1-ubyte",
            60_008,
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        PublishedFile(
            "t10k-images-idx3-ubyte",
            7_840_016,
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        PublishedFile(
            "t10k-labels-idx1-ubyte",
            10_008,
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
)

CIFAR10 = Collection(
    "CIFAR-10",
    ("cifar10", "cifar-10-batches-bin"),
    tuple(
        PublishedFile(name, 30_730_000, sha256)
        for name, sha256 in (
            ("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
            ("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
            ("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
            ("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
            ("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
            ("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
        )
    ),
    ("https://www.cs.toronto.edu/~kriz/",),
    Archive("cifar-10-binary.tar.gz", 170_052_171),
)
