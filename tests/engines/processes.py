"""A group of real processes for a test: started, awaited for a bounded time, ended by their own handles."""

import datetime
import gc
import multiprocessing
import os
import pickle
import time
import traceback
import warnings

import torch
import torch.distributed as dist

# A guard against ranks that wait for ever; a machine with much else to do needs more.
SECONDS = float(os.environ.get("MIXTAILOR_TEST_SECONDS", "300"))


def _rank(body, rank, count, folder, grouped, arguments):
    torch.set_num_threads(1)
    warnings.simplefilter("error")  # as in the process of the tests
    try:
        if grouped:
            dist.init_process_group(
                "gloo",
                init_method=f"file://{folder}/meeting",
                rank=rank,
                world_size=count,
                timeout=datetime.timedelta(seconds=SECONDS / 2),
            )
        found = "answer", body(rank, count, *arguments)
        if grouped:
            dist.barrier()
            gc.collect()  # a DDP model in a cycle would hold the group
            dist.destroy_process_group()
    except BaseException:
        found = "error", traceback.format_exc()
    (folder / f"rank{rank}.part").write_bytes(pickle.dumps(found))
    (folder / f"rank{rank}.part").rename(folder / f"rank{rank}")


def _loaded(path):
    return pickle.loads(path.read_bytes())  # noqa: S301  # our own rank wrote it


class Processes:
    """Ranks that are running."""

    def __init__(self, body, count, folder, *arguments, grouped=True):
        # Processes of their own, forked off one that has imported what they need: importing is what takes the time.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch.nn.parallel", "mixtailor", "mixtailor.engines.distributed"])
        self.folder, self.count = folder, count
        self.started = [
            context.Process(target=_rank, args=(body, rank, count, folder, grouped, arguments), daemon=True)
            for rank in range(count)
        ]
        for process in self.started:
            process.start()

    def answers(self, seconds=SECONDS):
        """What each rank returned, None for one that was killed; a rank's error is raised here."""
        deadline = time.monotonic() + seconds
        try:
            for process in self.started:
                process.join(max(0.0, deadline - time.monotonic()))
            late = [rank for rank, process in enumerate(self.started) if process.is_alive()]
            assert not late, f"ranks {late} did not end within {seconds} s"
        finally:
            for process in self.started:
                if process.is_alive():
                    process.kill()
                    process.join(10)
        found = []
        for rank in range(self.count):
            path = self.folder / f"rank{rank}"
            kind, answer = _loaded(path) if path.exists() else ("answer", None)
            assert kind == "answer", f"rank {rank}: {answer}"
            found.append(answer)
        return found


def run(body, count, folder, *arguments, grouped=True):
    """What `body(rank, count, *arguments)` returned on each rank."""
    return Processes(body, count, folder, *arguments, grouped=grouped).answers()
