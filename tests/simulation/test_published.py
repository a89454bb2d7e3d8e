"""Published collections: found, checked, downloaded whole or not at all."""

import dataclasses
import gzip
import hashlib
import io
import shutil
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from mixtailor.simulation import DataError, cifar10, data_folder, mnist
from mixtailor.simulation.published import Archive, Collection, PublishedFile

CONTENT = {"one": b"first file" * 50, "two": b"second file" * 70}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Server:
    """A web server on this machine that serves what it is told to, and remembers what was asked."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.announced: dict[str, int] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                page = outer.pages.get(self.path)
                if page is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(outer.announced.get(self.path, len(page))))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def collection(server: Server) -> Collection:
    files = []
    for name, content in CONTENT.items():
        packed = gzip.compress(content, mtime=0)
        server.pages[f"/{name}.gz"] = packed
        files.append(PublishedFile(name, len(content), sha256(content), len(packed), sha256(packed)))
    return Collection("Tiny", ("tiny", "other"), tuple(files), (server.address + "absent/", server.address))


def everything_under(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_absent_files_are_downloaded_once_with_progress(tmp_path: Path, collection: Collection, server: Server) -> None:
    """A mirror that does not answer is passed over; what is there is not asked for again."""
    seen: list[tuple[str, int, int]] = []
    paths = collection.locate(tmp_path, progress=lambda *step: seen.append(step))
    assert {name: gzip.decompress(path.read_bytes()) for name, path in paths.items()} == CONTENT
    assert everything_under(tmp_path) == ["tiny/one.gz", "tiny/two.gz"]
    assert seen[-1] == ("two.gz", len(server.pages["/two.gz"]), len(server.pages["/two.gz"]))
    asked = len(server.asked)
    collection.locate(tmp_path)
    assert len(server.asked) == asked


def test_files_are_found_plain_gzipped_and_in_every_place(tmp_path: Path, collection: Collection) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "one").write_bytes(b"")
    (tmp_path / "two.gz").write_bytes(b"")
    assert collection.locate(tmp_path, download=False) == {"one": tmp_path / "other/one", "two": tmp_path / "two.gz"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda page: page[:-1], "ended after"),
        (lambda page: page + b"0", "more than the"),
        (lambda page: page[:-1] + bytes([page[-1] ^ 1]), "was published"),
    ],
)
def test_a_wrong_download_leaves_nothing(  # type: ignore[no-untyped-def]  # lambdas above
    tmp_path: Path, collection: Collection, server: Server, change, words: str
) -> None:
    server.pages["/two.gz"] = change(server.pages["/two.gz"])
    with pytest.raises(DataError, match=words) as raised:
        collection.locate(tmp_path)
    assert "MIXTAILOR_DATA" in str(raised.value) and "tiny/two" in str(raised.value)
    assert everything_under(tmp_path) == ["tiny/one.gz"]


def test_a_connection_that_breaks_leaves_nothing(tmp_path: Path, collection: Collection, server: Server) -> None:
    server.announced["/one.gz"] = 10**6
    server.pages["/one.gz"] = server.pages["/one.gz"][:20]
    with pytest.raises(DataError, match=r"ended after|could not be downloaded"):
        collection.locate(tmp_path)
    assert everything_under(tmp_path) == []


def test_no_network_and_no_permission_to_download_are_told(tmp_path: Path, collection: Collection) -> None:
    with pytest.raises(DataError, match=r"Put there: tiny/one\[.gz\], tiny/two\[.gz\]; or allow download"):
        collection.locate(tmp_path, download=False)
    alone = dataclasses.replace(collection, mirrors=("http://127.0.0.1:9/", "file:///etc/"))
    with pytest.raises(DataError, match=r"cannot be reached.*Only http and https"):
        alone.locate(tmp_path)


def archive_of(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"folder/one": CONTENT["one"], "../../two": CONTENT["two"], "readme": b"hello"}, None),
        ({"folder/one": CONTENT["one"]}, "does not hold two"),
        ({"one": CONTENT["one"], "two": CONTENT["two"][:-1] + b"!"}, "corrupted"),
        ({"bomb": bytes(3 * 2**20), **CONTENT}, "damaged|does not hold"),
    ],
)
def test_an_archive_is_read_by_name_and_checked(
    tmp_path: Path, collection: Collection, server: Server, members: dict[str, bytes], words: str | None
) -> None:
    """Members go to their own names in the folder, wherever the archive says; too many bytes are not read."""
    packed = archive_of(members)
    server.pages["/all.tar.gz"] = packed
    whole = dataclasses.replace(collection, archive=Archive("all.tar.gz", len(packed)))
    home = tmp_path / "a" / "b"
    if words is None:
        assert {name: path.read_bytes() for name, path in whole.locate(home).items()} == CONTENT
        assert everything_under(tmp_path) == ["a/b/tiny/one", "a/b/tiny/two"]
    else:
        with pytest.raises(DataError, match=words):
            whole.locate(home)
        assert not any("two" in name or ".part" in name or "all" in name for name in everything_under(tmp_path))


def test_damaged_archives_are_told(tmp_path: Path, collection: Collection, server: Server) -> None:
    for packed in (b"no archive", archive_of(CONTENT)[:-30], gzip.compress(b"x" * 5000)):
        server.pages["/all.tar.gz"] = packed
        whole = dataclasses.replace(collection, archive=Archive("all.tar.gz", len(packed)))
        with pytest.raises(DataError, match=r"damaged|does not hold"):
            whole.locate(tmp_path)


def test_the_folder_is_the_argument_the_variable_or_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIXTAILOR_DATA", "/from/variable")
    assert data_folder("/from/argument") == Path("/from/argument")
    assert data_folder() == Path("/from/variable")
    monkeypatch.delenv("MIXTAILOR_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setattr("sys.platform", "linux")
    assert data_folder() == Path("/cache/mixtailor")


def test_mnist_is_read_and_checked(shared_data: Path, tmp_path: Path) -> None:
    """The published files are accepted gzipped, unpacked and directly in the folder; anything else is told."""
    data = mnist(shared_data, download=False)
    assert data.train_inputs.shape == (60_000, 1, 28, 28) and data.test_inputs.shape == (10_000, 1, 28, 28)
    assert data.train_labels[:5].tolist() == [5, 0, 4, 1, 9] and data.train_inputs.dtype == torch.uint8
    inputs, _ = data.train(range(2000))
    assert abs(float(inputs.mean())) < 0.02 and abs(float(inputs.std()) - 1) < 0.02

    for path in (shared_data / "mnist").iterdir():
        shutil.copy(path, tmp_path / path.name)
    packed = tmp_path / "t10k-labels-idx1-ubyte.gz"
    content = gzip.decompress(packed.read_bytes())
    packed.unlink()
    labels = tmp_path / "t10k-labels-idx1-ubyte"
    labels.write_bytes(content)
    assert torch.equal(mnist(tmp_path, download=False).test_labels, data.test_labels)

    labels.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DataError, match="corrupted"):
        mnist(tmp_path, download=False)
    labels.write_bytes(content[:-1])
    with pytest.raises(DataError, match="truncated"):
        mnist(tmp_path, download=False)
    labels.write_bytes(gzip.decompress((tmp_path / "train-labels-idx1-ubyte.gz").read_bytes()))
    with pytest.raises(DataError, match="is train-labels-idx1-ubyte: the files were swapped"):
        mnist(tmp_path, download=False)
    shutil.copy(tmp_path / "t10k-images-idx3-ubyte.gz", labels)
    with pytest.raises(DataError, match="images and labels were swapped"):
        mnist(tmp_path, download=False)


def test_cifar10_is_read_and_checked(shared_data: Path, tmp_path: Path) -> None:
    data = cifar10(shared_data, download=False)
    assert data.train_inputs.shape == (50_000, 3, 32, 32) and data.test_inputs.shape == (10_000, 3, 32, 32)
    assert data.train_labels.bincount().tolist() == [5_000] * 10
    assert data.train_inputs[0, :, 0, 0].tolist() == [59, 62, 63]
    inputs, _ = data.train(range(2000))
    assert abs(float(inputs.mean())) < 0.05

    (tmp_path / "cifar10").mkdir()
    for path in (shared_data / "cifar10").iterdir():
        (tmp_path / "cifar10" / path.name).symlink_to(path)
    (tmp_path / "cifar10" / "data_batch_1.bin").symlink_to(shared_data / "cifar10" / "data_batch_2.bin.gz")
    with pytest.raises(
        DataError, match=r"data_batch_1\.bin of CIFAR-10 and is data_batch_2\.bin: the files were swapped"
    ):
        cifar10(tmp_path, download=False)
